"""What a producer with a marker makes of what librdkafka says, and of what others wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.fakes.kafka import Cluster
from tests.unit.sink_stage import BARE, NAMES, cluster, write

from checkback.protocol.errors import BrokerError, FencedError
from checkback.sinks.kafka.transaction import producer as transaction
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.kafka.transaction.errors import (
    PURGED_CODES,
    ProducerLostError,
    RejectedOutputError,
    Rejection,
    explain_loss,
    unanswered,
)
from checkback.sinks.kafka.transaction.limited_call import HangingCallError
from checkback.sinks.kafka.transaction.marker import Marker, MarkerStore
from checkback.sinks.kafka.transaction.producer import (
    CALL_TIMEOUT_S,
    HANGING_AFTER_S,
    REPORTS_WITHIN_S,
    SLOW_COMMIT_S,
    MarkedProducer,
)
from checkback.sinks.records.sink_record import BY_KEY, SinkRecord

__all__ = ["cluster"]
RECORD = SinkRecord("orders", 3, b"key", b"value", [], 77)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
ABORTABLE = KafkaError(KafkaError._STATE, "over", txn_requires_abort=True)


def report(error: KafkaError | None, topic: str | None = "orders", at: int | None = 3) -> Any:
    """What is noted of a record whose report says this."""
    noted: list[Rejection] = []
    message: Any = SimpleNamespace(topic=lambda: topic, partition=lambda: at)
    transaction.note_rejection(noted, RECORD, error, message)
    return noted


def test_a_rejection_names_the_record_its_place_and_the_reason() -> None:
    code = KafkaError.MSG_SIZE_TOO_LARGE

    assert report(TOO_LARGE) == [Rejection("orders", 3, code, "too large", RECORD)]
    assert report(TOO_LARGE, None, None) == [Rejection("", 0, code, "too large", RECORD)]


def test_what_was_delivered_or_taken_out_by_an_abort_is_no_rejection() -> None:
    assert report(None) == []
    for code in PURGED_CODES:
        assert report(KafkaError(code)) == []


def test_a_loss_without_an_answer_says_what_happened_and_what_to_do() -> None:
    error = unanswered("Nobody answered.")

    assert str(error) == "Nobody answered. Check the brokers."
    assert error.was_unanswered is True


LOST = ProducerLostError("Somebody fenced it.", remedy="Look who.")


def test_a_producer_lost_before_its_timeout_was_fenced() -> None:
    error = explain_loss(LOST, BARE, 7, BARE.transaction_timeout_ms - 1)

    assert isinstance(error, FencedError)
    assert (error.message, error.remedy) == ("Somebody fenced it.", "Look who.")


def test_a_producer_lost_after_its_timeout_was_too_slow_and_the_remedy_names_a_time() -> None:
    error = explain_loss(LOST, BARE, 7, BARE.transaction_timeout_ms)

    assert isinstance(error, BrokerError)
    assert "Batch 7 took longer to write than sink_transaction_timeout_ms" in error.message
    assert "Set sink_transaction_timeout_ms to 30000 or more" in error.remedy
    assert error.fields == {"batch_id": 7, "open_ms": 10_000, "timeout_ms": 10_000}


class Kafka:
    """In place of confluent-kafka's producer; a poll takes as long as it may, and gives reports."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.report = settings["on_delivery"]
        self.now_s = 0.0
        self.polls: list[float] = []
        self.sent: tuple[Any, ...] = ()
        self.refuses: list[Exception] = []
        self.offsets: tuple[Any, ...] = ()
        self.left, self.commit_s, self.commit_timeout_s = 0, 0.0, 0.0
        self.polled: Callable[[], None] = lambda: None

    def poll(self, timeout_s: float) -> None:
        self.now_s += timeout_s
        self.polls.append(timeout_s)
        self.polled()

    def produce(self, *sent: Any, on_delivery: Any, headers: Any, timestamp: int) -> None:
        if self.refuses:
            raise self.refuses.pop(0)
        self.sent = (*sent, on_delivery, headers, timestamp)

    def flush(self, timeout_s: float) -> int:
        self.poll(timeout_s)
        return self.left

    def send_offsets_to_transaction(self, *sent: Any) -> None:
        self.offsets = sent

    def commit_transaction(self, timeout_s: float) -> None:
        self.commit_timeout_s = timeout_s
        self.now_s += self.commit_s

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


def test_a_producer_is_initialised_for_its_partition_and_looks_for_a_successor_meanwhile(
    producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    called: list[tuple[Any, ...]] = []
    monkeypatch.setattr(transaction, "initialise_once_ended", lambda *given: called.append(given))

    producer._initialise()

    look = producer._look_hastily
    assert called == [(producer._producer, BARE, 0, CALL_TIMEOUT_S, look)]


def test_a_record_that_is_not_queued_is_refused_with_its_place(producer: Any) -> None:
    with pytest.raises(RejectedOutputError) as refused:
        producer.raise_not_queued("orders", TOO_LARGE, RECORD)
    assert refused.value.rejections == [
        Rejection("orders", 3, TOO_LARGE.code(), "too large", RECORD)
    ]
    with pytest.raises(RejectedOutputError) as refused:
        producer.raise_not_queued("orders", TOO_LARGE)
    assert refused.value.rejections == [Rejection("orders", BY_KEY, TOO_LARGE.code(), "too large")]


def test_the_report_that_led_to_a_transactions_end_is_waited_for(producer: Any) -> None:
    kafka = producer._producer
    message = SimpleNamespace(topic=lambda: "orders", partition=lambda: 3)
    kafka.polled = lambda: len(kafka.polls) == 3 and kafka.report(TOO_LARGE, message)

    with pytest.raises(RejectedOutputError):
        producer.raise_not_queued("orders", ABORTABLE)

    assert len(kafka.polls) == 3


def test_a_report_that_does_not_come_is_not_waited_for_for_ever(producer: Any) -> None:
    with pytest.raises(ProducerLostError, match="state partition 0 is lost: over") as lost:
        producer.raise_not_queued("orders", ABORTABLE)

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


@pytest.mark.parametrize(("commit_s", "is_spent"), [(0.1, False), (SLOW_COMMIT_S + 0.1, True)])
def test_a_producer_is_spent_once_a_commit_took_long(
    producer: Any, commit_s: float, *, is_spent: bool
) -> None:
    producer._producer.now_s = 1_000.0
    producer._producer.commit_s = commit_s

    producer.commit_part(7, 3, 12_345)

    [position], _, timeout_s = producer._producer.offsets
    assert (position.topic, position.partition, position.offset) == (NAMES.settled, 0, 7)
    assert timeout_s == BARE.transaction_timeout_ms / 1_000
    assert producer._producer.commit_timeout_s == CALL_TIMEOUT_S
    assert producer.marker == Marker(7, 12_345, BARE.epoch, 3)
    assert producer.is_spent == is_spent


def test_a_producer_whose_marker_is_not_taken_in_time_hangs(
    producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    def hang(_: Any, timeout_s: float) -> None:
        limits.append(timeout_s)
        raise HangingCallError

    monkeypatch.setattr(transaction, "call_within", hang)
    with pytest.raises(ProducerLostError, match="producer of state partition 0 hangs") as lost:
        producer.commit(7, 12_345)

    assert limits == [BARE.transaction_timeout_ms / 1_000 + HANGING_AFTER_S]
    assert lost.value.was_unanswered


def test_what_the_brokers_do_not_take_is_waited_for_as_long_as_a_call(producer: Any) -> None:
    producer._producer.left = 1
    told = "did not take what state partition 0 sent in 60 s"
    with pytest.raises(ProducerLostError, match=told) as lost:
        producer.flush()

    assert lost.value.was_unanswered
    assert sum(producer._producer.polls) == pytest.approx(CALL_TIMEOUT_S, abs=0.2)
    producer._producer.left = 0
    producer._producer.polls.clear()
    producer.flush()
    assert producer._producer.polls == [transaction.FLUSH_SLICE_S]


@pytest.mark.parametrize(
    ("code", "kind", "told", "is_unanswered"),
    [
        (KafkaError._FENCED, ProducerLostError, "Fenced while writing: a text", False),
        (KafkaError.INVALID_TXN_STATE, ProducerLostError, "was ended: a text", True),
        (KafkaError.MSG_SIZE_TOO_LARGE, RejectedOutputError, "rejected output for a: a text", None),
    ],
)
def test_the_worst_report_says_what_became_of_the_producer(
    producer: Any, code: int, kind: type[Exception], told: str, is_unanswered: bool | None
) -> None:
    producer._raise_rejections()
    large = KafkaError.MSG_SIZE_TOO_LARGE
    noted = [Rejection("a", 0, large, "a text"), Rejection("b", 0, code, "another")]
    producer._rejections.extend(noted)

    with pytest.raises(kind, match=told) as raised:
        producer._raise_rejections()

    error: Any = raised.value
    assert getattr(error, "was_unanswered", None) == is_unanswered
    assert getattr(error, "rejections", noted) == noted


def test_a_call_that_may_pass_is_tried_again_and_then_its_loss_is_unanswered(producer: Any) -> None:
    passing = KafkaException(KafkaError(KafkaError._TIMED_OUT, "later", retriable=True))
    answers: list[Any] = [passing, passing, "done"]

    def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    producer._rejections.append(Rejection("orders", 3, 10, "too large"))
    assert producer._guard(call) == "done"
    answers[:] = [passing] * transaction.CALL_TRIES + ["never"]
    with pytest.raises(ProducerLostError) as lost:
        producer._guard(call)
    assert answers == ["never"]
    assert lost.value.was_unanswered
    assert lost.value.fields == {"code": "_TIMED_OUT"}
    for lasting in (KafkaError(1), KafkaError(1, "", fatal=True, retriable=True)):
        answers[:] = [KafkaException(lasting), "never"]
        with pytest.raises(ProducerLostError):
            producer._guard(call)
        assert answers == ["never"]
    assert lost.value.remedy == (
        "Check the brokers, and that no second job runs over the same checkpoint."
    )


def test_who_wrote_the_batch_before_sees_whether_another_one_moved_the_marker(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = begin_epoch(BARE, 1, (), 0)
    mine = MarkedProducer(settings, 0)
    assert not mine.is_superseded(1)

    write(settings, 0, 0)

    assert mine.is_superseded(1)
    monkeypatch.setattr(MarkerStore, "read", None)  # nobody looks
    assert not mine.is_superseded(0)
    mine.marker = None
    assert not mine.is_superseded(1)
