"""Budgets, clocks, messages, options, outcomes, requests: small parts with a rule each."""

from __future__ import annotations

import dataclasses

import pytest
from kafka import errors

from checkback.client.broker_clock import BrokerClock
from checkback.client.budget import Budget
from checkback.client.check_request import read_check_request
from checkback.client.counters import Counters, Event
from checkback.client.listener import LocalTransactionState
from checkback.client.message import Message, MessageQueue
from checkback.client.options import ProducerKeywords, ProducerOptions
from checkback.client.outcome import REMARK_LENGTH_MAX, outcome_of, remark_of, run_listener
from checkback.client.results import SendResult, SendStatus
from checkback.client.send_errors import is_certain_rejection, is_tried_again, not_safely_stored
from checkback.client.topic_limits import record_bytes
from checkback.protocol.errors import ConfigurationError, InvalidMessageError
from checkback.protocol.records import check_headers, half_headers


def test_a_budget_ends_by_time_and_by_tries() -> None:
    budget = Budget(started_ms=1_000, timeout_ms=300, tries_max=3, least_ms=60)
    assert budget.remaining_ms(1_100) == 200
    assert budget.remaining_ms(2_000) == 0
    assert budget.allows(2, 1_240)
    assert not budget.allows(3, 1_000)
    assert not budget.allows(0, 1_241)
    assert not Budget(0, 100, 1).allows(0, 100)


def test_an_age_is_told_by_the_brokers_clock() -> None:
    clock = BrokerClock()
    assert clock.age_ms(0, now_ms=10**12) == 0
    clock.learn(appended_at_ms=5_000, now_ms=2_000)
    assert clock.age_ms(5_500, now_ms=3_000) == 500


@pytest.mark.parametrize(
    ("message", "key"),
    [
        (Message("t", b"x"), None),
        (Message("t", b"x", keys="a"), b"a"),
        (Message("t", b"x", keys="a b"), b"a"),
        (Message("t", b"x", keys="a", key=b"k"), b"k"),
        (Message("t", b"x", key=b""), b""),
    ],
)
def test_the_record_key(message: Message, key: bytes | None) -> None:
    assert message.record_key() == key


def test_properties_by_rocketmqs_names() -> None:
    message = Message("t", b"x", keys="k", tags="g", properties={"a": "b"}, transaction_id="id")
    found = [message.get_property(name) for name in ("a", "KEYS", "TAGS", "UNIQ_KEY", "none")]
    assert found == ["b", "k", "g", "id", None]


def test_options_and_keywords_have_the_same_names() -> None:
    fields = {one.name for one in dataclasses.fields(ProducerOptions)}
    assert fields == set(ProducerKeywords.__annotations__)


@pytest.mark.parametrize("name", ["send_msg_timeout_ms", "check_request_hold_max"])
def test_options_out_of_bounds_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is 0"):
        ProducerOptions(**{name: 0})  # type: ignore[arg-type]


def test_more_check_threads_at_least_than_at_most_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="check_thread_pool_max_size"):
        ProducerOptions(check_thread_pool_min_size=2)


def test_options_show_no_kafka_secret() -> None:
    assert "hunter2" not in repr(ProducerOptions(kafka={"sasl.password": "hunter2"}))


def test_what_a_listener_returns() -> None:
    commit = LocalTransactionState.COMMIT_MESSAGE
    assert run_listener(lambda: commit).state is commit
    assert run_listener(lambda: None).state is LocalTransactionState.UNKNOW
    assert outcome_of("COMMIT").state is LocalTransactionState.UNKNOW
    assert outcome_of("COMMIT").remark == "the listener returned a str"


def test_a_number_is_no_state() -> None:
    """8 is COMMIT_MESSAGE's value, but a listener that returns it did not say so."""
    assert outcome_of(8).state is LocalTransactionState.UNKNOW


def test_a_remark_is_one_short_line() -> None:
    remark = remark_of(ValueError("a\nb " + "x" * 5_000))
    assert remark.startswith("ValueError: a b x")
    assert len(remark) == REMARK_LENGTH_MAX


def test_a_callback_that_fails_stops_no_count(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: Event) -> None:
        raise RuntimeError(event)

    counters = Counters(fail)
    counters.add(Event.SENT)
    assert counters.snapshot()[Event.SENT] == 1


def test_offset_message_id() -> None:
    stored = SendResult(
        send_status=SendStatus.SEND_OK,
        msg_id="m",
        message_queue=MessageQueue("t", 2),
        queue_offset=7,
    )
    assert stored.offset_msg_id == "t-2-7"
    assert dataclasses.replace(stored, queue_offset=-1).offset_msg_id == ""


def test_which_errors_are_tried_again() -> None:
    again = [
        errors.KafkaConnectionError(), errors.RequestTimedOutError(), errors.KafkaTimeoutError(),
        errors.NotLeaderForPartitionError(), errors.NotEnoughReplicasError(),
        errors.OutOfOrderSequenceNumberError(),
    ]  # fmt: skip
    never = [
        errors.TopicAuthorizationFailedError(), errors.MessageSizeTooLargeError(),
        errors.InvalidRecordError(), ValueError(),
    ]  # fmt: skip
    assert all(is_tried_again(error) for error in again)
    assert not any(is_tried_again(error) for error in never)


def test_which_answers_mean_certainly_not_stored() -> None:
    assert is_certain_rejection(errors.NotEnoughReplicasError.errno)
    assert is_certain_rejection(errors.TopicAuthorizationFailedError.errno)
    for doubtful in (
        errors.NotLeaderForPartitionError,
        errors.NotEnoughReplicasAfterAppendError,
        errors.RequestTimedOutError,
        errors.UnknownError,
    ):
        assert not is_certain_rejection(doubtful.errno)


def test_which_errors_mean_stored_but_not_safely() -> None:
    assert not_safely_stored(errors.RequestTimedOutError()) is SendStatus.FLUSH_SLAVE_TIMEOUT
    after_append = errors.NotEnoughReplicasAfterAppendError()
    assert not_safely_stored(after_append) is SendStatus.SLAVE_NOT_AVAILABLE
    assert not_safely_stored(errors.KafkaTimeoutError()) is None


def test_a_check_request_gives_back_the_message() -> None:
    half = half_headers(
        producer_group="g",
        transaction_id="id",
        real_topic="t",
        properties={"a": "b", "KEYS": "k", "CHECK_IMMUNITY_TIME_IN_SECONDS": "7"},
        real_queue_id=5,
    )
    request = read_check_request(b"k", b"body", check_headers(half, 3, 42, 2), 1_000)
    assert (request.topic, request.body, request.keys, request.queue_id) == ("t", b"body", "k", 5)
    assert request.properties == {"a": "b", "CHECK_IMMUNITY_TIME_IN_SECONDS": "7"}
    assert (request.half_queue, request.queue_offset, request.check_times) == (3, 42, 2)
    assert request.requested_at_ms == 1_000


@pytest.mark.parametrize(
    "missing", ["UNIQ_KEY", "TRAN_HALF_QUEUE_ID", "TRAN_PREPARED_QUEUE_OFFSET"]
)
def test_a_check_request_that_does_not_say_for_which_half_is_unreadable(missing: str) -> None:
    half = half_headers(producer_group="g", transaction_id="id", real_topic="t", properties={})
    headers = [one for one in check_headers(half, 3, 42, 2) if one[0] != missing]
    with pytest.raises(InvalidMessageError, match=missing):
        read_check_request(None, b"x", headers, 0)


def test_the_size_of_a_record_counts_headers_in_utf8() -> None:
    small = record_bytes(b"x", None, [])
    assert record_bytes(b"x", None, [("é", b"12")]) - small >= 4
