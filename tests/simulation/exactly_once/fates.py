"""What happens at each await: a crash, a pause, a fault of the brokers, or nothing.

Every call into the fake Kafka, and every look at the checkpoint, asks here before and after its
effect. All chances come from one seed, so the same seed makes the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from zlib import crc32

from tests.simulation.exactly_once.actors import Actor, Process, Stage

from checkback.client.direct.session import RETRY_BACKOFF_MS
from checkback.testing.fake_kafka import Awaits, Fault, SimulatedCrash

STEP_MS = 1.0
SPOKEN_FOR_WITHIN_MS = 600_000.0
REFUSED, LOST, HANGS = Fault.REFUSED, Fault.LOST, Fault.HANGS
LATE, TWICE = Fault.LATE, Fault.TWICE
FAULTS: dict[str, tuple[Fault, ...]] = {
    "init_transactions": (REFUSED, LOST, HANGS),
    "produce": (REFUSED,),
    "flush": (REFUSED,),
    "send_offsets": (REFUSED, LOST, HANGS),
    "commit_transaction": (REFUSED, LOST, LOST, LATE, TWICE, TWICE),
    "consumer.poll": (REFUSED,),
    "consumer.watermarks": (REFUSED,),
    "consumer.committed": (REFUSED,),
    "list_topics": (REFUSED,),
    "describe_configs": (REFUSED,),
}
"""What may go wrong with a call, beside that its caller dies."""
SERVICE_FAULTS = {
    "flush": (REFUSED,),
    "init_transactions": (REFUSED, LOST, HANGS),
    "fence": (HANGS,),
    "commit_transaction": (REFUSED, LOST, LATE, TWICE, TWICE, TWICE, TWICE),
    "send op": (LOST,),
    "confirm op": (REFUSED, LOST),
}
"""The same for calls of the application's processes, which deliver directly."""


@dataclass(frozen=True)
class Chances:
    """How likely things are, at each await.

    Args:
        crash: the process dies, before the effect or after it.
        turn: others run first.
        sleep: the process is suspended for seconds, and goes on as a zombie.
        fault: the brokers refuse or do not answer.
        again: a call that went wrong goes wrong once more.
        sends_already: a producer's thread sends a record before it is flushed.
        slow_marker: the markers of a transaction take their time.
    """

    crash: float = 0.02
    turn: float = 0.04
    sleep: float = 0.015
    fault: float = 0.03
    again: float = 0.6
    sends_already: float = 0.2
    slow_marker: float = 0.15


SERVICE_CHANCES = Chances(crash=0.01, turn=0.15, sleep=0.015, fault=0.08, sends_already=0.5)
"""A process that delivers directly makes few calls for each message."""
SERVICE_FAULT_CHANCES = {"commit_transaction": 0.3, "fence": 0.3}
"""Everything depends on these two."""
DELIVERING = ("begin_transaction", "flush", "commit_transaction")
"""Calls at which an owner falls asleep ten times as often: what it does later can do harm."""
DELIVERING_SLEEPS = 10


class Fates(Awaits):
    """Decides at each await, and keeps what it decided.

    Args:
        stage: who is running.
        random: of everything that is left to chance here.
        chances: how likely what is.
    """

    def __init__(self, stage: Stage, random: Random, chances: Chances) -> None:
        super().__init__(stage.clock)
        self.stage = stage
        self.random = random
        self.chances = chances
        self.service_chances = SERVICE_CHANCES
        self.is_calm = False
        self.crashed_at: Counter[tuple[str, str]] = Counter()
        self.services_died_at: Counter[tuple[str, str]] = Counter()
        self.met: Counter[str] = Counter()
        self.hash = 0
        self.told: list[str] | None = None
        self.spoken_for: Callable[[Process, str], int] = lambda _process, _how: 0
        self.flushed: Callable[[], None] = lambda: None
        self._went_wrong: dict[tuple[str, str], bool] = {}

    @property
    def crashes(self) -> int:
        """Those of the pipeline."""
        return self.crashed_at.total()

    def before(self, call: str) -> Fault | None:
        actor = self.stage.current
        if actor is None:
            return None
        self._reached(actor, call)
        if self.is_calm:
            return None
        self._perhaps_die(actor, call, "before")
        return self._fault(actor, call)

    def after(self, call: str) -> None:
        actor = self.stage.current
        if call == "flush" and actor is not None and not actor.process.is_service:
            self.flushed()
        if actor is not None and not self.is_calm:
            self._perhaps_die(actor, call, "after")

    def wait(
        self, is_so: Callable[[], bool], until_ms: float, next_event_ms: Callable[[], float]
    ) -> bool:
        if self.stage.current is None:
            return super().wait(is_so, until_ms, next_event_ms)
        while not is_so():
            if self.clock.now_ms >= until_ms:
                return False
            self.stage.pause(is_so, until_ms)
        return True

    def sends_already(self) -> bool:
        actor = self.stage.current
        chances = self.chances if actor is None else self._chances_of(actor)
        return self.random.random() < chances.sends_already

    def fetched(self, most: int) -> int:
        return min(most, self.random.choice((1, 3, most)))

    def marker_delay_ms(self) -> float:
        if self.is_calm or self.random.random() >= self.chances.slow_marker:
            return 0.0
        self.met["slow markers"] += 1
        return self.random.choice((5.0, 200.0, 3_000.0))

    def request_delay_ms(self) -> float:
        again_ms = RETRY_BACKOFF_MS + 60.0 * self.random.random()
        return self.random.choice((again_ms, 9_000.0, 120_000.0))

    def kill(self, actor: Actor, call: str, side: str) -> None:
        """Have the process of the current actor die here.

        Raises:
            SimulatedCrash: always.
        """
        actor.process.is_dead = True
        counted = self.services_died_at if actor.process.is_service else self.crashed_at
        counted[call, side] += 1
        self.tell(f"{actor.name} dies {side} {call}")
        raise SimulatedCrash

    def tell(self, what: str) -> None:
        """Add a line to what the run did: it is hashed, and kept where somebody wants to read."""
        self.hash = crc32(what.encode(), self.hash)
        if self.told is not None:
            self.told.append(f"{self.clock.now_ms - 1_700_000_000_000:9.0f} {what}")

    def _reached(self, actor: Actor, call: str) -> None:
        if actor.process.is_dead:
            raise SimulatedCrash
        self.clock.now_ms += STEP_MS
        self.tell(f"{actor.name} {call}")

    def _chances_of(self, actor: Actor) -> Chances:
        return self.service_chances if actor.process.is_service else self.chances

    def _perhaps_die(self, actor: Actor, call: str, side: str) -> None:
        chances, draw = self._chances_of(actor), self.random.random()
        if draw < chances.crash:
            self.kill(actor, call, side)
        draw -= chances.crash
        is_delivering = actor.process.is_service and call in DELIVERING
        if draw < chances.turn:
            self.stage.pause(None, self.clock.now_ms)
        elif draw < chances.turn + chances.sleep * (DELIVERING_SLEEPS if is_delivering else 1):
            pause_ms = self.random.choice((300.0, 4_000.0, 12_000.0, 30_000.0))
            self.tell(f"{actor.name} is suspended {side} {call}")
            if actor.process.is_service:
                self._suspend_service(actor.process, pause_ms)
            else:
                self.met["zombies"] += 1
                self.stage.pause(None, self.clock.now_ms + pause_ms)

    def _suspend_service(self, process: Process, pause_ms: float) -> None:
        """Let it sleep, mostly until somebody has spoken for it: then it does most harm."""
        self.met["suspended services"] += 1
        if self.random.random() < 0.3:
            self.stage.pause(None, self.clock.now_ms + pause_ms)
            return
        how = self.random.choice(("answered", "fenced"))
        before = self.spoken_for(process, how)
        until_ms = self.clock.now_ms + SPOKEN_FOR_WITHIN_MS
        self.stage.pause(lambda: self.spoken_for(process, how) > before, until_ms)
        self.met[f"zombies that were {how}"] += self.spoken_for(process, how) > before

    def _fault(self, actor: Actor, call: str) -> Fault | None:
        is_service = actor.process.is_service
        possible = (SERVICE_FAULTS if is_service else FAULTS).get(call)
        if possible is None:
            return None
        key = (actor.process.name, call)
        chances = self._chances_of(actor)
        chance = chances.again if self._went_wrong.get(key) else chances.fault
        if is_service:
            chance = SERVICE_FAULT_CHANCES.get(call, chance)
        self._went_wrong[key] = self.random.random() < chance
        if not self._went_wrong[key]:
            return None
        fault = self.random.choice(possible)
        of = "service's " if is_service else ""
        self.met[f"{of}{call} {fault.name.lower()}"] += 1
        self.tell(f"{actor.name} {call} {fault.name}")
        return fault
