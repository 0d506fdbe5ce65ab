"""What can't be sent; the error names the limit."""

from __future__ import annotations

from typing import Any

import pytest

from checkback.client.message import Message
from checkback.client.validation import (
    PROPERTIES_BYTES_MAX,
    asks_for_delay,
    require_group,
    require_message,
    require_no_timers,
    require_not_delayed,
)
from checkback.protocol.errors import ConfigurationError, InvalidMessageError
from checkback.protocol.topics import TopicNames

NAMES = TopicNames("p-")


def check(message: Message) -> None:
    require_message(message, NAMES, max_message_size=10)


@pytest.mark.parametrize("group", ["g", "a-b_c.d", "x" * 120])
def test_usable_groups(group: str) -> None:
    require_group(group)


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("", "blank"), ("  ", "blank"), ("x" * 121, "at most 120"), ("a b", "letters, digits"),
        ("a%b", "Kafka does not take"), ("a|b", "Kafka does not take"),
        ("DEFAULT_PRODUCER", "must not be DEFAULT_PRODUCER"), (b"g", "is a bytes, not a text"),
    ],
)  # fmt: skip
def test_refused_groups(group: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        require_group(group)


@pytest.mark.parametrize("topic", ["t", "orders.paid", "x" * 127])
def test_usable_topics(topic: str) -> None:
    check(Message(topic, b"x"))


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("", "blank"), ("x" * 128, "at most 127"), ("a b", "letters, digits"), ("..", "letters"),
        ("a%b", "Kafka does not take"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "system topic"), ("p-RMQ_SYS_TRANS_OP_HALF_TOPIC", "system"),
        ("SCHEDULE_TOPIC_XXXX", "system topic"), ("__consumer_offsets", "system topic"),
        ("TRANS_CHECK_MAX_TIME_TOPIC", "system topic"), ("rmq_sys_any", "system topic"),
    ],
)  # fmt: skip
def test_refused_topics(topic: str, says: str) -> None:
    with pytest.raises(InvalidMessageError, match=says):
        check(Message(topic, b"x"))


def test_the_body_has_at_least_one_byte_and_at_most_the_limit() -> None:
    check(Message("t", b"x" * 10))
    with pytest.raises(InvalidMessageError, match="empty"):
        check(Message("t", b""))
    with pytest.raises(InvalidMessageError, match=r"at most 10 are allowed \(max_message_size\)"):
        check(Message("t", b"x" * 11))
    with pytest.raises(InvalidMessageError, match="is a str"):
        check(Message("t", "text"))  # type: ignore[arg-type]


def test_a_tombstone_has_a_key() -> None:
    check(Message("t", None, key=b"k"))
    check(Message("t", None, keys="o-1"))
    with pytest.raises(InvalidMessageError, match=r"The body is None.* key or keys"):
        check(Message("t", None))


def test_a_property_may_be_bytes() -> None:
    check(Message("t", b"x", properties={"a": b"\xff\0"}))
    with pytest.raises(InvalidMessageError, match="at most 32767"):
        check(Message("t", b"x", properties={"a": bytes(40_000)}))
    with pytest.raises(InvalidMessageError, match="CHECK_IMMUNITY_TIME_IN_SECONDS is"):
        check(Message("t", b"x", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": b"\xff"}))


def test_the_key_is_bytes() -> None:
    check(Message("t", b"x", key=b"k"))
    with pytest.raises(InvalidMessageError, match=r"The key is a str\. Encode it to bytes"):
        check(Message("t", b"x", key="k"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["PGROUP", "UNIQ_KEY", "TRAN_MSG", "KEYS", "Signature"])
def test_reserved_properties_are_refused(name: str) -> None:
    with pytest.raises(InvalidMessageError, match=f"The properties {name} are the system's"):
        check(Message("t", b"x", properties={name: "x"}))


def test_properties_of_more_bytes_than_rocketmq_takes_are_refused() -> None:
    most = PROPERTIES_BYTES_MAX - len("ab") - 2
    check(Message("t", b"x", properties={"ab": "x" * most}))
    for properties in ({"ab": "x" * (most + 1)}, {"ab": "x" * (most - 1) + "ü"}):
        with pytest.raises(InvalidMessageError, match="properties have"):
            check(Message("t", b"x", properties=properties))


def test_the_immunity_time_is_the_applications_to_set() -> None:
    check(Message("t", b"x", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "10"}))


@pytest.mark.parametrize("text", ["-1", "1.5", "", "ten", "1758000000000", "31536001"])
def test_impossible_immunity_times_are_refused(text: str) -> None:
    with pytest.raises(InvalidMessageError, match="CHECK_IMMUNITY_TIME_IN_SECONDS is"):
        check(Message("t", b"x", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": text}))


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="The message is a NoneType"):
        check(None)  # type: ignore[arg-type]


def test_what_is_no_text_in_utf8_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="UTF-8"):
        check(Message("t", b"x", properties={"a": "\ud800"}))
    with pytest.raises(InvalidMessageError, match="UTF-8"):
        check(Message("t", b"x", keys="\ud800"))
    with pytest.raises(InvalidMessageError, match="is a int"):
        check(Message("t", b"x", properties={"a": 1}))  # type: ignore[dict-item]
    with pytest.raises(InvalidMessageError, match="empty name"):
        check(Message("t", b"x", properties={"": "a"}))


@pytest.mark.parametrize("queue_id", [-1, 2**31])
def test_impossible_queues_are_refused(queue_id: int) -> None:
    with pytest.raises(InvalidMessageError, match="queue_id"):
        check(Message("t", b"x", queue_id=queue_id))


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_timers_are_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidMessageError, match=f"{name} can't be honoured"):
        require_no_timers(Message("t", b"x", properties={name: "1"}))


def test_a_delay_is_dropped_from_a_transaction_and_refused_for_a_plain_message() -> None:
    for delayed in (
        Message("t", b"x", delay_time_level=1),
        Message("t", b"x", properties={"DELAY": "1"}),
    ):
        assert asks_for_delay(delayed)
        with pytest.raises(InvalidMessageError, match="can't be honoured"):
            require_not_delayed(delayed)
    assert not asks_for_delay(Message("t", b"x"))


def test_what_is_of_another_kind_is_refused_by_name() -> None:
    wrong: list[tuple[Any, str]] = [
        (Message(5, b"x"), "The topic is a int"),  # type: ignore[arg-type]
        (Message(b"t", b"x"), "The topic is a bytes"),  # type: ignore[arg-type]
        (Message("t", b"x", queue_id=True), "queue_id is a bool"),
        (Message("t", b"x", properties=[("a", "b")]), "The properties are a list"),  # type: ignore[arg-type]
        (Message("t", b"x", properties=None), "The properties are a NoneType"),  # type: ignore[arg-type]
    ]
    for message, says in wrong:
        with pytest.raises(InvalidMessageError, match=says):
            check(message)


def test_a_name_that_librdkafka_would_cut_into_one_of_the_systems_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="has a NUL"):
        check(Message("t", b"x", properties={"REAL_QID\0": "3"}))
