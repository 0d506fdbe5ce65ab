"""What becomes of a half message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from checkback.protocol.properties import Headers, text_value
from checkback.protocol.records import half_headers
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.sinks import routing
from checkback.sinks.real_topics import KnownTopic

NAMES = TopicNames("p-")
WIDE = KnownTopic(partitions=4, record_batch_bytes_max=1_000_000)


@dataclass
class Half:
    """A record as the look-up gives it."""

    found: Headers | None
    body: bytes | None = b"body"

    def key(self) -> bytes | None:
        return b"key"

    def value(self) -> bytes | None:
        return self.body

    def headers(self) -> Headers | None:
        return self.found

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_234


def half(real_queue_id: int | None = None, **properties: str) -> Half:
    return Half(
        half_headers(
            producer_group="g",
            transaction_id="u",
            real_topic="orders",
            properties=properties,
            real_queue_id=real_queue_id,
        )
    )


def test_a_final_keeps_key_body_time_and_the_users_properties() -> None:
    given = half(TAGS="t", KEYS="k", mine="1", CHECK_IMMUNITY_TIME_IN_SECONDS="5", DELAY="3")

    final = routing.final_or_refused(given, 2, 77, lambda _: WIDE, NAMES)

    assert (final.topic, final.key, final.value, final.timestamp_ms) == (
        "orders", b"key", b"body", 1_234,
    )  # fmt: skip
    assert dict(final.headers) == {
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
    final = routing.final_or_refused(half(wish), 0, 0, lambda _: WIDE, NAMES)

    assert final.partition == partition


@pytest.mark.parametrize("wish", [b"-1", b"x", b"", b"1.0"])
def test_a_wish_that_is_no_number_is_none(wish: bytes) -> None:
    given = half()
    assert given.found is not None
    given.found.append(("REAL_QID", wish))

    assert routing.final_or_refused(given, 0, 0, lambda _: WIDE, NAMES).partition == -1


def test_a_missing_topic_refuses_the_half_as_it_is() -> None:
    given = half(mine="1")

    refused = routing.final_or_refused(given, 2, 77, lambda _: None, NAMES)

    assert refused.topic == NAMES.refused
    assert refused.headers[: len(given.found or [])] == given.found
    assert text_value(refused.headers, "__checkback.errors.reason") == "REAL_TOPIC_MISSING"
    assert text_value(refused.headers, "__checkback.errors.topic") == NAMES.half
    assert "orders" in (text_value(refused.headers, "__checkback.errors.message") or "")


def test_the_size_that_is_refused_is_the_size_that_may_not_fit() -> None:
    given = half(mine="x" * 100)
    final = routing.final_or_refused(given, 0, 0, lambda _: WIDE, NAMES)
    size = routing.record_bytes_max(final.key, final.value, final.headers)

    fits = routing.final_or_refused(given, 0, 0, lambda _: KnownTopic(1, size), NAMES)
    too_large = routing.final_or_refused(given, 0, 0, lambda _: KnownTopic(1, size - 1), NAMES)

    assert fits.topic == "orders"
    assert text_value(too_large.headers, "__checkback.errors.reason") == "FINAL_TOO_LARGE"


def test_check_times_of_the_user_are_not_believed() -> None:
    given = half(TRANSACTION_CHECK_TIMES="99", TRAN_PREPARED_QUEUE_OFFSET="5")

    request = routing.check_request(given, 1, 7, 2, NAMES)

    assert request.topic == NAMES.check("g")
    names = [name for name, _ in request.headers]
    assert names.count("TRANSACTION_CHECK_TIMES") == 1
    assert text_value(request.headers, "TRANSACTION_CHECK_TIMES") == "2"
    assert text_value(request.headers, "TRAN_PREPARED_QUEUE_OFFSET") == "7"


def test_a_record_that_is_gone_is_refused_with_its_origin_only() -> None:
    refused = routing.refused(None, NAMES.half, 1, 7, RefusedReason.HALF_LOST, NAMES, "commit")

    assert (refused.key, refused.value) == (None, None)
    assert text_value(refused.headers, "__checkback.errors.offset") == "7"


def test_a_record_without_headers_is_refused_untouched() -> None:
    refused = routing.refused(Half(None, None), NAMES.op, 0, 3, RefusedReason.OP_TAG_UNKNOWN, NAMES)

    assert refused.value is None
    assert text_value(refused.headers, "__checkback.errors.code") == "24"


def test_a_header_is_measured_by_its_bytes_and_may_be_null() -> None:
    plain = routing.record_bytes_max(b"key", b"body", [("ae", b"")])
    wide = routing.record_bytes_max(b"key", b"body", [("é", b"")])
    null: Any = [("ae", None)]

    assert wide == plain
    assert routing.record_bytes_max(b"key", b"body", null) == plain
