"""From Kafka rows of direct halves and their ops to event rows, on static data."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import NAMES, KafkaRow
from tests.spark.test_decode import GROUP, ID, IMMUNITY, TIMES, TO, TRAN, events, half, op

from checkback.client.check_request import read_check_request
from checkback.protocol.records import fenced_headers
from checkback.protocol.refusals import RefusedReason
from checkback.state import CLOSED, DIRECT_SOURCE, EventKind


def direct_op(value: bytes, *headers: tuple[str, bytes | None]) -> KafkaRow:
    return KafkaRow(NAMES.direct_op, 1, 5, 99, value, list(headers))


DIRECT = ("DIRECT_ID", b"checkback-direct-g-1")
CHECK = ("FROM_TRANSACTION_CHECK", b"false")
CLOSING = ("DIRECT_CLOSED", b"checkback-direct-g-1")


def saying(state: bytes) -> list[tuple[str, bytes]]:
    return [("TAGS", b"d"), ("COMMIT_OR_ROLLBACK", state), GROUP, ID, CHECK]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (half(TRAN, GROUP, ID, TO, IMMUNITY, DIRECT), EventKind.DIRECT_HALF),
        (half(TRAN, GROUP, ID, TO, IMMUNITY, DIRECT, ("x", b"1")), EventKind.DIRECT_HALF),
        (half(DIRECT, ID, GROUP, TRAN, TO), EventKind.DIRECT_HALF),
        (half(TRAN, GROUP, ID, TO, IMMUNITY, ("x", b"1")), EventKind.HALF),
        (half(TRAN, GROUP, ID, TO, IMMUNITY), EventKind.HALF),
        (half(TRAN, GROUP, DIRECT), EventKind.REFUSED_HALF),
    ],
)
def test_a_half_with_a_session_is_a_direct_one(
    spark: SparkSession, row: KafkaRow, kind: EventKind
) -> None:
    [event] = events(spark, [row])

    assert event.kind == kind


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        (direct_op(b"12", *saying(b"9")), 9),
        (direct_op(b"12", *saying(b"8"), CLOSING), 8 + CLOSED),
        (direct_op(b"12", *saying(b"12"), CLOSING, ("REMARK", b"r")), 12 + CLOSED),
        (direct_op(b"12", CLOSING, *saying(b"0")), CLOSED),
        (direct_op(b"12", *saying(b"8")), 8),
        (direct_op(b"12", *saying(b"8"), ("REMARK", b"r")), 8),
    ],
)
def test_what_an_op_on_the_direct_topic_says(
    spark: SparkSession, row: KafkaRow, detail: int
) -> None:
    [event] = events(spark, [row])

    assert (event.kind, event.offset, event.detail) == (EventKind.OP, 12, detail)
    assert event.source_offset == DIRECT_SOURCE + 5


@pytest.mark.parametrize(
    ("value", "names_one"),
    [(None, False), (b"", False), (b"x", True), (b"\0", True), (b"\xff", True)],
)
def test_a_session_is_read_alike_in_order_by_name_and_by_the_clients(
    spark: SparkSession, value: bytes | None, names_one: bool
) -> None:
    named, closed = ("DIRECT_ID", value), ("DIRECT_CLOSED", value)
    of_half, of_op = [TRAN, GROUP, ID, TO, IMMUNITY, named], [*saying(b"8"), closed]

    found = events(
        spark,
        [
            half(*of_half),
            half(*of_half[::-1]),
            half(*of_half[:-1], ("x", b""), named),  # in order, but not the sixth
            direct_op(b"12", *of_op),
            direct_op(b"12", *of_op[::-1]),
        ],
    )
    asked = [*of_half, ("TRAN_PREPARED_QUEUE_OFFSET", b"5"), ("TRAN_HALF_QUEUE_ID", b"1"), closed]
    request = read_check_request(None, b"body", [*asked, TIMES], 0)

    kind = EventKind.DIRECT_HALF if names_one else EventKind.HALF
    detail = 8 + CLOSED if names_one else 8
    assert [one.kind for one in found] == [kind, kind, kind, EventKind.OP, EventKind.OP]
    assert [one.detail for one in found[3:]] == [detail, detail]
    assert (bool(request.direct_id), request.direct_closed) == (names_one, names_one)


def test_on_the_op_topic_nothing_is_delivered_and_no_session_closed(spark: SparkSession) -> None:
    delivered, closing = events(
        spark, [op(b"12", *saying(b"9")), op(b"12", *saying(b"8"), CLOSING)]
    )

    assert (delivered.kind, delivered.detail) == (
        EventKind.REFUSED_OP, RefusedReason.OP_STATE_UNKNOWN,
    )  # fmt: skip
    assert (closing.kind, closing.detail, closing.source_offset) == (EventKind.OP, 8, 5)


def test_feedback_of_a_fence_is_an_event_of_the_direct_op_topic_only(spark: SparkSession) -> None:
    said = fenced_headers(-77)
    fenced = KafkaRow(NAMES.direct_op, 1, 5, 99, b"12", said)
    elsewhere = [
        KafkaRow(NAMES.op, 1, 5, 99, b"12", said),
        KafkaRow(NAMES.direct_op, 1, 5, 99, b"x", said),
        KafkaRow(NAMES.feedback, 1, 5, 99, b"12", said),
    ]

    event, *refused = events(spark, [fenced, *elsewhere])

    assert (event.kind, event.offset, event.identity) == (EventKind.FENCED, 12, -77)
    assert event.source_offset == DIRECT_SOURCE + 5
    assert [(one.kind, one.detail) for one in refused] == [
        (EventKind.REFUSED_OP, RefusedReason.OP_TAG_UNKNOWN)
    ] * 2


def test_feedback_that_does_not_say_which_half_speaks_of_none(spark: SparkSession) -> None:
    tag = ("TAGS", b"f")
    found = events(
        spark,
        [
            direct_op(b"12", tag),
            direct_op(b"12", tag, ("FENCED_HALF", b"x"), GROUP, ID),
            direct_op(b"12", tag, ("FENCED_HALF", None), GROUP, ID),
        ],
    )

    assert [(one.kind, one.identity) for one in found] == [(EventKind.FENCED, 0)] * 3


def test_a_record_of_the_direct_op_topic_is_refused_by_its_place(spark: SparkSession) -> None:
    [event] = events(spark, [direct_op(b"12", *saying(b"7"))])

    assert (event.kind, event.detail) == (EventKind.REFUSED_OP, RefusedReason.OP_STATE_UNKNOWN)
    assert (event.offset, event.source_offset) == (5, DIRECT_SOURCE + 5)
