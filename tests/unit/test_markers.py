"""What a marker says of batches, and when it has to be moved although nothing is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster import transient_errors
from checkback.sinks.kafka.transaction import marker
from checkback.sinks.kafka.transaction.marker import (
    BY_HAND,
    RENEWAL_MS,
    Marker,
    MarkerStore,
    committed_offsets,
)
from checkback.sinks.settings import SinkSettings

NO_OFFSET = -1001


def test_one_row_of_a_batch_is_some_of_it() -> None:
    in_part, whole = Marker(3, 0, rows_done=1), Marker(3, 0)

    assert [in_part.has_any_of(batch) for batch in (2, 3, 4)] == [True, True, False]
    assert [whole.has_any_of(batch) for batch in (2, 3)] == [True, False]


def test_a_marker_is_renewed_after_an_hour_also_where_the_clock_was_set_back() -> None:
    moved_at_ms = 1_700_000_000_000
    moved = Marker(3, moved_at_ms)
    steps_ms = (0, RENEWAL_MS - 1, RENEWAL_MS, 1 - RENEWAL_MS, -RENEWAL_MS)

    due = [moved.is_due_for_renewal(moved_at_ms + step_ms) for step_ms in steps_ms]

    assert due == [False, False, True, False, True]


class Coordinator:
    """A consumer whose group answers with these codes for partition 1, then with offset 7."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def committed(self, wanted: list[TopicPartition], _: float) -> list[Any]:
        code = self.codes.pop(0) if self.codes else None
        error = None if code is None else KafkaError(code)
        told = {1: (NO_OFFSET if error else 7, error)}
        answers = [(one.partition, *told.get(one.partition, (7, None))) for one in wanted]
        return [SimpleNamespace(partition=at, offset=end, error=no) for at, end, no in answers]


def committed(coordinator: Any, until_s: float) -> list[int]:
    wanted = [TopicPartition("t", 0), TopicPartition("t", 1)]
    return [one.offset for one in committed_offsets(coordinator, wanted, until_s)]


def test_an_offset_that_is_not_told_is_not_taken_for_one_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transient_errors, "PAUSE_S", 0)
    moving = Coordinator(KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError.NOT_COORDINATOR)

    assert committed(moving, float("inf")) == [7, 7]
    assert committed(Coordinator(KafkaError._TIMED_OUT), float("inf")) == [7, 7]
    with pytest.raises(KafkaException):
        committed(Coordinator(KafkaError.TOPIC_AUTHORIZATION_FAILED), float("inf"))
    with pytest.raises(KafkaException):
        committed(Coordinator(KafkaError.UNSTABLE_OFFSET_COMMIT), 0)


def test_a_group_is_asked_for_the_time_that_is_left_and_for_a_second_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100.0, sleep=lambda _: None)
    monkeypatch.setattr(marker, "time", clock)
    limits: list[float] = []

    def committed_within(_: Any, limit_s: float) -> list[TopicPartition]:
        limits.append(limit_s)
        return []

    consumer: Any = SimpleNamespace(committed=committed_within)
    for until_s in (130.0, 100.5, 90.0):
        committed_offsets(consumer, [], until_s)

    assert limits == [30.0, 1.0, 1.0]


def test_markers_that_can_not_be_read_are_told_with_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> Any:
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    monkeypatch.setattr(marker, "committed_offsets", refuse)
    store = MarkerStore(SinkSettings(Settings(), "query", {}, 9_000))
    with pytest.raises(BrokerError, match="Group authorization failed") as told:
        store.read([0])
    store.close()

    assert told.value.fields["code"] == "GROUP_AUTHORIZATION_FAILED"


def test_markers_are_read_within_half_a_minute_or_the_time_that_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []

    def note(_: object, wanted: list[TopicPartition], until_s: float) -> list[TopicPartition]:
        limits.append(until_s)
        return [TopicPartition(one.topic, one.partition, 7 - one.partition * 8) for one in wanted]

    monkeypatch.setattr(marker, "committed_offsets", note)
    monkeypatch.setattr(marker, "time", SimpleNamespace(monotonic=lambda: 100.0))
    store = MarkerStore(SinkSettings(Settings(), "query", {}, 9_000))
    found = [store.read([0, 1]), store.read([0, 1], 5.0), store.read_hastily([0, 1])]
    store.close()

    assert limits == [130.0, 105.0, 130.0]
    assert found == [{0: Marker(7, 0, BY_HAND)}] * 3


@pytest.mark.parametrize(
    ("how", "isolation"), [({}, "read_committed"), ({"is_hasty": True}, "read_uncommitted")]
)
def test_a_look_before_fencing_waits_for_no_open_transaction(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, bool], isolation: str
) -> None:
    asked: list[str] = []

    def read(consumer: Any, *_: object) -> list[TopicPartition]:
        asked.append(consumer.isolation)
        return []

    monkeypatch.setattr(marker, "committed_offsets", read)
    monkeypatch.setattr(
        MarkerStore, "_open", lambda _, isolation: SimpleNamespace(isolation=isolation, close=int)
    )

    assert marker.markers_of(SinkSettings(Settings(), "query", {}, 9_000), 2, **how) == {}
    assert asked == [isolation]
