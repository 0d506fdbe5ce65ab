"""What a producer with a marker makes of what librdkafka says, and of what others wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.unit.test_touched_markers import BARE, cluster, write

from checkback.sinks.kafka import transaction
from checkback.sinks.kafka.epoch import begin_epoch
from checkback.sinks.kafka.marker import MarkerStore
from checkback.sinks.kafka.sink_record import BY_KEY, SinkRecord
from checkback.sinks.kafka.transaction import (
    REPORTS_WITHIN_S,
    MarkedProducer,
    ProducerLostError,
    RejectedOutputError,
    Rejection,
    unanswered,
)
from checkback.testing.fake_kafka import Cluster

__all__ = ["cluster"]
RECORD = SinkRecord("orders", 3, b"key", b"value", [], 77)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
ABORTABLE = KafkaError(KafkaError._STATE, "over", txn_requires_abort=True)


def report(error: KafkaError | None, topic: str | None = "orders", at: int | None = 3) -> Any:
    """What is noted of a record whose report says this."""
    noted: list[Rejection] = []
    message: Any = SimpleNamespace(topic=lambda: topic, partition=lambda: at)
    transaction._delivered(noted, RECORD, error, message)
    return noted


def test_a_rejection_names_the_record_its_place_and_the_reason() -> None:
    code = KafkaError.MSG_SIZE_TOO_LARGE

    assert report(TOO_LARGE) == [Rejection("orders", 3, code, "too large", RECORD)]
    assert report(TOO_LARGE, None, None) == [Rejection("", 0, code, "too large", RECORD)]


def test_what_was_delivered_or_taken_out_by_an_abort_is_no_rejection() -> None:
    assert report(None) == []
    for code in transaction.PURGED_CODES:
        assert report(KafkaError(code)) == []


def test_the_error_for_rejected_records_names_the_first() -> None:
    error = RejectedOutputError([Rejection("orders", 3, 10, "too large"), Rejection("b", 0, 1, "")])

    assert str(error) == "Kafka rejected output for orders: too large."


def test_a_loss_without_an_answer_says_what_happened_and_what_to_do() -> None:
    error = unanswered("Nobody answered.")

    assert str(error) == "Nobody answered. Check the brokers."
    assert error.was_unanswered is True


class Kafka:
    """In place of confluent-kafka's producer; a poll takes as long as it may, and gives reports."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.report = settings["on_delivery"]
        self.now_s = 0.0
        self.polls: list[float] = []
        self.sent: tuple[Any, ...] = ()
        self.refuses: list[Exception] = []
        self.polled: Callable[[], None] = lambda: None

    def poll(self, timeout_s: float) -> None:
        self.now_s += timeout_s
        self.polls.append(timeout_s)
        self.polled()

    def produce(self, *sent: Any, headers: Any, timestamp: int) -> None:
        if self.refuses:
            raise self.refuses.pop(0)
        self.sent = (*sent, headers, timestamp)

    def purge(self) -> None:
        """Do nothing."""


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(transaction, "Producer", Kafka)
    monkeypatch.setattr(MarkedProducer, "_initialise", lambda _: None)
    monkeypatch.setattr(MarkerStore, "_read", lambda *_: {})
    made: Any = MarkedProducer(BARE, 0)
    clock = SimpleNamespace(monotonic=lambda: made._producer.now_s)
    monkeypatch.setattr(transaction, "time", clock)
    yield made
    made.close()


def test_a_record_that_is_not_queued_is_refused_with_its_place(producer: Any) -> None:
    with pytest.raises(RejectedOutputError) as refused:
        producer.refuse("orders", TOO_LARGE, RECORD)
    assert refused.value.rejections == [
        Rejection("orders", 3, TOO_LARGE.code(), "too large", RECORD)
    ]
    with pytest.raises(RejectedOutputError) as refused:
        producer.refuse("orders", TOO_LARGE)
    assert refused.value.rejections == [Rejection("orders", BY_KEY, TOO_LARGE.code(), "too large")]


def test_the_report_that_led_to_a_transactions_end_is_waited_for(producer: Any) -> None:
    kafka = producer._producer
    message = SimpleNamespace(topic=lambda: "orders", partition=lambda: 3)
    kafka.polled = lambda: len(kafka.polls) == 3 and kafka.report(TOO_LARGE, message)

    with pytest.raises(RejectedOutputError):
        producer.refuse("orders", ABORTABLE)

    assert len(kafka.polls) == 3


def test_a_report_that_does_not_come_is_not_waited_for_for_ever(producer: Any) -> None:
    with pytest.raises(ProducerLostError, match="state partition 0 is lost: over") as lost:
        producer.refuse("orders", ABORTABLE)

    assert (lost.value.was_rejected, lost.value.was_unanswered) == (True, False)
    waited_s = sum(producer._producer.polls)
    assert waited_s == pytest.approx(REPORTS_WITHIN_S, abs=transaction.FLUSH_SLICE_S + 0.01)


def test_a_tracked_record_is_sent_with_a_report_of_its_own(producer: Any) -> None:
    kafka = producer._producer
    producer.send(RECORD)
    assert kafka.sent == ("orders", b"value", b"key", 3, None, [], 77)

    producer.tracks_records = True
    producer.send(RECORD)

    *place, tell, _, _ = kafka.sent
    assert place == ["orders", b"value", b"key", 3]
    tell(TOO_LARGE, SimpleNamespace(topic=lambda: "orders", partition=lambda: 3))
    assert producer._rejections == report(TOO_LARGE)


def test_a_full_queue_is_waited_for(producer: Any) -> None:
    producer._producer.refuses = [BufferError("full"), BufferError("full")]
    producer.send(RECORD)

    assert producer._producer.sent[0] == "orders"
    assert len(producer._producer.polls) == 2


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KafkaException(TOO_LARGE), KafkaError.MSG_SIZE_TOO_LARGE, "too large"),
        (OverflowError("too long"), KafkaError._INVALID_ARG, "OverflowError: too long"),
        (TypeError("no bytes"), KafkaError._INVALID_ARG, "TypeError: no bytes"),
    ],
)
def test_a_record_that_the_client_does_not_take_is_refused_and_not_sent_again(
    producer: Any, error: Exception, code: int, text: str
) -> None:
    producer._producer.refuses = [error]

    with pytest.raises(RejectedOutputError) as refused:
        producer.send(RECORD)

    assert refused.value.rejections == [Rejection("orders", 3, code, text, RECORD)]
    assert f"output for orders: {text}" in str(refused.value)


def test_room_is_made_by_polling_for_a_moment(producer: Any) -> None:
    producer.make_room()

    assert producer._producer.polls == [0.1]


def test_a_call_that_may_pass_is_tried_again_and_then_its_loss_is_unanswered(
    producer: Any,
) -> None:
    passing = KafkaException(KafkaError(KafkaError._TIMED_OUT, "later", retriable=True))
    answers: list[Any] = [passing, passing, "done"]

    def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    assert producer._guard(call) == "done"
    answers[:] = [passing] * transaction.CALL_TRIES + ["never"]
    with pytest.raises(ProducerLostError) as lost:
        producer._guard(call)
    assert answers == ["never"]
    assert lost.value.was_unanswered
    assert lost.value.fields == {"code": "_TIMED_OUT"}
    assert lost.value.remedy == (
        "Check the brokers, and that no second job runs over the same checkpoint."
    )


def test_who_wrote_the_batch_before_sees_whether_another_one_moved_the_marker(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = begin_epoch(BARE, 1, (), 0)
    mine = MarkedProducer(settings, 0)
    assert not mine.is_superseded(1)

    write(settings, 0)

    assert mine.is_superseded(1)
    monkeypatch.setattr(MarkerStore, "read", None)  # nobody looks
    assert not mine.is_superseded(0)
    mine.marker = None
    assert not mine.is_superseded(1)
