"""Opens Kafka connections with the settings that Checkback needs and those that the user gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from checkback.client.options import ProducerOptions
from checkback.protocol.connection import kafka_python_settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import HEADER_ROOM_BYTES

CHECK_METADATA_AGE_MAX_MS: Final = 10_000
SHARE_OF_KAFKA: Final = 0.9
RECONNECT_BACKOFF_MAX_MS: Final = 1_000
"""kafka-python's 30 s would keep a broker that is back out of use for ten budgets."""


class KafkaClients:
    """Opens producers, consumers and admin clients for one Checkback producer.

    Args:
        bootstrap_servers: host:port, several separated by commas.
        client_id: as the brokers see it, in their logs and quotas.
        options: the producer's options.

    Raises:
        ConfigurationError: a Kafka setting can't be honoured.
    """

    def __init__(self, bootstrap_servers: str, client_id: str, options: ProducerOptions) -> None:
        self.options = options
        self._base = {
            "client_id": client_id,
            **kafka_python_settings(bootstrap_servers, options.kafka),
            "bootstrap_timeout_ms": options.start_timeout_ms,
            "reconnect_backoff_max_ms": RECONNECT_BACKOFF_MAX_MS,
        }

    def idempotent_producer(self, kafka_client: Callable[..., Any]) -> Any:
        """Open a producer whose own tries on the same partition store a record at most once.

        Args:
            kafka_client: makes the network client that it uses.

        Raises:
            BrokerError: Kafka can't be reached.
        """
        return self._open_producer(enable_idempotence=True, kafka_client=kafka_client)

    def single_try_producer(self, kafka_client: Callable[..., Any]) -> Any:
        """Open a producer that tries once: what is tried again, and where, its caller says.

        Args:
            kafka_client: makes the network client that it uses.

        Raises:
            BrokerError: Kafka can't be reached.
        """
        return self._open_producer(
            enable_idempotence=False, acks="all", retries=0, kafka_client=kafka_client
        )

    def check_consumer(self, group: str) -> Any:
        """Open a consumer of check requests, which commits only when told.

        It reads what is committed, because a request of an aborted batch was never counted, and
        from the beginning, because a request before the group's first poll waits for an answer.

        Raises:
            BrokerError: Kafka can't be reached.
        """
        ours = {
            "group_id": group,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            # A killed process keeps its share of the checks until its session is over, and with
            # Kafka's 45 s a group was seen without answers for 90 s.
            "session_timeout_ms": self.options.check_session_timeout_ms,
            "heartbeat_interval_ms": max(1, self.options.check_session_timeout_ms // 3),
            "group_instance_id": self.options.instance_name or None,
            # A group that met before the brokers all knew its new topic was given nothing to
            # read, and meets again only when the metadata changes.
            "metadata_max_age_ms": CHECK_METADATA_AGE_MAX_MS,
        }
        return self._open(KafkaConsumer, {**self._base, **ours})

    def reader(self) -> Any:
        """Open a consumer without a group.

        Raises:
            BrokerError: Kafka can't be reached.
        """
        return self._open(KafkaConsumer, self._base)

    def admin(self) -> Any:
        """Open an admin client."""
        return self._open(KafkaAdminClient, self._base)

    def quick_admin(self) -> Any:
        """Open an admin client for a question that may wait no longer than a send may."""
        budget_ms = self.options.send_msg_timeout_ms
        quick = {"bootstrap_timeout_ms": budget_ms, "request_timeout_ms": budget_ms}
        return self._open(KafkaAdminClient, {**self._base, **quick})

    def op_producer(self) -> Any:
        """Open a producer that repeats until the budget is over; an op may be there twice.

        Raises:
            BrokerError: Kafka can't be reached.
        """
        return self._open_producer(enable_idempotence=False, acks="all")

    def _open_producer(self, **settings: Any) -> Any:
        budget_ms = self.options.send_msg_timeout_ms
        ours = {
            # Kafka's own tries end a little before the caller's budget: its verdict says whether
            # the record was ever on the wire, the end of the budget does not.
            "request_timeout_ms": int(budget_ms * SHARE_OF_KAFKA),
            "delivery_timeout_ms": int(budget_ms * SHARE_OF_KAFKA),
            "max_block_ms": budget_ms,
            "bootstrap_timeout_ms": budget_ms,
            "reconnect_backoff_max_ms": min(RECONNECT_BACKOFF_MAX_MS, budget_ms // 4),
            "max_request_size": self.options.max_message_size + HEADER_ROOM_BYTES,
            "compression_type": self.options.compression_type,
            # A topic that nobody made must be an error: made by chance, it has chance's settings.
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
        }
        return self._open(KafkaProducer, {**self._base, **ours, **settings})

    def _open(self, kind: Callable[..., Any], settings: dict[str, Any]) -> Any:
        try:
            return kind(**settings)
        except KafkaError as error:
            servers = ",".join(self._base["bootstrap_servers"])
            raise BrokerError(
                f"Kafka at {servers} could not be reached: {type(error).__name__}.",
                remedy="Check bootstrap_servers, the network and the security settings.",
                bootstrap_servers=servers,
            ) from error
