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

from tests.fakes.kafka import Awaits, Fault, SimulatedCrash
from tests.simulation.exactly_once.actors import Actor, Stage

from checkback.sinks.kafka.transaction.producer import RETRY_BACKOFF_MS

STEP_MS = 1.0
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
    "list_offsets": (REFUSED,),
}
"""What may go wrong with a call, beside that its caller dies."""


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
        self.is_calm = False
        self.crashed_at: Counter[tuple[str, str]] = Counter()
        self.met: Counter[str] = Counter()
        self.hash = 0
        self.told: list[str] | None = None
        self.flushed: Callable[[], None] = lambda: None
        self._went_wrong: dict[tuple[str, str], bool] = {}

    @property
    def crashes(self) -> int:
        """How many there were."""
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
        if call == "flush" and actor is not None:
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
        return self.random.random() < self.chances.sends_already

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
        self.crashed_at[call, side] += 1
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

    def _perhaps_die(self, actor: Actor, call: str, side: str) -> None:
        chances, draw = self.chances, self.random.random()
        if draw < chances.crash:
            self.kill(actor, call, side)
        draw -= chances.crash
        if draw < chances.turn:
            self.stage.pause(None, self.clock.now_ms)
        elif draw < chances.turn + chances.sleep:
            pause_ms = self.random.choice((300.0, 4_000.0, 12_000.0, 30_000.0))
            self.tell(f"{actor.name} is suspended {side} {call}")
            self.met["zombies"] += 1
            self.stage.pause(None, self.clock.now_ms + pause_ms)

    def _fault(self, actor: Actor, call: str) -> Fault | None:
        possible = FAULTS.get(call)
        if possible is None:
            return None
        key = (actor.process.name, call)
        chance = self.chances.again if self._went_wrong.get(key) else self.chances.fault
        self._went_wrong[key] = self.random.random() < chance
        if not self._went_wrong[key]:
            return None
        fault = self.random.choice(possible)
        self.met[f"{call} {fault.name.lower()}"] += 1
        self.tell(f"{actor.name} {call} {fault.name}")
        return fault
