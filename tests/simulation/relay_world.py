"""Kafka, Spark's logs, relays and drivers of one half partition, for the relay's side of the job.

The switch, the terms of each batch and the page are the real ones. Everything they reach is here:
each call into this world lets others go on, and may be the last of its process.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from greenlet import getcurrent, greenlet
from tests.deciding import rules
from tests.property.model import COMMIT, DELIVERED, ROLLBACK, Record
from tests.property.paged import acts_of, events_of

from checkback.checkpoints.own_files.batch_terms import AccessVersion
from checkback.checkpoints.own_files.decided_topic import FILE, KnownDecidedTopic
from checkback.checkpoints.spark_files.logs import Offsets, PlannedBatch, parse_offsets
from checkback.protocol.configuration import Settings
from checkback.protocol.decided import Closed, PartitionNote, RelayMark, Taken
from checkback.protocol.errors import CheckpointError, FencedError
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.read.list_offsets import NO_EPOCH, LogEnd
from checkback.state import Action, EventKind, Page, decide
from checkback.state.steps.ops import WAITING_OPS_PER_OFFSET_MAX
from checkback.streaming.batch.terms import BatchPlans, TaskTerms, TermsOfRun
from checkback.streaming.relay.marks import LAST_RECORDS
from checkback.streaming.relay.switch import RelaySwitch
from checkback.streaming.relay.terms import RelayTermsOfRun
from checkback.streaming.start.planned_run import PlannedRun

NAMES = TopicNames()
PAGE_SIZE = 4_096
RULES = rules(transaction_timeout_ms=200, check_interval_ms=200, check_max=1,
              half_retention_ms=10**9, verdict_retention_ms=10**8)  # fmt: skip
BEGUN_MS = 1_000_000
PRODUCES = 0.25
"""How often an application does something, of all steps."""
OPS_MAX = WAITING_OPS_PER_OFFSET_MAX
"""How many ops one half gets: the page lets no more wait for it."""


class CrashError(BaseException):
    """A process dies where it stands."""


class Op(NamedTuple):
    """An op on the op topic."""

    half: int
    state: int
    time_ms: int
    is_early: bool


class Made(NamedTuple):
    """What a relay made of an op."""

    kind: str
    op: int


@dataclass(eq=False)
class Actor:
    """A driver or a relay."""

    name: str
    body: Callable[[], object]
    thread: Any = None
    is_dead: bool = False
    failure: BaseException | None = None

    @property
    def is_over(self) -> bool:
        return self.thread is not None and self.thread.dead


class World:
    """All that outlives a process.

    Args:
        random: what happens next.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = BEGUN_MS
        self.half_times: list[int] = []
        self.ops: list[Op] = []
        self.decided: list[Made | PartitionNote] = []
        self.files: dict[str, str] = {}
        self.commits: set[int] = set()
        self.written: set[int] = set()
        self.states: dict[int, bytes] = {}
        self.hidden: dict[int, frozenset[int]] = {}
        self.visible: Counter[int] = Counter()
        self.discarded: set[int] = set()
        self.refused: set[tuple[int, int]] = set()
        self.epoch = self.topic_epoch = self.generation = self.position = 0
        self.members: set[int] = set()
        self.actors: list[Actor] = []
        self.crashes = 0
        self.met: Counter[str] = Counter()

    def ends(self) -> dict[str, int]:
        """Return where the topics end."""
        halves, ops, decided = len(self.half_times), len(self.ops), len(self.decided)
        return {NAMES.half: halves, NAMES.op: ops, NAMES.decided: decided}

    # What processes do.

    def spawn(self, name: str, body: Callable[[], object]) -> Actor:
        actor = Actor(name, body)
        self.actors.append(actor)
        return actor

    def pause(self) -> None:
        """Let others go on; the caller may be dead afterwards."""
        self.now_ms += self.random.choice((0, 1, 20, 150))
        parent = getcurrent().parent
        assert parent is not None, "pause() is for actors"
        parent.switch()

    def step(self, actor: Actor) -> None:
        """Let an actor go on until it calls the world again."""
        if actor.thread is None:
            actor.thread = greenlet(self._run)
        if actor.is_dead:
            actor.thread.throw(CrashError)
        else:
            actor.thread.switch(actor)
        if actor.is_over:
            self.actors.remove(actor)

    def kill(self, actor: Actor) -> None:
        actor.is_dead = True
        self.crashes += 1
        if actor.thread is None:
            self.actors.remove(actor)
        else:
            self.step(actor)

    @staticmethod
    def _run(actor: Actor) -> None:
        try:
            actor.body()
        except CrashError:
            pass
        except (CheckpointError, FencedError) as failure:
            actor.failure = failure

    # What applications do.

    def produce(self) -> None:
        random = self.random
        if random.random() < 0.4:
            if random.random() < 0.2:  # a forged op before its half
                self.forge(len(self.half_times) + random.randrange(6))
            else:
                self.half_times.append(self.now_ms)
        elif self.half_times:
            half = max(0, len(self.half_times) - random.choice((1, 1, 2, 9, 25)))
            if sum(op.half == half for op in self.ops) < OPS_MAX:
                self._op(half, random.choice((COMMIT, COMMIT, ROLLBACK)))

    def forge(self, half: int) -> None:
        """Send an op that may come before its half."""
        self._op(half, ROLLBACK)

    def _op(self, half: int, state: int) -> None:
        self.ops.append(Op(half, state, self.now_ms, half >= len(self.half_times)))

    # What it all has to come to.

    def last_word(self) -> PartitionNote | None:
        notes = [one for one in self.decided if not isinstance(one, Made)]
        return notes[-1] if notes else None


class Store:
    """A checkpoint, for the process that holds it."""

    path = "checkpoint"

    def __init__(self, world: World) -> None:
        self.world = world

    def last_batch(self, log: str) -> int | None:
        self.world.pause()
        if log == "commits":
            return max(self.world.commits, default=None)
        return max(
            (int(name[8:]) for name in self.world.files if name.startswith("offsets/")),
            default=None,
        )

    def planned(self, batch: int) -> PlannedBatch:
        return parse_offsets(self.read(f"offsets/{batch}"))

    def read(self, name: str) -> bytes:
        return self.world.files[name].encode()

    def create(self, name: str, text: str) -> bool:
        self.world.pause()
        return self.world.files.setdefault(name, text) is text

    def create_own(self, name: str, text: str) -> bool:
        return self.create(f"checkback/{name}", text)

    def read_own(self, name: str) -> str | None:
        return self.world.files.get(f"checkback/{name}")

    def replace_own(self, name: str, text: str) -> None:
        self.world.pause()
        self.world.files[f"checkback/{name}"] = text

    def delete_own(self, name: str) -> None:
        self.world.files.pop(f"checkback/{name}", None)

    def own_numbers(self, folder: str) -> list[int]:
        start = f"checkback/{folder}/"
        names = [name[len(start) : -5] for name in self.world.files if name.startswith(start)]
        return sorted(int(name) for name in names)


class FakeDecidedTopic:
    """The decided topic, for one start: as DecidedTopic says and does it."""

    name = NAMES.decided
    partitions = 1

    def __init__(self, world: World) -> None:
        self.world = world
        world.topic_epoch += 1
        self.epoch = world.topic_epoch
        self.marked = 0

    def half_ends(self) -> dict[int, int]:
        self.world.pause()
        return {0: len(self.world.half_times)}

    def begins(self) -> dict[int, int]:
        return {0: 0}

    def notes(self, known: Any, _: Any) -> dict[int, list[tuple[Any, int]]]:
        self.world.pause()
        said = enumerate(self.world.decided)
        found = [(note, at) for at, note in said if not isinstance(note, Made)]
        for note, _ in found:
            self.marked = note.position if isinstance(note, RelayMark) else self.marked
        return {0: found[-1:] if known.get(0) else found}

    def take(self, spans: Mapping[int, Taken]) -> None:
        self._commit(list(spans.values()))

    def require_no_relay(self) -> None:
        self.world.pause()
        if self.world.members:
            raise CheckpointError("a relay is alive")

    def close_relays(self, read: Mapping[int, int], taken_from: Mapping[int, int]) -> None:
        world = self.world
        self.require_no_relay()
        world.generation += 1
        generation = world.generation
        world.pause()
        position = max(world.position, taken_from[0], self.marked)
        while position < read[0]:
            end = world.random.randint(position + 1, read[0])
            world.pause()
            halves = len(world.half_times)
            kinds = ("passed", "early")
            made = [Made(kinds[world.ops[at].half >= halves], at) for at in range(position, end)]
            self._commit(made, generation, end)
            position = end
        self._commit([Closed(max(position, read[0]))], generation, max(position, read[0]))

    def _commit(self, records: list[Any], generation: int = 0, position: int = 0) -> None:
        world = self.world
        world.pause()
        if self.epoch != world.topic_epoch or (generation and generation != world.generation):
            raise FencedError("another start took over")
        world.decided += records
        world.position = max(world.position, position)
        world.pause()


class Switch(RelaySwitch):
    """The real one, without a look at the topics of a cluster."""

    def _bind_decided_topic(self) -> int:
        self.store.create_own(FILE, KnownDecidedTopic("of the world").to_json())
        return 1


def relay(world: World, number: int) -> None:
    """A relay of one group: the youngest member has the partition."""
    world.pause()
    world.generation += 1
    generation = world.generation
    world.members = {number}
    world.pause()
    position = world.position
    world.pause()
    first = len(world.half_times)
    word = world.last_word()
    if not isinstance(word, Taken | RelayMark):
        world.members.discard(number)
        return
    position, first = max(position, word.ops_from), max(first, word.halves_from)
    gone, until_ms = set[int](), 0
    while True:
        world.pause()
        end = world.random.choice((len(world.ops), world.random.randint(position, len(world.ops))))
        end = max(end, position)
        until_ms = world.now_ms - 1 if end == len(world.ops) else until_ms
        made = []
        for at in range(position, end):
            half, state, *_ = world.ops[at]
            if half >= len(world.half_times):
                made.append(Made("early", at))
                continue
            is_clean = half >= first and half not in gone
            gone.add(half)
            delivers = is_clean and state == COMMIT and world.random.random() < 0.8
            made.append(Made("delivered" if delivers else "passed", at))
        if world.random.random() < 0.02:  # some leave memory by age
            gone |= set(range(len(world.half_times) - 20))
        floor = next(half for half in range(first, 10**9) if half not in gone)
        world.pause()
        if generation != world.generation:
            world.met["zombie relay"] += bool(made)
            return
        mark = RelayMark(end, floor, until_ms, word.ops_from, word.halves_from)
        world.decided += [*made, mark]
        world.position = position = end
        for one in made:
            if one.kind == "delivered":
                world.visible[world.ops[one.op].half] += 1
                world.met["delivered"] += 1


class Driver:
    """A job over the checkpoint.

    Args:
        world: everything else.
        relay: the setting.
    """

    def __init__(self, world: World, *, relay: bool) -> None:
        self.world = world
        self.store: Any = Store(world)
        self.settings = Settings(relay=relay, batch_events_max=7)
        self.is_to_stop = self.is_ready = False

    def run(self) -> None:
        """Start, and run batches until it is to stop."""
        world = self.world
        world.epoch += 1
        self.epoch = world.epoch
        world.pause()
        switch = self.switch = Switch(
            self.settings,
            self.store,
            lambda _: FakeDecidedTopic(world),  # type: ignore[arg-type,return-value]
            lambda: None,
            lambda: world.now_ms,
        )
        if not switch.prepare(self._planned):
            return
        self.is_ready = True
        terms = self._terms()
        while not self.is_to_stop:
            self._batch(terms, switch.topics)

    def _planned(self, planned: PlannedRun) -> bool:
        """Run one batch, as a query that is triggered once."""
        self._batch(self._terms(), planned.topics, planned.batch)
        return True

    def _batch(
        self, terms: TermsOfRun, topics: tuple[str, ...], only_batch: int | None = None
    ) -> None:
        world = self.world
        batch = self.store.last_batch("offsets")
        if batch is None or batch in world.commits:
            batch = 0 if batch is None else batch + 1
            self._plan(batch, topics)
        if only_batch not in (None, batch):
            world.met["planned in the way"] += 1
            raise FencedError("another job has finished the batch")
        self._execute(batch, terms)

    def _plan(self, batch: int, topics: tuple[str, ...]) -> None:
        world, now = self.world, self.world.ends()
        before = self.store.planned(batch - 1).ends if batch else {}
        if before.keys() - topics:
            # Spark takes a topic for lost that is in the last plan and not in the query. So a job
            # ends that began just before a replaced one let relays take the ops.
            world.met["topic unknown"] += 1
            raise CheckpointError("partitions are gone")
        ends = {}
        for topic in topics:
            if topic in now:
                read = before.get(topic, {}).get(0, 0)
                ends[topic] = {0: min(now[topic], read + world.random.choice((1, 3, 99)))}
        metadata = {"batchTimestampMs": world.now_ms, "conf": {}}
        text = "\n".join(("v1", json.dumps(metadata), json.dumps(ends)))
        if not self.store.create(f"offsets/{batch}", text):
            raise FencedError("concurrent update to the log")

    def _execute(self, batch: int, terms: TermsOfRun) -> None:
        world = self.world
        plans = terms.plans_of(batch)
        found = terms._of_batch(batch, plans)
        until_ms = plans.read_until_ms(0)
        task = TaskTerms(found.rules, until_ms, found.hidden, 0, dict(found.relay))
        world.pause()
        page = Page.unpack(world.states[batch - 1]) if batch else Page.empty(0, 0, PAGE_SIZE)
        decision = decide(
            page, events_of(self._records(plans, task)), plans.batch.timestamp_ms, found.rules,
            read_until_ms=task.read_until_of(0), relay=task.limits_of(0),
        )  # fmt: skip
        packed = decision.page.pack()
        self._store(batch, packed, found.hidden)
        world.pause()
        if self.epoch != world.epoch:
            world.met["zombie driver"] += 1
            raise FencedError("another job took over")
        if batch not in world.written:
            world.written.add(batch)
            self._write(acts_of(decision.outcome), task)
        world.pause()
        world.commits.add(batch)

    def _store(self, batch: int, packed: bytes, hidden: frozenset[int]) -> None:
        """Store what was decided, which a job does also when it is fenced.

        Two that run one batch may find other partitions hidden; then the state of the job counts
        that is not fenced.
        """
        world = self.world
        last, _ = world.states.get(batch), world.hidden.setdefault(batch, hidden)
        if world.hidden[batch] == hidden:
            assert last in (None, packed), f"batch {batch} is decided twice"
        elif self.epoch != world.epoch:
            return
        world.states[batch], world.hidden[batch] = packed, hidden

    def _records(self, plans: BatchPlans, task: TaskTerms) -> list[Record]:
        def span(topic: str) -> range:
            before = {} if plans.before is None else plans.before.ends
            first = before.get(topic, {}).get(0, 0)
            return range(first, plans.batch.ends.get(topic, {}).get(0, 0))

        world, found = self.world, []
        for half in span(NAMES.half):
            found.append(Record(EventKind.HALF, half, half, world.half_times[half], 1, half))
        ops = (at for at in span(NAMES.op) if not self.is_taken(at, task))
        found += [self._op(at, world.ops[at].state) for at in ops]
        for place in span(NAMES.decided):
            made = world.decided[place]
            if isinstance(made, Made):
                state = DELIVERED if made.kind == "delivered" else world.ops[made.op].state
                if made.kind != "early":
                    found.append(self._op(made.op, state))
        return found

    @staticmethod
    def is_taken(at: int, task: TaskTerms) -> bool:
        """Return whether relays take an op, as BatchTerms.java does."""
        spans = task.relay[0].spans if 0 in task.relay else ()
        return any(
            one.ops_from <= at and (one.ops_until is None or at < one.ops_until) for one in spans
        )

    def _op(self, at: int, state: int) -> Record:
        op = self.world.ops[at]
        return Record(EventKind.OP, op.half, at, op.time_ms, 1, op.half, state)

    def _write(self, acts: list[Any], task: TaskTerms) -> None:
        world = self.world
        for act in acts:
            if act.action == Action.COMMIT:
                world.visible[act.offset] += 1
            elif act.action in (Action.DISCARD_CHECK_LIMIT, Action.DISCARD_EXPIRED):
                world.discarded.add(act.offset)
                world.met["discarded"] += 1
                until_ms = task.read_until_of(0)
                late = [
                    op
                    for op in world.ops
                    if op.half == act.offset and op.time_ms <= until_ms and not op.is_early
                ]
                assert not late, f"half {act.offset} is discarded, and its op was read: {late}"
            elif act.action == Action.REFUSE_OP:
                assert act.detail not in NEVER, (act, RefusedReason(act.detail))
                is_early = act.detail == RefusedReason.OP_WITHOUT_HALF
                assert not is_early or world.ops[act.source].is_early, (
                    f"an honest op is refused {act}"
                )

    def _terms(self) -> TermsOfRun:
        world, spans = self.world, self.switch.spans
        reading = RelayTermsOfRun(NAMES, spans, self._newest_marks) if spans else None
        return TermsOfRun(
            self.store, self.store, RULES, AccessVersion(), self._ends,
            lambda _, __, ends: ends, dict, lambda: 0,
            lambda batch: batch in world.written, NAMES.half, PAGE_SIZE, reading,
        )  # fmt: skip

    def _ends(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], LogEnd]:
        world = self.world
        world.pause()
        return {place: LogEnd(world.ends()[place[0]], NO_EPOCH) for place in places}

    def _newest_marks(self, ends: Mapping[int, int]) -> dict[int, RelayMark]:
        first = max(0, ends[0] - LAST_RECORDS)
        found = [one for one in self.world.decided[first : ends[0]] if isinstance(one, RelayMark)]
        return {0: found[-1]} if found else {}


NEVER = (
    RefusedReason.DELIVERED_AFTER_COMMIT,
    RefusedReason.DELIVERED_AFTER_ROLLBACK,
    RefusedReason.DELIVERED_AFTER_DISCARD,
)


@dataclass
class Life:
    """One run of the world, from a seed.

    Args:
        seed: says what happens.
        steps: until it calms down.
    """

    seed: int
    steps: int = 600
    world: World = field(init=False)
    driver: Driver | None = None
    driver_actor: Actor | None = None
    relays: int = 0

    def __post_init__(self) -> None:
        self.world = World(Random(self.seed))
        for half in range(self.world.random.randrange(8)):
            self.world.forge(half)

    def go(self) -> World:
        """Live it and check it."""
        world, random = self.world, self.world.random
        pace = random.choice((1, 1, 5))
        for _ in range(self.steps * (2 if pace > 1 else 1)):
            chance = (random.random() - PRODUCES) * pace
            if chance < 0:
                world.produce()
            elif chance < 0.01:
                self._start_driver(relay=random.random() < 0.6)
            elif chance < 0.025 and world.actors:
                world.kill(random.choice(world.actors))
            elif chance < 0.045:
                self._start_relay()
            elif chance < 0.0475:
                self._repartition()
            elif chance < 0.05:
                world.members.clear()  # their sessions time out; they may go on as zombies
                world.generation += 1
            elif world.actors:
                world.step(random.choice(world.actors))
            self._check()
        self._calm_down(relay=random.random() < 0.5)
        return world

    def _start_driver(self, *, relay: bool) -> None:
        if self.driver_actor in self.world.actors and self.world.random.random() < 0.5:
            self.world.kill(self.driver_actor)
        if not relay and self.world.random.random() < 0.8:
            self.world.members.clear()
        self.driver = Driver(self.world, relay=relay)
        self.driver_actor = self.world.spawn(f"driver {relay}", self.driver.run)

    def _repartition(self) -> None:
        """Drop the plan that is not begun, and append a batch, as the command does."""
        world = self.world
        for actor in [one for one in world.actors if one.name.startswith("driver")]:
            world.kill(actor)
        world.epoch += 1
        batch = max(world.commits, default=-1) + 1
        if not batch or batch in world.written:
            return
        world.met["plan dropped"] += f"offsets/{batch}" in world.files
        world.files[f"offsets/{batch}"] = world.files[f"offsets/{batch - 1}"]
        world.states[batch] = world.states[batch - 1]
        world.hidden[batch] = world.hidden[batch - 1]
        world.written.add(batch)
        world.commits.add(batch)

    def _start_relay(self) -> None:
        number = self.relays = self.relays + 1
        self.world.spawn("relay", lambda: relay(self.world, number))

    def _calm_down(self, *, relay: bool) -> None:
        world = self.world
        for actor in list(world.actors):
            world.kill(actor)
        world.members.clear()
        world.generation += 1
        self._start_driver(relay=relay)
        self._step_until(lambda: self.driver is not None and self.driver.is_ready)
        if relay:
            self._start_relay()
        self._step_until(self._is_all_read)
        for _ in range(60):
            self._step_all()
        self._check()
        self._check_ends()

    def _step_until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(4_000):
            if is_so():
                return
            self._step_all()
        raise AssertionError("it does not come to an end")

    def _step_all(self) -> None:
        for actor in list(self.world.actors):
            self.world.step(actor)

    def _is_all_read(self) -> bool:
        world = self.world
        store: Any = Store(world)
        plans = [int(name[8:]) for name in world.files if name.startswith("offsets/")]
        if not plans or max(plans) not in world.commits:
            return False
        ends: Offsets = store.planned(max(plans)).ends
        word = world.last_word()
        if isinstance(word, Taken) or (
            isinstance(word, RelayMark) and word.position < len(world.ops)
        ):
            return False
        reads = {NAMES.half: len(world.half_times), NAMES.op: len(world.ops)}
        if any(ends.get(topic, {}).get(0, 0) < end for topic, end in reads.items()):
            return False
        last = [at for at, one in enumerate(world.decided) if isinstance(one, Made | Closed)]
        return not last or ends[NAMES.decided][0] > last[-1]

    def _check(self) -> None:
        world = self.world
        twice = [half for half, times in world.visible.items() if times > 1]
        assert not twice, f"visible twice: {twice}"
        both = world.discarded & set(world.visible)
        assert not both, f"visible and discarded: {both}"

    def _check_ends(self) -> None:
        """Each half has its first verdict, and is visible where that is a commit."""
        world = self.world
        honest, either = dict[int, int](), dict[int, int]()
        for op in world.ops:
            either.setdefault(op.half, op.state)
            if not op.is_early:
                honest.setdefault(op.half, op.state)
        for half, state in honest.items():
            if half in world.discarded:
                continue
            is_visible = world.visible[half] == 1
            wanted = {state == COMMIT, either[half] == COMMIT}
            assert is_visible in wanted, f"half {half} is visible: {is_visible}, not {wanted}"


def main() -> None:
    """Live from a seed on until there were as many crashes."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.relay_world")
    parser.add_argument("seed", type=int)
    parser.add_argument("--crashes", type=int, default=1)
    wanted = parser.parse_args()
    seed, crashes, met = wanted.seed, 0, Counter[str]()
    while crashes < wanted.crashes:
        try:
            world = Life(seed).go()
        except AssertionError as failure:
            failure.add_note(f"repeat: python -m tests.simulation.relay_world {seed}")
            raise
        seed, crashes, met = seed + 1, crashes + world.crashes, met + world.met
    sys.stdout.write(f"{crashes} crashes, seeds up to {seed}: {dict(met)}\n")


if __name__ == "__main__":
    main()
