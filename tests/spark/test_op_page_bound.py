"""Ops that name pages behind all that was read of the half topic: how many pages, and whose."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.seeds import chosen_seed
from tests.spark.harness import NAMES, KafkaRow, MicroBatches, half_row, kafka_rows, op_row
from tests.spark.test_verification_reference import sign

from checkback.protocol.configuration import Settings
from checkback.protocol.properties import TRANSACTION_DELIVERED
from checkback.protocol.records import Op
from checkback.protocol.refusals import RefusedReason
from checkback.security import AccessControl, SignatureAlgorithm
from checkback.security.accounts import Account, Secret
from checkback.security.record_signer import RecordSigner
from checkback.state import DIRECT_SOURCE, Action, EventKind, Outcome, Rules, RulesHistory
from checkback.state.shares import GROUPS_AT_ONCE
from checkback.streaming.access_table import AccessTable
from checkback.streaming.decode import decode
from checkback.streaming.op_page_bound import ANY_HALF, PROPERTY, OpPageBound
from checkback.streaming.page_keys import PageKeys
from checkback.streaming.pages import PageSettings
from checkback.streaming.verification import RecordVerification

PAGE_SIZE = 8
START_MS = 1_000_000
COMMIT, NO_VERDICT, DELIVERED = 8, 0, TRANSACTION_DELIVERED
REASONS = {int(RefusedReason.OP_PAGES_EXCEEDED), int(RefusedReason.OP_WITHOUT_HALF)}


class HalfPages(NamedTuple):
    """What the driver tells of a partition of the half topic."""

    begin: int
    end: int
    first: int = ANY_HALF.first
    log_end: int = ANY_HALF.end


@dataclass(frozen=True)
class Named:
    """An op: where it stands, and which half it names."""

    partition: int
    source_offset: int
    half_offset: int
    group: str = "g"
    state: int = COMMIT
    is_direct: bool = False

    @property
    def place(self) -> tuple[bool, int, int]:
        return self.is_direct, self.partition, self.source_offset

    def row(self) -> KafkaRow:
        op = Op(self.partition, self.half_offset, self.group, f"id-{self.place}", self.state)
        topic = NAMES.direct_op if self.is_direct else NAMES.op
        place = topic, self.partition, self.source_offset
        return KafkaRow(*place, START_MS, op.value(), op.headers(), op.key())


def refused_by_the_rule(ops: list[Named], told: list[HalfPages], of_group: int) -> set[Any]:
    """Say which ops are refused, as literally as possible."""
    named: dict[Any, set[tuple[str, int]]] = defaultdict(set)
    refused = set()
    for op in ops:
        is_known = op.partition < len(told)
        _, end, first, log_end = told[op.partition] if is_known else HalfPages(0, 0)
        if not first <= op.half_offset < log_end:
            refused.add(op.place)
            continue
        page = op.half_offset // PAGE_SIZE
        if op.state == DELIVERED or page * PAGE_SIZE < end:
            continue
        before = named[op.is_direct, op.partition]
        own = sum(group == op.group for group, _ in before)
        pages = {page for _, page in before}
        no_room = page not in pages and len(pages) >= GROUPS_AT_ONCE * of_group
        is_full = own >= of_group or no_room
        if (op.group, page) in before or not is_full:
            before.add((op.group, page))
        else:
            refused.add(op.place)
    return refused


@pytest.fixture
def told(spark: SparkSession) -> Iterator[Any]:
    """Tells the tasks what the driver tells them in a job."""

    def tell(*partitions: HalfPages) -> None:
        text = ",".join(":".join(map(str, one)) for one in partitions)
        spark.sparkContext.setLocalProperty(PROPERTY, text)

    yield tell
    spark.sparkContext.setLocalProperty(PROPERTY, None)  # type: ignore[arg-type]


SECRET = Secret("secret-of-operators", SignatureAlgorithm.HMAC_SHA256)
ADMIN = Account("operators", (SECRET,), is_admin=True)
RULES = AccessControl("", "1", (), {ADMIN.access_key: ADMIN})
SIGNER = RecordSigner(ADMIN.access_key, SECRET.value, lambda: START_MS)


def refused_by_decoding(
    spark: SparkSession, ops: list[Named], of_group: int, tasks_max: int, *, signed: bool = False
) -> set[Any]:
    """Decode ops, each Kafka partition in a Spark partition of its own as Spark's source has it.

    Those that are signed are decoded with access control.
    """
    by_source: dict[Any, list[str]] = defaultdict(list)
    for op in ops:
        row = sign(op.row(), SIGNER) if signed else op.row()
        by_source[op.is_direct, op.partition].append(row.to_json())
    verification = RecordVerification(spark, AccessTable.of(RULES)) if signed else None
    context: Any = spark.sparkContext
    sources = [context.parallelize([(line,) for line in some], 1) for some in by_source.values()]
    lines = spark.createDataFrame(context.union(sources), "value string")
    bound = OpPageBound(spark, f.lit(of_group))
    rows = kafka_rows(lines).coalesce(tasks_max)
    events = decode(rows, NAMES, PAGE_SIZE, verification=verification, op_pages=bound)
    return {
        (row.source_offset >= DIRECT_SOURCE, row.partition, row.source_offset % DIRECT_SOURCE)
        for row in events.collect()
        if row.kind == EventKind.REFUSED_OP and row.detail in REASONS
    }


def test_from_the_bound_on_a_group_is_refused_pages_that_it_has_not_named(
    spark: SparkSession, told: Any
) -> None:
    told(HalfPages(0, 100))
    loud = [Named(0, at, 800 + PAGE_SIZE * (at % 4)) for at in range(8)]
    read = [Named(0, 10 + at, PAGE_SIZE * at) for at in range(13)]  # the last page is read in part
    calm = [Named(0, 30, 9_000, group="calm"), Named(0, 31, 9_000, state=NO_VERDICT)]
    delivered = [Named(0, 5, 9_000, state=DELIVERED, is_direct=True)]

    refused = refused_by_decoding(spark, loud + read + calm + delivered, 2, 1)

    assert refused == {(False, 0, at) for at in (2, 3, 6, 7, 31)}


@pytest.mark.parametrize("tasks_max", [1, 2, 5])
def test_it_refuses_as_the_rule_says_whichever_partitions_share_a_task(
    spark: SparkSession, told: Any, tasks_max: int
) -> None:
    drawn = random.Random(chosen_seed(19))
    pages = [HalfPages(0, 40, 0, 180), HalfPages(90, 100, 50, 205), HalfPages(0, 0)]
    ops = [
        Named(
            drawn.randrange(4),
            at,
            drawn.randrange(30) * 7,
            group=drawn.choice("aabcdefgh"),
            state=drawn.choice([COMMIT, NO_VERDICT, 12, DELIVERED][: 3 + is_direct]),
            is_direct=is_direct,
        )
        for at, is_direct in enumerate(drawn.random() < 0.4 for _ in range(400))
    ]
    told(*pages)

    expected = refused_by_the_rule(ops, pages, 1)

    assert 50 < len(expected) < 350
    assert refused_by_decoding(spark, ops, 1, tasks_max) == expected


def test_where_anybody_can_be_of_any_group_earlier_pages_have_no_bound(
    spark: SparkSession, told: Any
) -> None:
    """Else a stranger could have all answers to the checks of a group refused, to the last one."""
    told(HalfPages(880, 900, 0, 9_000))
    earlier = [Named(0, at, PAGE_SIZE * at) for at in range(110)]

    assert refused_by_decoding(spark, earlier, 1, 1) == set()


def test_where_access_control_tells_groups_apart_earlier_pages_are_bounded_for_each(
    spark: SparkSession, told: Any
) -> None:
    told(HalfPages(880, 900, 0, 9_000))
    loud = [Named(0, at, PAGE_SIZE * at) for at in range(13)]
    others = [Named(0, 20 + at, PAGE_SIZE * at, group=f"other-{at}") for at in range(90)]
    read = [Named(0, 120 + at, 880 + at) for at in range(20)]

    refused = refused_by_decoding(spark, loud + others + read, 1, 1, signed=True)

    assert refused == {(False, 0, at) for at in (10, 11, 12)}


@pytest.mark.parametrize("state", [COMMIT, NO_VERDICT, DELIVERED])
def test_an_op_is_refused_that_names_what_is_forgotten_or_what_nobody_can_have_written(
    spark: SparkSession, told: Any, state: int
) -> None:
    told(HalfPages(90, 100, 50, 200))
    named = (199, 200, 2**63 - 1, 0, 49, 50)
    ops = [Named(0, at, half, state=state, is_direct=True) for at, half in enumerate(named)]

    assert refused_by_decoding(spark, ops, 5, 1) == {(True, 0, at) for at in (1, 2, 3, 4)}


def test_fences_that_nobody_asked_for_are_bounded_too(spark: SparkSession, told: Any) -> None:
    told(HalfPages(0, 100))
    identity = [("TAGS", b"f"), ("IDENTITY", b"12345")]
    forged = [
        KafkaRow(NAMES.direct_op, 0, at, 9, str(800 + PAGE_SIZE * at).encode(), identity)
        for at in range(3)
    ]
    lines = spark.createDataFrame([(row.to_json(),) for row in forged], "value string").coalesce(1)

    bound = OpPageBound(spark, f.lit(2))
    events = decode(kafka_rows(lines), NAMES, PAGE_SIZE, op_pages=bound).collect()

    kinds = {row.source_offset - DIRECT_SOURCE: row.kind for row in events}
    assert kinds == {0: EventKind.FENCED, 1: EventKind.FENCED, 2: EventKind.REFUSED_OP}


def test_where_nothing_is_told_nobody_is_refused(spark: SparkSession) -> None:
    ops = [Named(0, at, 800 + PAGE_SIZE * at) for at in range(9)]

    assert refused_by_decoding(spark, ops, 1, 1) == set()


def test_where_the_plan_reads_no_halves_all_pages_count(spark: SparkSession, told: Any) -> None:
    told()

    refused = refused_by_decoding(spark, [Named(0, at, PAGE_SIZE * at) for at in range(3)], 1, 1)

    assert refused == {(False, 0, 1), (False, 0, 2)}


def pages_called(outcomes: list[Outcome]) -> int:
    return len({(one.partition, one.page) for one in outcomes})


def test_a_flood_of_pages_without_halves_calls_few_pages(
    spark: SparkSession, told: Any, tmp_path: Path
) -> None:
    bound, flood = 3, 500
    rules = Rules.from_settings(Settings(op_pages_per_group_max=bound))
    settings = PageSettings(PAGE_SIZE, RulesHistory(((0, rules),)), PageKeys(1))
    micro = MicroBatches(spark, settings, tmp_path / "checkpoint", START_MS)
    micro.add(
        [
            half_row(5, time_ms=START_MS),
            *(op_row(at, 800 + PAGE_SIZE * at, COMMIT, time_ms=START_MS) for at in range(flood)),
            op_row(flood, 5, COMMIT, time_ms=START_MS),
        ]
    )
    told(HalfPages(0, 6))
    micro.start()
    decided = micro.outcomes()
    micro.stop()

    actions = [one for outcome in decided for one in outcome.action.tolist()]
    assert actions.count(Action.REFUSE_OP) == flood - bound
    assert actions.count(Action.COMMIT) == 1
    own_pages = flood // PAGE_SIZE + 1  # the refused ones stand where they were written
    assert pages_called(decided) <= own_pages + bound + 1
