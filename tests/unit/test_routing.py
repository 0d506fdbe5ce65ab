"""What becomes of a half message."""

from __future__ import annotations

from typing import Any

import pytest
from tests.deciding import message

from checkback.protocol.properties import text_value
from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.records import half_headers
from checkback.protocol.refusals import RecordOrigin, RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic
from checkback.sinks.records.router import Refusal, Router
from checkback.sinks.records.sink_record import SinkRecord

NAMES = TopicNames("p-")
WIDE = KnownTopic(partitions=4, record_batch_bytes_max=1_000_000)
ROUTER = Router(NAMES, lambda _: WIDE)
ORIGIN = RecordOrigin(NAMES.half, 0, 0)


def half(real_queue_id: int | None = None, **properties: str) -> Any:
    """A half like those that the look-up returns."""
    headers = half_headers(
        producer_group="g",
        transaction_id="u",
        real_topic="orders",
        properties=properties,
        real_queue_id=real_queue_id,
    )
    return message(key=b"key", value=b"body", headers=headers, timestamp=(1, 1_234))


def final(given: Any, at: tuple[int, int] = (0, 0)) -> SinkRecord:
    made = ROUTER.final(given, RecordOrigin(NAMES.half, *at))
    assert isinstance(made, SinkRecord)
    return made


def reason(known: KnownTopic, *options: Any, given: Any = None, **named: Any) -> Any:
    """Return why no final goes to such a topic, None where one does."""
    made = Router(NAMES, lambda _: known, *options, **named).final(given or half(), ORIGIN)
    return made.reason if isinstance(made, Refusal) else None


def test_a_final_keeps_key_body_time_and_the_users_properties() -> None:
    given = half(TAGS="t", KEYS="k", mine="1", CHECK_IMMUNITY_TIME_IN_SECONDS="5", DELAY="3")

    made = final(given, (2, 77))

    assert (made.topic, made.key, made.value, made.timestamp_ms) == (
        "orders", b"key", b"body", 1_234,
    )  # fmt: skip
    assert dict(made.headers) == {
        "PGROUP": b"g",
        "UNIQ_KEY": b"u",
        "TAGS": b"t",
        "KEYS": b"k",
        "mine": b"1",
        "TRAN_PREPARED_QUEUE_OFFSET": b"77",
        "TRAN_HALF_QUEUE_ID": b"2",
    }


@pytest.mark.parametrize(("wish", "partition"), [(None, -1), (0, 0), (3, 3), (4, -1)])
def test_a_final_goes_to_the_wished_partition_if_there_is_one(
    wish: int | None, partition: int
) -> None:
    made = final(half(wish))

    assert made.partition == partition


@pytest.mark.parametrize("wish", [b"-1", b"x", b"", b"1.0", b"9" * 5_000], ids=lambda one: one[:4])
def test_a_wish_that_is_no_number_or_has_many_digits_is_for_no_partition(wish: bytes) -> None:
    given = half()
    given.headers().append(("REAL_QID", wish))

    assert final(given).partition == -1


def test_a_missing_topic_refuses_the_half_as_it_is() -> None:
    given = half(mine="1")
    origin = RecordOrigin(NAMES.half, 2, 77)

    refusal = Router(NAMES, lambda _: None).final(given, origin)
    assert isinstance(refusal, Refusal)
    refused = Router(NAMES, lambda _: None).refused(given, origin, refusal)

    assert refused.topic == NAMES.refused
    assert refused.headers[: len(given.headers())] == given.headers()
    assert text_value(refused.headers, "__checkback.errors.reason") == "REAL_TOPIC_MISSING"
    assert text_value(refused.headers, "__checkback.errors.topic") == NAMES.half
    assert "orders" in (text_value(refused.headers, "__checkback.errors.message") or "")


def test_the_size_that_is_refused_is_the_size_that_may_not_fit() -> None:
    given = half(mine="x" * 100)
    made = final(given)
    size = record_bytes_max(made.key, made.value, made.headers)

    found = [reason(KnownTopic(1, size - less), given=given) for less in (0, 1)]

    assert found == [None, RefusedReason.FINAL_TOO_LARGE]


def test_check_times_of_the_user_are_not_believed() -> None:
    given = half(TRANSACTION_CHECK_TIMES="99", TRAN_PREPARED_QUEUE_OFFSET="5")

    request = ROUTER.check_request(given, RecordOrigin(NAMES.half, 1, 7), 2)

    assert isinstance(request, SinkRecord)

    assert request.topic == NAMES.check("g")
    names = [name for name, _ in request.headers]
    assert names.count("TRANSACTION_CHECK_TIMES") == 1
    assert text_value(request.headers, "TRANSACTION_CHECK_TIMES") == "2"
    assert text_value(request.headers, "TRAN_PREPARED_QUEUE_OFFSET") == "7"


def test_a_check_request_tells_the_interval_and_a_final_does_not() -> None:
    given = half(TRANSACTION_CHECK_INTERVAL_MS="1")

    router = Router(NAMES, lambda _: WIDE, check_interval_ms=60_000, check_max=2)

    def told(check_times: int) -> list[bytes]:
        asked = router.check_request(given, ORIGIN, check_times)
        assert isinstance(asked, SinkRecord)
        return [value for name, value in asked.headers if name == "TRANSACTION_CHECK_INTERVAL_MS"]

    assert told(1) == [b"60000"]
    assert told(2) == told(3) == []  # no producer may skip the last one as old
    assert "TRANSACTION_CHECK_INTERVAL_MS" not in dict(final(given).headers)


def test_a_record_that_is_gone_is_refused_with_its_origin_only() -> None:
    refusal = Refusal(RefusedReason.HALF_LOST, "commit")

    refused = ROUTER.refused(None, RecordOrigin(NAMES.half, 1, 7), refusal)

    assert (refused.key, refused.value) == (None, None)
    assert text_value(refused.headers, "__checkback.errors.offset") == "7"


def test_a_record_without_headers_is_refused_untouched() -> None:
    origin, refusal = RecordOrigin(NAMES.op, 0, 3), Refusal(RefusedReason.OP_TAG_UNKNOWN)

    refused = ROUTER.refused(message(key=b"key"), origin, refusal)

    assert refused.value is None
    assert text_value(refused.headers, "__checkback.errors.code") == "24"
    assert text_value(refused.headers, "__checkback.errors.cut") is None


@pytest.mark.parametrize("measured", [False, True])
def test_a_topic_that_takes_no_old_records_is_asked_for_its_bound(*, measured: bool) -> None:
    bound = KnownTopic(1, 1_000_000, before_max_ms=1_000)

    found = [reason(bound, now_ms, measures_all=measured) for now_ms in (2_234, 2_235)]

    assert found == [None, RefusedReason.FINAL_REJECTED]


def test_nothing_goes_to_a_topic_on_which_no_transaction_may_end() -> None:
    router = Router(
        NAMES, lambda _: KnownTopic(1, 1_000_000, transaction_end_bounds=("max.message.bytes",))
    )

    refusals = [
        router.final(half(), ORIGIN),
        router.check_request(half(), ORIGIN, 1),
        router.discarded(half(), ORIGIN, 1, "expired"),
    ]

    assert [one.reason.name for one in refusals if isinstance(one, Refusal)] == [
        "FINAL_REJECTED", "FINAL_REJECTED", "DISCARD_REJECTED",
    ]  # fmt: skip


def test_nothing_goes_to_a_topic_that_is_short_of_replicas() -> None:
    router = Router(NAMES, lambda _: KnownTopic(1, 1_000_000, shortage="no leader"))

    refusals = [router.final(half(), ORIGIN), router.check_request(half(), ORIGIN, 1)]

    assert refusals == [
        Refusal(RefusedReason.REAL_TOPIC_UNAVAILABLE, "orders: no leader"),
        Refusal(RefusedReason.REAL_TOPIC_UNAVAILABLE, f"{NAMES.check('g')}: no leader"),
    ]


def test_no_final_goes_to_a_system_topic_of_whatever_prefix() -> None:
    system = KnownTopic(1, 1_000_000, is_system=True)

    assert reason(system) is RefusedReason.REAL_TOPIC_MISSING
