"""What a relay makes of each op; each rule of docs/decisions/relay.md has its test here."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from checkback.protocol.decided import OpKind, RelayMark, Taken
from checkback.protocol.properties import Headers
from checkback.protocol.records import Op, half_headers
from checkback.protocol.topics import TopicNames
from checkback.relay import partition
from checkback.relay.memory import HalfMemory, HeldHalf
from checkback.relay.partition import (
    HIDDEN_S,
    NOWHERE,
    JobPosition,
    ReadOp,
    RelayedOp,
    RelayPartition,
)
from checkback.relay.reading import RecordRules, parsed_op
from checkback.sinks.records.sink_record import SinkRecord

RULES = RecordRules(TopicNames(), 1_000)
E = 100
"""Where the half partition ended when the partition's start asked."""
D, P, EARLY = OpKind.DELIVERED, OpKind.PASSED, OpKind.EARLY
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


@dataclass
class Record:
    record_headers: Headers
    body: bytes | None = b"body"
    record_key: bytes | None = None
    time_ms: int = 5_000

    def key(self) -> bytes | None:
        return self.record_key

    def value(self) -> bytes | None:
        return self.body

    def headers(self) -> Headers:
        return self.record_headers

    def timestamp(self) -> tuple[int, int]:
        return 2, self.time_ms


@dataclass
class Stage:
    """A partition, with a clock that the test sets."""

    is_ordered: bool = True
    bytes_max: int = 1_000_000
    behind: JobPosition = NOWHERE
    now_s: float = 50.0
    partition: RelayPartition = field(init=False)
    ops: int = 40

    def __post_init__(self) -> None:
        self.partition = RelayPartition(
            0, Taken(30, 90), self.ops, E, HalfMemory(self.bytes_max), self.is_ordered, self.behind
        )

    def half(self, offset: int, key: bytes | None = None, group: str = "g") -> None:
        self.partition.read_half(offset, self.held(offset, key, group))

    def held(
        self, offset: int, key: bytes | None = None, group: str = "g", **properties: str
    ) -> HeldHalf:
        headers = half_headers(
            producer_group=group,
            transaction_id=f"u{offset}",
            real_topic="paid",
            properties=properties,
        )
        record = Record(headers, record_key=key)
        identity = RULES.half(record)
        assert identity is not None
        return HeldHalf(record, identity, self.now_s)

    def read_op(self, half: int, state: int = COMMIT, group: str = "g") -> ReadOp:
        op = Op(0, half, group, f"u{half}", state)
        record = Record(op.headers(), op.value(), op.key())
        read = ReadOp(0, self.ops, record, parsed_op(record), self.now_s)
        self.ops += 1
        self.partition.ops.append(read)
        return read

    def op(self, half: int, state: int = COMMIT, group: str = "g") -> RelayedOp | None:
        self.read_op(half, state, group)
        return self.take()

    def take(self) -> RelayedOp | None:
        return self.partition.take_op(self.now_s, final)

    def kind(self, half: int, state: int = COMMIT, group: str = "g") -> OpKind | None:
        verdict = self.op(half, state, group)
        return None if verdict is None else verdict.kind


def final(op: ReadOp, _half: HeldHalf, offset: int) -> SinkRecord | str:
    return SinkRecord("paid", op.partition, None, b"%d" % offset, [], 0)


def no_final(*_: object) -> str:
    return "real topic"


def test_a_clean_commit_is_delivered_once() -> None:
    stage = Stage()
    stage.half(E)
    verdict = stage.op(E)

    assert verdict is not None
    assert (verdict.kind, verdict.final) == (D, SinkRecord("paid", 0, None, b"%d" % E, [], 0))
    assert stage.kind(E) is P


@pytest.mark.parametrize(
    ("state", "group"),
    [(ROLLBACK, "g"), (COMMIT, "other"), (9, "g"), (UNKNOWN, "g"), (ROLLBACK, "other")],
)
def test_rule_3_what_is_not_clean_is_passed(state: int, group: str) -> None:
    stage = Stage()
    stage.half(E)

    assert stage.kind(E, state, group) is P


def test_rule_3_without_a_final_the_job_has_to_judge() -> None:
    stage = Stage()
    stage.half(E)
    stage.read_op(E)
    verdict = stage.partition.take_op(stage.now_s, no_final)

    assert verdict is not None
    assert (verdict.kind, verdict.why) == (P, "real topic")


@pytest.mark.parametrize(("state", "group"), [(ROLLBACK, "g"), (COMMIT, "other")])
def test_rule_4_the_first_verdict_on_a_half_is_the_last_chance(state: int, group: str) -> None:
    stage = Stage(is_ordered=False)
    stage.half(E)

    assert [stage.kind(E, state, group), stage.kind(E)] == [P, P]


def test_rule_4_an_op_that_is_no_verdict_takes_nothing_out() -> None:
    stage = Stage()
    stage.half(E)

    assert [stage.kind(E, UNKNOWN), stage.kind(E, 9), stage.kind(E)] == [P, P, D]


def test_rule_5_an_op_before_its_half_is_early_once_the_end_was_asked_for_behind_it() -> None:
    stage = Stage()
    stage.partition.learn_half_end(E + 1, stage.now_s - 1)
    op = stage.op(E + 1)

    assert op is None  # the end may have moved between the question and the op
    assert stage.partition.needs_end()
    stage.partition.learn_half_end(E + 1, stage.now_s)
    verdict = stage.take()
    assert verdict is not None
    assert verdict.kind is EARLY
    stage.half(E)
    stage.half(E + 1)
    assert stage.kind(E + 1) is D


def test_rule_5_an_op_waits_for_a_half_that_is_stored_and_hidden() -> None:
    stage = Stage(is_ordered=False)
    stage.partition.learn_half_end(E + 2, stage.now_s)
    assert stage.op(E) is None
    assert not stage.partition.needs_end()
    stage.half(E)
    verdict = stage.take()
    assert verdict is not None
    assert verdict.kind is D


def test_rule_5_a_half_that_was_given_up_never_enters_memory() -> None:
    stage = Stage(is_ordered=False)
    stage.partition.learn_half_end(E + 2, stage.now_s)
    stage.read_op(E)
    stage.now_s += HIDDEN_S
    passed = stage.take()
    assert passed is not None
    assert (passed.kind, passed.why) == (P, "half hidden")
    for half in range(3):
        stage.half(E + half)

    # The second was stored too when the first was given up: one offset is kept, not each half's.
    assert [stage.kind(E + half) for half in range(3)] == [P, P, D]


def test_rule_5_ops_of_all_halves_behind_one_open_transaction_wait_a_second_together() -> None:
    stage, hidden = Stage(), 10_000
    stage.partition.learn_half_end(E + hidden, stage.now_s)
    stage.read_op(E)
    stage.now_s += HIDDEN_S
    assert stage.take() is not None
    assert {stage.kind(E + at) for at in range(1, hidden)} == {P}
    stage.partition.learn_half_end(E + hidden + 1, stage.now_s)
    assert stage.kind(E + hidden) is None  # stored since: reading may come to it

    begun_s = time.process_time()
    for at in range(hidden + 1):  # the transaction is committed
        stage.half(E + at)
    assert time.process_time() - begun_s < 1.5  # not all of them at each read
    taken = stage.take()
    assert taken is not None
    assert (taken.kind, len(stage.partition.memory)) == (D, 0)


def test_rule_6_what_is_older_than_the_start_goes_the_job_s_way() -> None:
    stage = Stage(is_ordered=False)
    stage.half(E - 1)

    assert stage.kind(E - 1) is P


def test_rule_7_the_floor_is_the_lowest_half_that_may_be_delivered() -> None:
    stage = Stage(is_ordered=False)
    assert stage.partition.mark == RelayMark(40, E, 0, 30, 90)
    for offset in (E, E + 1, E + 3):
        stage.half(offset)
    floors = [stage.partition.floor]
    for offset in (E + 1, E, E + 3):
        stage.kind(offset, ROLLBACK)
        floors.append(stage.partition.floor)
    stage.partition.read_halves_to(E + 9)

    assert [*floors, stage.partition.floor] == [E, E, E + 3, E + 4, E + 9]
    assert stage.partition.mark == RelayMark(43, E + 9, 4_999, 30, 90)


def test_rule_7_the_position_passes_what_is_no_op_only_behind_the_ops() -> None:
    stage = Stage(is_ordered=False)
    stage.partition.ops_read_to = 60
    stage.read_op(E)
    stage.partition.learn_half_end(E + 1, stage.now_s)
    assert stage.take() is None
    assert stage.partition.position == 40
    stage.half(E)
    stage.take()

    assert stage.partition.position == 60


def test_rule_7_halves_leave_by_age_and_by_bytes_and_the_floor_never_falls() -> None:
    size = Stage().held(E).bytes_held
    stage = Stage(is_ordered=False, bytes_max=3 * size)
    for offset in range(E, E + 5):
        stage.half(offset)
    assert stage.partition.floor == E + 2
    stage.partition.memory.drop_older(stage.now_s)
    assert stage.partition.floor == E + 2
    stage.partition.memory.drop_older(stage.now_s + 1)

    assert stage.partition.floor == E + 5
    assert stage.partition.memory.bytes_held == 0
    assert stage.kind(E + 4) is P


def test_headers_of_a_half_count_among_the_memory_that_it_takes() -> None:
    stage = Stage()
    plain, large = stage.held(E).bytes_held, stage.held(E, trace="x" * 100_000).bytes_held

    assert large > plain + 100_000


def test_rule_10_behind_a_passed_commit_its_key_is_passed_until_the_job_has_written_it() -> None:
    stage = Stage()
    keys = [b"k", b"k", b"other", None, b"k", b"k", b"k"]
    for at, key in enumerate(keys):
        stage.half(E + at, key)
    stage.read_op(E)
    stage.partition.take_op(stage.now_s, no_final)
    assert [stage.kind(E + at) for at in (1, 2, 3)] == [P, D, D]
    stage.partition.committed(700)
    stage.partition.job_has_written(JobPosition(699, E + 2))
    assert stage.kind(E + 4) is P
    stage.partition.committed(800)
    stage.partition.job_has_written(JobPosition(800, E + 4))  # the half it waits for is unread
    assert stage.kind(E + 5) is P
    stage.partition.committed(900)
    stage.partition.job_has_written(JobPosition(900, E + 6))

    assert stage.kind(E + 6) is D


def test_rule_10_with_very_many_keys_the_whole_partition_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else bounds what a relay remembers while the job is down."""
    monkeypatch.setattr(partition, "BLOCKED_KEYS_MAX", 2)
    stage = Stage()
    for at, key in enumerate([b"a", b"b", b"c", b"d", b"d"]):
        stage.half(E + at, key)
    for at in range(3):
        stage.read_op(E + at)
        stage.partition.take_op(stage.now_s, no_final)
    assert stage.kind(E + 3) is P  # no commit of its key was passed
    assert len(stage.partition._blocked) <= 2
    stage.partition.committed(700)
    stage.partition.job_has_written(JobPosition(700, E + 4))

    assert stage.kind(E + 4) is D


def test_waiting_ops_are_counted_in_bytes() -> None:
    stage = Stage()
    op = ReadOp(0, 40, Record([]), None, stage.now_s, 900_000)
    stage.partition.read_op(op)
    assert stage.partition.op_bytes == 900_000
    stage.take()

    assert stage.partition.op_bytes == 0


def test_rule_10_where_the_key_is_not_known_the_partition_is_passed() -> None:
    stage = Stage()
    stage.half(E, b"k")
    stage.half(E + 1, None)
    stage.half(E + 2, b"k")
    assert stage.kind(E - 1) is P
    assert [stage.kind(E), stage.kind(E + 1)] == [P, D]
    stage.partition.committed(700)
    stage.partition.job_has_written(JobPosition(700, E + 1))

    assert stage.kind(E + 2) is D


def test_rule_10_after_a_start_the_partition_is_passed_until_the_job_is_past_it() -> None:
    stage = Stage(behind=JobPosition(500, E))
    stage.half(E, b"k")
    stage.half(E + 1, b"l")
    assert stage.kind(E) is P
    stage.partition.committed(510)
    stage.partition.job_has_written(JobPosition(500, E))

    assert stage.kind(E + 1) is D


def test_rule_10_an_early_op_and_a_rollback_block_nothing() -> None:
    stage = Stage()
    stage.half(E, b"k")
    stage.half(E + 1, b"k")
    stage.partition.learn_half_end(E + 2, stage.now_s)

    assert [stage.kind(E + 2), stage.kind(E, ROLLBACK), stage.kind(E + 1)] == [EARLY, P, D]


def test_rule_11_after_a_failure_the_group_is_passed_and_early_stays_early() -> None:
    stage = Stage()
    stage.half(E, b"k")
    stage.half(E + 1, b"k")
    stage.partition.learn_half_end(E + 2, stage.now_s)
    group = [stage.op(E), stage.op(E + 2), stage.op(E - 1, ROLLBACK)]
    again = [stage.partition.pass_again(one) for one in group if one is not None]

    assert [one.kind for one in again] == [P, EARLY, P]
    assert [one.final for one in again] == [None, None, None]
    assert stage.kind(E + 1) is P  # rule 10 holds for it, too


def test_an_op_with_unreadable_headers_is_unreadable() -> None:
    stage = Stage()
    stage.partition.ops.append(ReadOp(0, 40, Record([]), None, stage.now_s))
    verdict = stage.take()

    assert verdict is not None
    assert verdict.kind is OpKind.UNREADABLE
