"""A partition's rules over thousands of random histories: nothing lost, doubled or out of order.

`RelayPartition` runs unchanged. The Kafka around it is a list for each topic: transactions commit,
abort, or commit without an answer; relays die and start again; strangers' open transactions hide
halves and ops; ops come early, late, twice and in contradiction. A literal job reads the decided
topic and writes what is passed. docs/decisions/relay.md has the rules.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from tests.seeds import chosen_seed
from tests.unit.relay.test_partition import Record

from checkback.protocol.decided import OpKind, Taken
from checkback.relay.memory import HalfMemory, HeldHalf
from checkback.relay.partition import (
    HIDDEN_S,
    JobPosition,
    ReadOp,
    RelayedOp,
    RelayPartition,
)
from checkback.relay.reading import ParsedOp
from checkback.sinks.records.sink_record import SinkRecord

COMMIT, ROLLBACK = 8, 12
STEPS = 160
HALVES = 20
KEYS = (b"k", b"l", None)


def held(key: bytes | None, now_s: float) -> HeldHalf:
    return HeldHalf(Record([], b"", key), (b"g", b"u"), now_s)


@dataclass
class Job:
    """Reads what relays decided, writes passed commits, and discards what it may."""

    half_to: int = 0
    decided_to: int = 0
    floor: int = 0
    state: dict[int, str] = field(default_factory=dict)
    waiting: dict[int, list[str]] = field(default_factory=dict)


@dataclass
class World:
    chance: random.Random
    is_ordered: bool
    keys: list[bytes | None] = field(default_factory=list)
    """Of the halves, by offset."""
    ops_before: list[int] = field(default_factory=list)
    """How many ops stood when each half was appended."""
    ops: list[tuple[int, int]] = field(default_factory=list)
    hidden_halves: int = 0
    hidden_ops: int = 0
    decided: list[tuple[str, int, int]] = field(default_factory=list)
    """Kind, half and op; of a mark ("M", floor, position)."""
    position: int = 0
    real: list[int] = field(default_factory=list)
    job: Job = field(default_factory=Job)
    now_s: float = 0.0
    relay: RelayPartition = field(init=False)
    failed: list[RelayedOp] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.start()

    @property
    def readable_halves(self) -> int:
        return len(self.keys) - self.hidden_halves

    @property
    def readable_ops(self) -> int:
        return len(self.ops) - self.hidden_ops

    def start(self) -> None:
        """A relay starts, be it for the first time or after another one: rules 6 and 10."""
        end = len(self.keys)
        memory = HalfMemory(self.chance.choice([3, 1_000, 1_000]) * held(b"k", 0.0).bytes_held)
        ops = [at for at, (kind, *_) in enumerate(self.decided) if kind != "M"]
        behind = JobPosition(ops[-1] + 1 if ops else 0, end)
        self.relay = RelayPartition(
            0, Taken(0, 0), self.position, end, memory, self.is_ordered, behind
        )
        self.failed = []

    def half(self) -> None:
        if len(self.keys) < HALVES:
            self.keys.append(self.chance.choice(KEYS))
            self.ops_before.append(len(self.ops))
            self.hidden_halves += self.hidden_halves > 0

    def op(self) -> None:
        """An honest op, now and then a contradiction; or one before its half."""
        verdict = self.chance.choice([COMMIT, COMMIT, COMMIT, ROLLBACK])
        if self.keys and self.chance.random() < 0.93:
            recent = max(0, len(self.keys) - 4)
            named = self.chance.randrange(self.chance.choice([0, recent]), len(self.keys))
        else:
            named = len(self.keys) + self.chance.randrange(2)
        self.ops.append((named, verdict))
        self.hidden_ops += self.hidden_ops > 0

    def hide(self) -> None:
        """Somebody opens a transaction, or it ends."""
        if self.chance.random() < 0.5:
            self.hidden_halves = 0 if self.hidden_halves else self.chance.randrange(2)
        else:
            self.hidden_ops = 0 if self.hidden_ops else self.chance.randrange(2)
        self.hidden_halves = min(self.hidden_halves, len(self.keys))
        self.hidden_ops = min(self.hidden_ops, len(self.ops))

    def read(self) -> None:
        one = self.relay
        self.now_s += self.chance.choice([0.01, 0.01, HIDDEN_S / 2])
        for at in range(
            one.next_op, self.chance.randint(one.next_op, max(one.next_op, self.readable_ops))
        ):
            named, verdict = self.ops[at]
            parsed = ParsedOp(named, verdict, (b"g", b"u"), b"false")
            one.ops.append(ReadOp(0, at, Record([]), parsed, self.now_s))
        end = self.chance.randint(one.half_position, max(one.half_position, self.readable_halves))
        for at in range(one.half_position, end):
            one.read_half(at, held(self.keys[at], self.now_s))
        self.now_s += 0.001
        if one.needs_end():
            one.learn_half_end(len(self.keys), self.now_s)
        if self.chance.random() < 0.1:
            one.memory.drop_older(self.now_s)

    def write(self) -> None:
        """Decide a group and write it in a transaction of some outcome; or pass a failed one."""
        if self.relay.awaits_job and self.chance.random() < 0.8:
            self.relay.job_has_written(JobPosition(self.job.decided_to, self.job.half_to))
        group, one = self.failed, self.relay
        while not self.failed and len(group) < 4:
            made = one.take_op(self.now_s, self.final)
            if made is None:
                break
            group = [*group, made]
        outcome = self.chance.choice(["committed"] * 12 + ["aborted", "unknown", "died"])
        if outcome == "died":  # before or after the commit
            if self.chance.random() < 0.5:
                self.append(group)
            self.start()
            return
        mark = None
        if outcome != "aborted":
            mark = self.append(group)
        if outcome == "committed":
            self.failed = []
            assert mark is not None
            one.committed(mark)
        else:
            self.failed = [one.pass_again(made) for made in group]

    def final(self, _op: ReadOp, _half: HeldHalf, offset: int) -> SinkRecord | str:
        is_doubtful = self.chance.random() < 0.1
        return "real topic" if is_doubtful else SinkRecord("paid", 0, None, None, [], offset)

    def append(self, group: list[RelayedOp]) -> int:
        for made in group:
            assert made.op.parsed is not None
            named = made.op.parsed.named
            assert named is not None
            if made.final is not None:
                assert made.final.timestamp_ms == named
                self.real.append(named)
            self.decided.append((made.kind.value, named, made.op.offset))
            self.counts[made.why or made.kind.value] += 1
        mark = self.relay.mark
        self.decided.append(("M", mark.floor, mark.position))
        self.position = mark.position
        return len(self.decided) - 1

    def batch(self) -> None:
        """One batch of the job."""
        job = self.job
        job.half_to = self.chance.randint(job.half_to, max(job.half_to, self.readable_halves))
        for half in range(len(job.state), job.half_to):
            job.state[half] = "pending"
        end = self.chance.randint(job.decided_to, len(self.decided))
        for kind, first, second in self.decided[job.decided_to : end]:
            if kind == "M":
                job.floor = max(job.floor, first)
            elif kind in (OpKind.DELIVERED, OpKind.PASSED):
                verdict = "delivered" if kind == OpKind.DELIVERED else str(self.ops[second][1])
                job.waiting.setdefault(first, []).append(verdict)
        job.decided_to = end
        for half in sorted(job.state):
            for verdict in job.waiting.pop(half, []):
                self.judge(half, verdict)
        if self.chance.random() < 0.1:
            for half in range(min(job.floor, job.half_to)):
                if job.state[half] == "pending":
                    job.state[half] = "discarded"

    def judge(self, half: int, verdict: str) -> None:
        if verdict == "delivered":
            # A repeat of a delivered op is passed, never delivered again.
            assert self.job.state[half] == "pending", f"delivered {half}: {self.job.state[half]}"
            self.job.state[half] = "delivered"
        elif self.job.state[half] == "pending":
            is_commit = verdict == str(COMMIT)
            self.job.state[half] = "committed" if is_commit else "rolled back"
            if is_commit:
                self.real.append(half)

    def first_op(self, half: int) -> int:
        """Return where the first verdict on a half stands, -1 where there is none."""
        early = {op for kind, _, op in self.decided if kind == OpKind.EARLY}
        places = (at for at, (named, _) in enumerate(self.ops) if named == half and at not in early)
        return next(places, -1)

    def first_verdict(self, half: int) -> int | None:
        at = self.first_op(half)
        return None if at < 0 else self.ops[at][1]

    def check(self) -> None:
        assert len(set(self.real)) == len(self.real), "visible twice"
        for half in self.real[-8:]:
            assert self.first_verdict(half) == COMMIT, f"{half} visible against its first verdict"
            assert self.job.state.get(half) not in ("rolled back", "discarded")
        for kind, named, at in self.decided:
            if kind == OpKind.EARLY and named < len(self.keys):
                assert at < self.ops_before[named], "an honest op is early"
        if self.is_ordered:
            self.check_order()

    def check_order(self) -> None:
        places = {half: at for at, half in enumerate(self.real)}
        for later, key in enumerate(self.keys):
            first = self.first_op(later)
            # A forged op that stands before its half has no order to keep.
            counts = key is not None and later in places and first >= self.ops_before[later]
            for before in range(later) if counts else ():
                if self.keys[before] != key or self.job.state.get(before) == "discarded":
                    continue
                honest = [
                    v for named, v in self.ops[self.ops_before[before] : self.ops_before[later]]
                    if named == before
                ]  # fmt: skip
                if honest and honest[0] == COMMIT and self.first_verdict(before) == COMMIT:
                    assert places.get(before, HALVES) < places[later], f"{later} before {before}"

    def settle(self) -> None:
        """Let everything that is under way come to its end."""
        self.hidden_halves = self.hidden_ops = 0
        for _ in range(4 * len(self.ops) + 40):
            self.read()
            self.now_s += HIDDEN_S
            self.write()
            self.batch()
        job = self.job
        job.half_to = len(self.keys)
        self.batch()

    def check_end(self) -> None:
        assert self.position == len(self.ops)
        for half in range(len(self.keys)):
            verdict, state = self.first_verdict(half), self.job.state[half]
            if state != "discarded":
                wanted = {
                    COMMIT: {"committed", "delivered"},
                    ROLLBACK: {"rolled back"},
                    None: {"pending"},
                }
                assert state in wanted[verdict], f"{half}: {state}, its first verdict {verdict}"
            assert (half in self.real) == (state in ("committed", "delivered"))


def history(seed: int, *, is_ordered: bool) -> Counter[str]:
    """Run one history; return what became of its ops."""
    chance = random.Random(seed)
    world = World(chance, is_ordered)
    steps = (
        [world.half] * 3 + [world.op] * 4 + [world.read] * 8 + [world.write] * 6
        + [world.batch] * 5 + [world.hide]
    )  # fmt: skip
    for _ in range(STEPS):
        chance.choice(steps)()
        world.check()
    world.settle()
    world.check()
    world.check_end()
    return world.counts


@pytest.mark.parametrize("number", range(4))
def test_nothing_is_lost_doubled_or_out_of_order(number: int) -> None:
    first = chosen_seed(number * 1_000)
    counts = Counter[str]()
    for seed in range(first, first + 40):
        counts += history(seed, is_ordered=seed % 2 == 0)

    assert {*WHYS} <= counts.keys()


WHYS = (
    "delivered", "early", "half not held", "half hidden", "rollback", "order", "real topic",
    "transaction failed",
)  # fmt: skip


def without(rule: str, patch: pytest.MonkeyPatch) -> None:
    """Leave a rule out."""
    passed = RelayPartition.pass_again

    def keep(memory: HalfMemory, offset: int) -> HeldHalf | None:
        return memory._halves.get(offset)

    def early_is_passed(one: RelayPartition, made: RelayedOp) -> RelayedOp:
        is_early = made.kind is OpKind.EARLY
        return made._replace(kind=OpKind.PASSED) if is_early else passed(one, made)

    def at_once(one: RelayPartition, op: ReadOp, named: int, now_s: float) -> RelayedOp | None:
        return None if named >= one.half_end else one._passed(op, named, None, "half hidden")

    def start_at_zero(world: World) -> None:
        start(world)
        world.relay.half_position = 0

    start = World.start
    leave_out = {
        "4": lambda: patch.setattr(HalfMemory, "take", keep),
        "5 after a failure": lambda: patch.setattr(RelayPartition, "pass_again", early_is_passed),
        "5 given up": lambda: patch.setattr(RelayPartition, "_of_unread_half", at_once),
        "6": lambda: patch.setattr(World, "start", start_at_zero),
        "7": lambda: patch.setattr(
            RelayPartition, "floor", property(lambda one: one.half_position)
        ),
        "10": lambda: patch.setattr(RelayPartition, "_is_blocked", lambda *_: False),
        "10 until the half": lambda: patch.setattr(
            RelayPartition, "_has_written", lambda one, place: one.job.decided >= place.decided
        ),
        "11": lambda: patch.setattr(RelayPartition, "pass_again", lambda _, made: made),
    }  # fmt: skip
    leave_out[rule]()


@pytest.mark.parametrize(
    "rule",
    ["4", "5 after a failure", "5 given up", "6", "7", "10", "10 until the half", "11"],
)
def test_without_a_rule_a_history_goes_wrong(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(rule, monkeypatch)
    with pytest.raises(AssertionError):
        _ = [history(seed, is_ordered=True) for seed in range(400)]
