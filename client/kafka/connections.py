"""Opens Kafka connections with the settings that Checkback needs and those that the user gave."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, Producer

from checkback.client.kafka.errors import cause_of
from checkback.client.options import ProducerOptions
from checkback.protocol.connection import confluent_settings
from checkback.protocol.errors import ConfigurationError
from checkback.protocol.topics import HEADER_ROOM_BYTES

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_log = logging.getLogger(__name__)

Settings = dict[str, Any]

CHECK_METADATA_AGE_MAX_MS: Final = 10_000
SHARE_OF_KAFKA: Final = 0.9
BROKERS_SHARE: Final = 0.7
"""The share of a send's time that the leader may wait for replicas: it must answer in time."""
RECONNECT_BACKOFF_MAX_MS: Final = 1_000
"""With librdkafka's 10 s a broker that is back would stay unused for three budgets."""
HALF_REQUESTS_IN_FLIGHT: Final = 2
"""Fewer than partitions: the halves that come meanwhile then wait behind a request that is ready.

With none ready, the thread of librdkafka's idempotent producer spins while five records or more of
a partition are under way and another waits: for the whole time of an answer, that is half of the
processor time of 64 threads.
"""
HALF_RETRIES: Final = 3
"""librdkafka's own tries of a half that was on the wire; what was never sent does not count.

Few, because only when they are used up does it show that a partition has too few replicas. Then
another partition may take the half.
"""
RETRY_BACKOFF_MS: Final = 50
OP_LINGER_MS: Final = 5
"""No caller waits for an op, and a batch of them costs as much as one."""
MESSAGE_BYTES_LEAST: Final = 1_000
NOT_IDEMPOTENT: Final[Settings] = {"enable.idempotence": False, "enable.gapless.guarantee": False}
"""Set even if `kafka` says otherwise: librdkafka gives up an idempotent producer after some errors,
and only the producer of halves is replaced, not those of ops and plain messages."""
SOCKET_TIMEOUT_LEAST_MS: Final = 1_000


class KafkaClients:
    """Opens producers, consumers and admin clients for one Checkback producer.

    Args:
        bootstrap_servers: host:port, several separated by commas.
        producer_group: names the connections in the brokers' logs and quotas, with the process id.

    Raises:
        ConfigurationError: a Kafka setting can't be honoured.
    """

    def __init__(
        self, bootstrap_servers: str, producer_group: str, options: ProducerOptions
    ) -> None:
        if "transactional.id" in options.kafka:
            raise ConfigurationError(
                "kafka.transactional.id is set, but the client sends in no Kafka transaction.",
                remedy="Take it out.",
                key="kafka.transactional.id",
            )
        self.options = options
        self._producer_group = producer_group
        self._base: Settings = {
            **confluent_settings(bootstrap_servers, options.kafka),
            "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
            # librdkafka's "rebootstrap" forgets the brokers when none answers, and so finds a
            # cluster that is back a second later; a budget may be over by then.
            "metadata.recovery.strategy": "none",
            # A missing topic must be an error: one that the broker creates has the broker's
            # defaults.
            "allow.auto.create.topics": False,
        }

    @property
    def bootstrap_servers(self) -> str:
        """The brokers as they were given."""
        return str(self._base["bootstrap.servers"])

    def half_producer(self, on_error: Callable[[Any], None], linger_ms: float = 0) -> Producer:
        """Open a producer whose own tries on the same partition store a record at most once."""
        return self._open_producer(
            on_error,
            {
                "enable.idempotence": True,
                "acks": "all",
                "max.in.flight": HALF_REQUESTS_IN_FLIGHT,
                "retries": HALF_RETRIES,
                "linger.ms": linger_ms,
            },
        )

    def plain_producer(self, on_error: Callable[[Any], None]) -> Producer:
        """Open a producer that tries again on the same partition; a message may be there twice."""
        retries = self.options.retry_times_when_send_failed
        ours = {**NOT_IDEMPOTENT, "acks": "all", "retries": retries, "linger.ms": 0}
        return self._open_producer(on_error, ours)

    def op_producer(
        self, on_error: Callable[[Any], None], on_failure: Callable[[Any, Any], None]
    ) -> Producer:
        """Open a producer that repeats until the budget is over; an op may be stored twice.

        Args:
            on_failure: called there with the error and the record of each op that was not stored.
        """
        ours = {
            **NOT_IDEMPOTENT,
            "acks": "all",
            "linger.ms": OP_LINGER_MS,
            "on_delivery": on_failure,
            "delivery.report.only.error": True,
        }
        return self._open_producer(on_error, ours)

    def check_consumer(self, check_topic: str, instance_name: str = "") -> Consumer:
        """Open a consumer of check requests, which commits only on request.

        Its group has the check topic's name: an application may have a consumer group of the
        producer group's name, and Kafka lets no two kinds of members into one group.

        It reads committed requests only, because the pipeline never counted those of an aborted
        batch. It begins at the first request, because one from before the group's first poll waits
        for an answer.

        Args:
            instance_name: names a static member (KIP-345), which keeps its partitions over a
                restart; empty for none.
        """
        session_ms = self.options.check_session_timeout_ms
        ours: Settings = {
            "group.id": check_topic,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # A killed process keeps its share of the checks until its session is over, and with
            # Kafka's 45 s a group was seen without answers for 90 s.
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": max(1, session_ms // 3),
            # If a group joined before all brokers knew its new topic, its members got no
            # partitions, and they join again only when the metadata changes.
            "topic.metadata.refresh.interval.ms": CHECK_METADATA_AGE_MAX_MS,
        }
        if instance_name:
            ours["group.instance.id"] = instance_name
        consumer: Consumer = self._open(Consumer, {**self._base, **ours})
        return consumer

    def status_consumer(self) -> Consumer:
        """Open a consumer of the status topic; it joins no group and commits nothing."""
        ours: Settings = {
            "group.id": "checkback-status",  # required by librdkafka
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # The pipeline writes it in no transaction: one that somebody leaves open there must not
            # hide what follows.
            "isolation.level": "read_uncommitted",
            # Behind the last record there may only be the end of a transaction.
            "enable.partition.eof": True,
        }
        consumer: Consumer = self._open(Consumer, {**self._base, **ours})
        return consumer

    def admin(self) -> AdminClient:
        """Open an admin client. It closes once nothing refers to it."""
        # A quarter of the time that importing the client takes; most processes need it once.
        from confluent_kafka.admin import AdminClient

        # Its log goes nowhere: no thread polls it.
        admin: AdminClient = self._open(AdminClient, {**self._base, "log_level": 0})
        return admin

    def _open_producer(self, on_error: Callable[[Any], None], ours: Settings) -> Producer:
        budget_ms = self.options.send_msg_timeout_ms
        common: Settings = {
            # Kafka's own tries end a little before the caller's budget, because Kafka's error says
            # more about the record than the end of a budget.
            "message.timeout.ms": max(1, int(budget_ms * SHARE_OF_KAFKA)),
            "request.timeout.ms": max(1, int(budget_ms * BROKERS_SHARE)),
            "socket.timeout.ms": max(SOCKET_TIMEOUT_LEAST_MS, budget_ms),
            "reconnect.backoff.ms": min(100, budget_ms // 8),
            "reconnect.backoff.max.ms": min(RECONNECT_BACKOFF_MAX_MS, max(10, budget_ms // 4)),
            "retry.backoff.ms": RETRY_BACKOFF_MS,
            "message.max.bytes": max(
                MESSAGE_BYTES_LEAST, self.options.max_message_size + HEADER_ROOM_BYTES
            ),
            "compression.type": self.options.compression_type or "none",
            "partitioner": "murmur2_random",  # the Java client's choice for a key
            "error_cb": on_error,
            "delivery.report.only.error": False,
        }
        producer: Producer = self._open(Producer, {**self._base, **common, **ours})
        return producer

    def _open(self, kind: Callable[..., Any], settings: Settings) -> Any:
        client_id = f"{self._producer_group}@{os.getpid()}"
        try:
            return kind({"client.id": client_id, **settings}, logger=_LibrdkafkaLog())
        except (KafkaException, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"librdkafka does not take the Kafka settings: {cause_of(error).str()}",
                remedy="Check the settings in `kafka`.",
            ) from error


class _LibrdkafkaLog:
    """librdkafka's log lines, as INFO at most.

    While a broker is away, librdkafka logs each try to connect as an error, several times a second.
    What that means for the application, its sends and the check service report.
    """

    def __init__(self) -> None:
        self._log = logging.getLogger("checkback.client.librdkafka")

    def log(self, level: int, text: str, *details: object) -> None:
        """Take a line; called in the thread that polls."""
        self._log.log(min(level, logging.INFO), text, *details)
