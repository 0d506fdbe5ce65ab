"""Opens Kafka connections with the settings that Checkback needs and those that the user gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from checkback.client.options import ProducerOptions
from checkback.protocol.connection import kafka_python_settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import HEADER_ROOM_BYTES


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
        }

    def idempotent_producer(self, kafka_client: Callable[..., Any] | None = None) -> Any:
        """Open a producer whose own tries on the same partition store a record at most once."""
        return self._open_producer(enable_idempotence=True, kafka_client=kafka_client)

    def single_try_producer(self, kafka_client: Callable[..., Any] | None = None) -> Any:
        """Open a producer that tries once: what is tried again, and where, its caller says."""
        return self._open_producer(
            enable_idempotence=False, acks="all", retries=0, kafka_client=kafka_client
        )

    def consumer(self, group: str, **settings: Any) -> Any:
        """Open a consumer of a group that commits only when told."""
        return self._open(
            KafkaConsumer,
            {**self._base, "group_id": group, "enable_auto_commit": False, **settings},
        )

    def admin(self) -> Any:
        """Open an admin client."""
        return self._open(KafkaAdminClient, self._base)

    def _open_producer(self, **settings: Any) -> Any:
        budget_ms = self.options.send_msg_timeout_ms
        if settings["kafka_client"] is None:
            del settings["kafka_client"]
        ours = {
            # One budget for all of Kafka's own tries: it must not outlive the caller's.
            "request_timeout_ms": budget_ms,
            "delivery_timeout_ms": budget_ms,
            "max_block_ms": budget_ms,
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
