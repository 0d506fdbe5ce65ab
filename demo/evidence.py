"""Collects the audit's evidence: reads the committed records of the topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Message

from checkback.demo.audit import Evidence, SeenRecord
from checkback.demo.fates import REAL_TOPICS
from checkback.protocol import properties as names
from checkback.protocol.properties import ERROR_HEADER_PREFIX
from checkback.protocol.topics import TopicNames
from checkback.testing.topics import read_topic


def collect_evidence(bootstrap_servers: str, topics: TopicNames, groups: Iterable[str]) -> Evidence:
    """Read everything that the audit needs.

    Args:
        bootstrap_servers: Kafka's addresses.
        topics: the names of Checkback's topics.
        groups: the producer groups.

    Raises:
        BrokerError: a topic can't be read.
    """
    connection = {"log_level": 0, "bootstrap.servers": bootstrap_servers}

    def seen(topic: str) -> list[SeenRecord]:
        return [_seen(record) for record in read_topic(connection, topic)]

    halves = read_topic(connection, topics.half)
    check_requests = Counter(
        record.order_id for group in groups for record in seen(topics.check(group))
    )
    return Evidence(
        halves=[_seen(record) for record in halves],
        finals=[record for topic in REAL_TOPICS for record in seen(topic)],
        discarded=seen(topics.discarded),
        refused=seen(topics.refused),
        check_requests=check_requests,
        check_answers=_answers(halves, read_topic(connection, topics.op)),
    )


def _seen(record: Message) -> SeenRecord:
    reason = _header(record, f"{ERROR_HEADER_PREFIX}message")
    return SeenRecord(record.topic() or "", _key(record), record.value() or b"", reason)


def _answers(halves: Iterable[Message], ops: Iterable[Message]) -> Counter[str]:
    """Count the ops that answer a check, by order id. An op names its half by transaction id."""
    orders = {_header(half, names.UNIQ_KEY): _key(half) for half in halves}
    transactions = (_header(op, names.UNIQ_KEY) for op in ops if _answers_check(op))
    return Counter(orders[one] for one in transactions if one in orders)


def _answers_check(op: Message) -> bool:
    return _header(op, names.FROM_TRANSACTION_CHECK) == "true"


def _header(record: Message, name: str) -> str:
    return names.text_value(record.headers() or [], name) or ""


def _key(record: Message) -> str:
    return (record.key() or b"").decode("utf-8", "replace")
