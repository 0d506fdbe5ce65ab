"""What can't be sent, said before anything is sent. Limits are those of RocketMQ's Validators.

Where Kafka takes less than RocketMQ, or more, Kafka decides: names have Kafka's characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import iscoroutinefunction
from typing import Final

from checkback.client.listener import TransactionListener
from checkback.client.message import Message
from checkback.protocol import properties as names
from checkback.protocol.errors import ConfigurationError, InvalidMessageError
from checkback.protocol.refusals import TOPIC_LENGTH_MAX
from checkback.protocol.signed_content import SEPARATOR
from checkback.protocol.topics import TopicNames, is_kafka_topic_name

GROUP_LENGTH_MAX: Final = 120
DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
"""RocketMQ's name for 'no name given', refused at start as there."""
ROCKETMQ_ONLY_CHARACTERS: Final = re.compile(r"[%|]")
PROPERTIES_BYTES_MAX: Final = 32_767
"""RocketMQ's: its brokers keep the length of all properties in 16 bits. A byte is counted after
each name and each value, as there."""
INT32_MAX: Final = 2_147_483_647
IMMUNITY_TIME_MAX_S: Final = 31_536_000
"""A year. A larger number was meant in milliseconds, and its half would never be asked about."""


def require_group(group: str) -> None:
    """Refuse a producer group that RocketMQ refuses or that makes no topic name.

    Raises:
        ConfigurationError: blank, too long, with other characters, or DEFAULT_PRODUCER.
    """
    problem = _name_problem("producer group", group, GROUP_LENGTH_MAX)
    if problem is None and group == DEFAULT_PRODUCER_GROUP:
        problem = f"The producer group must not be {DEFAULT_PRODUCER_GROUP}."
    if problem is not None:
        raise ConfigurationError(problem, remedy="Name the group.", producer_group=group)


def require_message(message: Message, topics: TopicNames, max_message_size: int) -> None:
    """Refuse a message that can't be sent as it is, whether in a transaction or plainly.

    Raises:
        InvalidMessageError: says which limit the message breaks.
    """
    require_message_class(message)
    require_topic(message.topic, topics)
    require_content(message, max_message_size)


def require_message_class(message: Message) -> None:
    """Refuse what is no message, or has no text as its topic.

    Raises:
        InvalidMessageError: says what it is.
    """
    if not isinstance(message, Message):
        raise InvalidMessageError(
            f"The message is a {type(message).__name__}.",
            remedy="Give a checkback.client.Message.",
        )
    topic: object = message.topic
    if not isinstance(topic, str):
        raise InvalidMessageError(f"The topic is a {type(topic).__name__}, not a text.")


def require_listener(listener: object) -> None:
    """Refuse what can't run local transactions and answer checks.

    Raises:
        ConfigurationError: it is no TransactionListener, or its methods are coroutines.
    """
    if not isinstance(listener, TransactionListener):
        raise ConfigurationError(
            f"transaction_listener is a {type(listener).__name__}.",
            remedy="Give an object of a class derived from TransactionListener.",
        )
    methods = listener.execute_local_transaction, listener.check_local_transaction
    if any(map(iscoroutinefunction, methods)):
        raise ConfigurationError(
            f"Methods of {type(listener).__name__} are coroutines, which would never be awaited.",
            remedy="Use AsyncTransactionMQProducer and AsyncTransactionListener.",
        )


def require_content(message: Message, max_message_size: int) -> None:
    """Refuse a message that can't be sent as it is, whatever its topic.

    Raises:
        InvalidMessageError: says which limit the message breaks.
    """
    # Called for each message: what most of them have is looked at here, without a further call.
    body: object = message.body
    if message.key is not None:
        _require_key(message.key)
    if type(body) is not bytes or not 0 < len(body) <= max_message_size:
        _require_body(message, max_message_size)
    if message.properties != {}:
        _require_properties(message)
    if message.keys != "":
        _require_text("keys", message.keys)
    if message.tags != "":
        _require_text("tags", message.tags)
    if message.queue_id is not None:
        _require_queue_id(message.queue_id)


def require_topic(topic: str, topics: TopicNames) -> None:
    """Refuse a topic that no application may send to.

    Raises:
        InvalidMessageError: blank, too long, with other characters, or a system topic.
    """
    problem = _name_problem("topic", topic, TOPIC_LENGTH_MAX)
    if problem is not None:
        raise InvalidMessageError(problem, topic=topic)
    if topics.is_system(topic):
        raise InvalidMessageError(
            f"{topic} is a system topic.", remedy="Send to a topic of your own.", topic=topic
        )


def asks_for_delay(message: Message) -> bool:
    """Tell whether a message asks for a delay, which Kafka can't give it."""
    return message.delay_time_level != 0 or names.DELAY in message.properties


def require_not_delayed(message: Message) -> None:
    """Refuse a plain message that asks for a delay: Kafka delivers at once.

    Raises:
        InvalidMessageError: it has a delay level or a timer property.
    """
    require_no_timers(message)
    if asks_for_delay(message):
        raise InvalidMessageError(
            "A delay level can't be honoured.", remedy="Take it off: Kafka delivers at once."
        )


def require_no_timers(message: Message) -> None:
    """Refuse timer properties (RocketMQ lost such messages of transactions: #9923, #9924).

    Raises:
        InvalidMessageError: names the property.
    """
    for name in sorted(names.TIMER_PROPERTIES & message.properties.keys()):
        raise InvalidMessageError(
            f"The property {name} can't be honoured.",
            remedy="Take it off: messages are neither delayed nor delivered at a set time.",
            property=name,
        )


def require_signable(message: Message) -> None:
    """Refuse what no signature would bind: its content has a separator between two values.

    Raises:
        InvalidMessageError: names the property.
    """
    for name, value in message.properties.items():
        if isinstance(value, bytes) and SEPARATOR in value:
            raise InvalidMessageError(
                f"The property {name} has a byte ff: no value of a signed record can.",
                remedy="Write the value as text, in Base64 for example.",
                property=name,
            )


def _name_problem(what: str, name: object, length_max: int) -> str | None:
    """RocketMQ's order: blank, length, characters."""
    if name is None or name == "":
        return f"The {what} is blank."
    if not isinstance(name, str):
        return f"The {what} is a {type(name).__name__}, not a text."
    if not name.strip():
        return f"The {what} is blank."
    if len(name) > length_max:
        return f"The {what} has {len(name)} characters; at most {length_max} are allowed."
    if ROCKETMQ_ONLY_CHARACTERS.search(name):
        return f"The {what} {name!r} has '%' or '|', which Kafka does not take in topic names."
    if not is_kafka_topic_name(name):
        return f"The {what} {name!r} has characters other than letters, digits, '.', '_' and '-'."
    return None


def _require_key(key: bytes | None) -> None:
    if key is not None and not isinstance(key, bytes):
        raise InvalidMessageError(
            f"The key is a {type(key).__name__}.",
            remedy="Encode it to bytes, or give it as keys: the first of them is the record's key.",
        )


def _require_body(message: Message, max_message_size: int) -> None:
    body = message.body
    if body is None:
        if message.key is None and not message.keys:
            raise InvalidMessageError(
                "The body is None, and the message has no key.",
                remedy="A tombstone says which key's message it takes away: give key or keys.",
            )
        return
    if not isinstance(body, bytes):
        raise InvalidMessageError(
            f"The body is a {type(body).__name__}.", remedy="Encode it to bytes."
        )
    if not body:
        raise InvalidMessageError(
            "The body is empty.", remedy="Give at least one byte, or None for a tombstone."
        )
    if len(body) > max_message_size:
        raise InvalidMessageError(
            f"The body has {len(body)} bytes; at most {max_message_size} are allowed"
            " (max_message_size).",
            size=len(body),
            limit=max_message_size,
        )


def _require_properties(message: Message) -> None:
    properties: object = message.properties
    if not isinstance(properties, (dict, Mapping)):  # dict first: the other takes ten times as long
        raise InvalidMessageError(
            f"The properties are a {type(properties).__name__}.",
            remedy="Give a mapping of texts to texts or bytes, a dict for example.",
        )
    reserved = sorted(names.RESERVED_PROPERTIES & message.properties.keys())
    if reserved:
        raise InvalidMessageError(
            f"The properties {', '.join(reserved)} are the system's.",
            remedy="Choose other names; keys and tags have arguments of their own.",
            properties=reserved,
        )
    size = 0
    for name, value in message.properties.items():
        _require_property(name, value)
        size += len(name.encode()) + len(names.header_value(value)) + 2
    if size > PROPERTIES_BYTES_MAX:
        raise InvalidMessageError(
            f"The properties have {size} bytes; at most {PROPERTIES_BYTES_MAX} are allowed.",
            remedy="Put large values into the body.",
            size=size,
            limit=PROPERTIES_BYTES_MAX,
        )
    immunity = message.properties.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS)
    if immunity is not None:
        _require_immunity_time(immunity)


def _require_property(name: str, value: str | bytes) -> None:
    if not name:
        raise InvalidMessageError(
            "A property has an empty name.", remedy="Give it one, or take it out."
        )
    _require_text(name, name)
    if "\0" in name:
        # librdkafka would end it there: REAL_QID\0 would pass for the system's own REAL_QID.
        raise InvalidMessageError(
            f"The name of the property {name!r} has a NUL.", remedy="Take it out."
        )
    if not isinstance(value, bytes):
        _require_text(name, value)


def _require_text(name: str, value: str) -> None:
    """Kafka headers are bytes; a text must have a UTF-8 form, which lone surrogates have not."""
    if not isinstance(value, str):
        raise InvalidMessageError(
            f"The property {name} is a {type(value).__name__}.",
            remedy="Give it as a text, or a property as bytes.",
        )
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessageError(
            f"The property {name!r} can't be written as UTF-8.",
            remedy="Take out its lone surrogates.",
        ) from error


def _require_immunity_time(value: str | bytes) -> None:
    text = names.header_value(value).decode("utf-8", "replace")
    digits = text.isascii() and text.isdigit()
    if not digits or len(text) > len(str(IMMUNITY_TIME_MAX_S)) or int(text) > IMMUNITY_TIME_MAX_S:
        raise InvalidMessageError(
            f"{names.CHECK_IMMUNITY_TIME_IN_SECONDS} is {text!r}.",
            remedy=f"It must be a whole number of seconds from 0 to {IMMUNITY_TIME_MAX_S}.",
            property=names.CHECK_IMMUNITY_TIME_IN_SECONDS,
        )


def _require_queue_id(queue_id: object) -> None:
    if not isinstance(queue_id, int) or isinstance(queue_id, bool):
        raise InvalidMessageError(
            f"queue_id is a {type(queue_id).__name__}.", remedy="Give a whole number, or None."
        )
    if not 0 <= queue_id <= INT32_MAX:
        raise InvalidMessageError(
            f"queue_id is {queue_id}.", remedy=f"It must be between 0 and {INT32_MAX}."
        )
