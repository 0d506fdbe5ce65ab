"""Collects the audit's evidence: reads the topics as any consumer would, committed records only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition

from checkback.deploy.demo.audit import Evidence, SeenRecord
from checkback.protocol import properties as names
from checkback.protocol.connection import kafka_python_settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import ERROR_HEADER_PREFIX
from checkback.protocol.topics import TopicNames

READ_TIMEOUT_MS: Final = 30_000
POLL_MS: Final = 500


def read_topic(connection: Mapping[str, Any], topic: str) -> Iterator[Any]:
    """Yield every committed record of a topic, from its beginning to its present end.

    Args:
        connection: kafka-python's keyword arguments.
        topic: one that exists.

    Raises:
        BrokerError: the topic does not exist, or is not read to its end in time.
    """
    consumer = KafkaConsumer(
        **connection,
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    with closing(consumer):
        numbers = consumer.partitions_for_topic(topic)
        if not numbers:
            raise BrokerError(f"The topic {topic} does not exist.", topic=topic)
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        yield from _read_to_end(consumer, partitions)


def _read_to_end(consumer: Any, partitions: Sequence[TopicPartition]) -> Iterator[Any]:
    ends = consumer.end_offsets(partitions)
    idle_ms = 0
    while any(consumer.position(one) < ends[one] for one in partitions):
        batches = consumer.poll(POLL_MS)
        idle_ms = 0 if batches else idle_ms + POLL_MS
        if idle_ms >= READ_TIMEOUT_MS:
            raise BrokerError(f"{partitions[0].topic} could not be read to its end.")
        for records in batches.values():
            yield from records


def collect_evidence(
    bootstrap_servers: str,
    kafka: Mapping[str, str],
    topics: TopicNames,
    *,
    real_topics: Iterable[str],
    groups: Iterable[str],
) -> Evidence:
    """Read all that the audit needs.

    Args:
        bootstrap_servers: where Kafka is.
        kafka: connection settings by dotted name.
        topics: the names of Checkback's topics in this run.
        real_topics: names of the real topics, without the run's prefix.
        groups: the producer groups.

    Raises:
        BrokerError: a topic can't be read.
    """
    connection = kafka_python_settings(bootstrap_servers, kafka)

    def seen(topic: str) -> list[SeenRecord]:
        return [_seen(record, topics.prefix) for record in read_topic(connection, topic)]

    halves = list(read_topic(connection, topics.half))
    check_requests = Counter(one.order_id for group in groups for one in seen(topics.check(group)))
    return Evidence(
        halves=[_seen(record, topics.prefix) for record in halves],
        finals=[one for topic in real_topics for one in seen(topics.prefix + topic)],
        discarded=seen(topics.discarded),
        refused=seen(topics.refused),
        check_requests=check_requests,
        check_answers=_answers(halves, read_topic(connection, topics.op)),
    )


def _seen(record: Any, prefix: str) -> SeenRecord:
    reason = names.text_value(record.headers, f"{ERROR_HEADER_PREFIX}message") or ""
    key = (record.key or b"").decode("utf-8", "replace")
    return SeenRecord(record.topic.removeprefix(prefix), key, record.value or b"", reason)


def _answers(halves: Iterable[Any], ops: Iterable[Any]) -> Counter[str]:
    """Count the ops that answer a check, by order id; an op names its half by transaction id."""
    orders = {names.text_value(half.headers, names.UNIQ_KEY): half.key.decode() for half in halves}
    transactions = (
        names.text_value(op.headers, names.UNIQ_KEY)
        for op in ops
        if names.text_value(op.headers, names.FROM_TRANSACTION_CHECK) == "true"
    )
    return Counter(orders[one] for one in transactions if one in orders)
