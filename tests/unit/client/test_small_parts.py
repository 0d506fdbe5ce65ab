"""Clocks, messages, options, outcomes, requests: small parts with a rule each."""

from __future__ import annotations

import dataclasses

import pytest
from confluent_kafka import KafkaError
from tests.deciding import plain_half

from checkback.client.checks.request import read_check_request
from checkback.client.kafka.broker_watch import BrokerWatch
from checkback.client.kafka.clock import BrokerClock
from checkback.client.kafka.errors import NOT_SAFELY_STORED, REFUSALS
from checkback.client.listener import (
    REMARK_LENGTH_MAX,
    LocalTransactionState,
    one_line,
    result_of,
    run_listener,
)
from checkback.client.message import Message, MessageQueue
from checkback.client.options import ProducerKeywords, ProducerOptions
from checkback.client.producer import CallsInFlight, unique_ids
from checkback.client.results import SendResult, SendStatus
from checkback.client.sending import half as half_module
from checkback.client.sending.half import InDoubtIds
from checkback.protocol.errors import ConfigurationError, InvalidMessageError
from checkback.protocol.records import check_headers, half_headers
from checkback.security.record_signer import RecordSigner


def test_an_age_is_told_by_the_brokers_clock() -> None:
    clock = BrokerClock()
    assert clock.age_ms(0, now_ms=10**12) == 0
    assert clock.now_ms(3_000, time_of_day_ms=99) == 99, "before the first record"
    clock.learn(appended_at_ms=5_000, now_ms=2_000)
    assert clock.age_ms(5_500, now_ms=3_000) == 500
    assert clock.now_ms(3_000, time_of_day_ms=99) == 6_000


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
    message = Message("t", b"x", keys="k", tags="g", properties={"a": ""}, transaction_id="id")
    found = [message.get_property(name) for name in ("a", "KEYS", "TAGS", "UNIQ_KEY", "none")]
    assert found == ["", "k", "g", "id", None]


def test_options_and_keywords_have_the_same_names() -> None:
    fields = {one.name for one in dataclasses.fields(ProducerOptions)}
    assert fields == set(ProducerKeywords.__annotations__)


@pytest.mark.parametrize("name", ["send_msg_timeout_ms", "check_request_hold_max"])
def test_options_out_of_bounds_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is 0"):
        ProducerOptions(**{name: 0})  # type: ignore[arg-type]


def test_options_show_no_kafka_secret() -> None:
    assert "hunter2" not in repr(ProducerOptions(kafka={"sasl.password": "hunter2"}))


def test_what_a_listener_returns() -> None:
    commit = LocalTransactionState.COMMIT_MESSAGE
    assert run_listener(lambda: commit).state is commit
    assert run_listener(lambda: None).state is LocalTransactionState.UNKNOW
    assert result_of("COMMIT").state is LocalTransactionState.UNKNOW
    assert result_of("COMMIT").remark == "the listener returned a str"
    assert result_of(8).state is LocalTransactionState.UNKNOW, "a number is no state"


def test_a_remark_is_one_short_line() -> None:
    remark = one_line(ValueError("a\nb " + "x" * 5_000))
    assert remark.startswith("ValueError: a b x")
    assert len(remark) == REMARK_LENGTH_MAX


def test_offset_message_id() -> None:
    stored = SendResult(
        send_status=SendStatus.SEND_OK,
        msg_id="m",
        message_queue=MessageQueue("t", 2),
        queue_offset=7,
    )
    assert stored.offset_msg_id == "t-2-7"
    assert dataclasses.replace(stored, queue_offset=-1).offset_msg_id == ""


def test_what_is_refused_is_certainly_not_stored_and_would_be_again() -> None:
    again = [
        KafkaError._TRANSPORT, KafkaError._MSG_TIMED_OUT, KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.UNKNOWN,
        KafkaError.NOT_ENOUGH_REPLICAS,  # an earlier try may have been appended
    ]  # fmt: skip
    never = [
        KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
    ]  # fmt: skip
    assert not any(code in REFUSALS for code in again)
    assert all(code in REFUSALS for code in never)


def test_which_errors_mean_stored_but_not_safely() -> None:
    assert NOT_SAFELY_STORED[KafkaError.REQUEST_TIMED_OUT] is SendStatus.FLUSH_SLAVE_TIMEOUT
    after_append = KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert NOT_SAFELY_STORED[after_append] is SendStatus.SLAVE_NOT_AVAILABLE
    assert KafkaError._MSG_TIMED_OUT not in NOT_SAFELY_STORED


def test_the_brokers_number_is_read_from_librdkafkas_error() -> None:
    watch = BrokerWatch()
    watch.connection_failed(KafkaError(KafkaError._TRANSPORT, "kafka-2:9092/2: Connect failed"))
    watch.connection_failed(KafkaError(KafkaError._TRANSPORT, "kafka:9092/bootstrap: Connect"))
    assert [watch.is_away(broker) for broker in (1, 2, None)] == [False, True, False]
    assert watch.is_avoided(2)
    watch.answered(2, latency_ms=1)
    assert watch.all_there()


def test_doubts_forget_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_module, "IN_DOUBT_MAX", 2)
    held = InDoubtIds()
    for name in ("a", "b", "c"):
        held.add(name)
    assert [name in held for name in ("a", "b", "c")] == [False, True, True]


def test_ids_are_32_digits_and_differ() -> None:
    new_id = unique_ids()
    ids = {new_id() for _ in range(1_000)} | {unique_ids()() for _ in range(100)}
    assert len(ids) == 1_100
    assert {len(one) for one in ids} == {32}


def test_a_check_request_says_the_pipelines_interval() -> None:
    headers = check_headers(plain_half("id", "t"), 3, 42, 2)
    assert read_check_request(None, b"x", headers, 0).check_interval_ms is None
    headers.append(("TRANSACTION_CHECK_INTERVAL_MS", b"2000"))
    request = read_check_request(None, b"x", headers, 0)
    assert request.check_interval_ms == 2_000
    assert "TRANSACTION_CHECK_INTERVAL_MS" not in request.properties


def test_a_check_request_lacks_what_the_half_could_be_written_with_once_more() -> None:
    signer = RecordSigner("orders-service", "a-secret", lambda: 1_000, "10.0.0.1")
    signed = signer.half("halves", b"k", b"body", plain_half("u", "t"))

    asked = [name for name, _ in check_headers(signed, 3, 42, 2)]

    assert "Signature" in dict(signed)
    assert "Signature" not in asked
    assert "__BORNHOST" in asked


def test_a_check_request_gives_back_the_message() -> None:
    half = half_headers(
        producer_group="g",
        transaction_id="id",
        real_topic="t",
        properties={"a": "b", "c": b"\xff", "KEYS": "k", "CHECK_IMMUNITY_TIME_IN_SECONDS": "7"},
        real_queue_id=5,
    )
    assert read_check_request(b"k", None, check_headers(half, 3, 42, 2), 1_000).body is None
    request = read_check_request(b"k", b"body", check_headers(half, 3, 42, 2), 1_000)
    assert (request.topic, request.body, request.keys, request.queue_id) == ("t", b"body", "k", 5)
    assert request.properties == {"a": "b", "c": b"\xff", "CHECK_IMMUNITY_TIME_IN_SECONDS": "7"}
    assert (request.half_queue, request.queue_offset, request.check_times) == (3, 42, 2)
    assert request.requested_at_ms == 1_000


@pytest.mark.parametrize(
    "missing", ["UNIQ_KEY", "TRAN_HALF_QUEUE_ID", "TRAN_PREPARED_QUEUE_OFFSET"]
)
def test_a_check_request_that_does_not_say_for_which_half_is_unreadable(missing: str) -> None:
    half = plain_half("id", "t")
    headers = [one for one in check_headers(half, 3, 42, 2) if one[0] != missing]
    with pytest.raises(InvalidMessageError, match=missing):
        read_check_request(None, b"x", headers, 0)


def test_any_exception_makes_a_remark_that_can_be_sent() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert one_line(ValueError("\udcff")) == "ValueError: ?"
    assert one_line(MuteError()) == "MuteError: its text can't be made"


def test_calls_in_flight_are_waited_for_and_counted() -> None:
    running = CallsInFlight()
    assert running.wait_until_idle(0) == 0
    with running:
        assert running.wait_until_idle(0) == 1
    assert running.wait_until_idle(0) == 0
