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


IMMUNITY_TIME = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PROPERTY_BYTES_MAX = PROPERTIES_BYTES_MAX - len("ab") - 2


def with_property(name: Any, value: Any) -> Message:
    return Message("t", b"x", properties={name: value})


TAKEN = {
    "short topic": Message("t", b"x"),
    "topic with a dot": Message("orders.paid", b"x"),
    "longest topic": Message("x" * 127, b"x"),
    "largest body": Message("t", b"x" * 10),
    "tombstone with a key": Message("t", None, key=b"k"),
    "tombstone with keys": Message("t", None, keys="o-1"),
    "bytes as a property": with_property("a", b"\xff\0"),
    "largest properties": with_property("ab", "x" * PROPERTY_BYTES_MAX),
    "key of bytes": Message("t", b"x", key=b"k"),
    "immunity time": with_property(IMMUNITY_TIME, "10"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_can_be_sent_is_taken(name: str) -> None:
    check(TAKEN[name])


def refused_topic(topic: Any, says: str) -> tuple[Message, str]:
    return Message(topic, b"x"), says


REFUSED: list[tuple[Any, str]] = [
    refused_topic("", "blank"),
    refused_topic("x" * 128, "at most 127"),
    refused_topic("a b", "letters, digits"),
    refused_topic("..", "letters"),
    refused_topic("a%b", "Kafka does not take"),
    refused_topic("RMQ_SYS_TRANS_HALF_TOPIC", "system topic"),
    refused_topic("p-RMQ_SYS_TRANS_OP_HALF_TOPIC", "system"),
    refused_topic("SCHEDULE_TOPIC_XXXX", "system topic"),
    refused_topic("__consumer_offsets", "system topic"),
    refused_topic("TRANS_CHECK_MAX_TIME_TOPIC", "system topic"),
    refused_topic("rmq_sys_any", "system topic"),
    refused_topic(5, "The topic is a int"),
    refused_topic(b"t", "The topic is a bytes"),
    (None, "The message is a NoneType"),
    (Message("t", b""), "empty"),
    (Message("t", b"x" * 11), r"at most 10 are allowed \(max_message_size\)"),
    (Message("t", "text"), "is a str"),  # type: ignore[arg-type]
    (Message("t", None), r"The body is None.* key or keys"),
    (Message("t", b"x", key="k"), r"The key is a str\. Encode it to bytes"),  # type: ignore[arg-type]
    (Message("t", b"x", keys="\ud800"), "UTF-8"),
    (Message("t", b"x", queue_id=-1), "queue_id"),
    (Message("t", b"x", queue_id=2**31), "queue_id"),
    (Message("t", b"x", queue_id=True), "queue_id is a bool"),
    (Message("t", b"x", properties=[("a", "b")]), "The properties are a list"),  # type: ignore[arg-type]
    (Message("t", b"x", properties=None), "The properties are a NoneType"),  # type: ignore[arg-type]
    *((with_property(name, "x"), f"The properties {name} are the system's")
      for name in ("PGROUP", "UNIQ_KEY", "TRAN_MSG", "KEYS", "Signature")),
    (with_property("ab", "x" * (PROPERTY_BYTES_MAX + 1)), "properties have"),
    (with_property("ab", "x" * (PROPERTY_BYTES_MAX - 1) + "ü"), "properties have"),
    (with_property("a", bytes(40_000)), "at most 32767"),
    (with_property("a", "\ud800"), "UTF-8"),
    (with_property("a", 1), "is a int"),
    (with_property("", "a"), "empty name"),
    # librdkafka would cut the name into one of the system's.
    (with_property("REAL_QID\0", "3"), "has a NUL"),
    *((with_property(IMMUNITY_TIME, value), f"{IMMUNITY_TIME} is")
      for value in (b"\xff", "-1", "1.5", "", "ten", "1758000000000", "31536001")),
]  # fmt: skip


@pytest.mark.parametrize(("message", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_what_can_not_be_sent_is_refused_with_the_reason(message: Any, says: str) -> None:
    with pytest.raises(InvalidMessageError, match=says):
        check(message)


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
