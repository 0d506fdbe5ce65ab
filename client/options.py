"""The options of a producer, with RocketMQ's defaults where RocketMQ has the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict, get_args

from checkback.client.observing.counters import ClientEvent
from checkback.client.observing.tracing import Tracing
from checkback.protocol.errors import ConfigurationError
from checkback.protocol.topics import HEADER_ROOM_BYTES
from checkback.security.record_signer import RecordSigner, algorithm_of

Compression = Literal["gzip", "snappy", "lz4", "zstd"]

LEAST: Final[Mapping[str, int]] = {
    "send_msg_timeout_ms": 10,
    "retry_times_when_send_failed": 0,
    "max_message_size": 1,
    "async_sends_max": 1,
    "check_thread_pool_max_size": 1,
    "check_request_hold_max": 1,
    "check_session_timeout_ms": 1,
    "shutdown_timeout_ms": 0,
    "start_timeout_ms": 1,
}

MOST: Final[Mapping[str, int]] = {
    "send_msg_timeout_ms": 300_000,
    "max_message_size": 1_000_000_000 - HEADER_ROOM_BYTES,
    "check_session_timeout_ms": 300_000,
}
"""librdkafka's bounds of what is made of them."""


@dataclass(frozen=True, kw_only=True)
class ProducerOptions:
    """Everything that can be set on a producer besides its group, brokers and listener.

    Args:
        topic_prefix: put before the names of Checkback's topics; the same as the pipeline's.
        kafka: settings for every Kafka connection, security and the like, by dotted name
            (``security.protocol``); which ones, protocol/connection.py says. ``oauth_cb`` is
            librdkafka's callback for ``sasl.mechanism=OAUTHBEARER``.
        send_msg_timeout_ms: time for all tries of one send together. The first send to a topic asks
            the brokers about it before, for as long at most; later sends ask in the background.
        retry_times_when_send_failed: tries after the first one: of a half, elsewhere if that may
            help; of a plain message, on the same queue as long as its broker is there.
        max_message_size: largest body in bytes.
        compression_type: how Kafka batches are compressed, None for not at all.
        send_latency_fault_enable: whether slow and failing brokers are avoided for a while.
        async_sends_max: sends that may wait for Kafka at once in ASYNC and ONEWAY; one more
            is refused.
        check_thread_pool_max_size: threads that answer checks.
        check_request_hold_max: checks that wait for a thread; reading pauses when it is full.
        check_session_timeout_ms: time after which others take over the checks of a process that
            died without a word. Until then its share of checks is not answered, so it is less than
            Kafka's 45 s; the brokers have a least value, as delivered 6 s.
        instance_name: names this process among those of its group, for as long as it is restarted
            (a pod's name, say). A successor of that name takes over its checks at once, without
            waiting for the session's end (Kafka's static membership, KIP-345). Each process of a
            group needs a name of its own: of two with the same one the younger has it, the other
            answers without a name from then on. Empty for none.
        shutdown_timeout_ms: how long shutdown waits for what is running. Closing the connections
            takes some seconds more at most.
        start_timeout_ms: how long start waits for each answer of the brokers.
        access_key: the account that signs halves and ops; empty for none. It is
            needed where the pipeline has access control (docs/security.md).
        secret_key: the account's secret.
        born_host: the address that signed records state; empty for none.
        signature_algorithm: the account's, HmacSHA256 or HmacSHA1.
        on_event: called with each event that is counted.
        tracing: gets each step of transactions and checks; None for none. See
            `checkback.client.opentelemetry`.

    Raises:
        ConfigurationError: a value is out of bounds or contradicts another.
    """

    topic_prefix: str = ""
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold secrets
    send_msg_timeout_ms: int = 3_000
    retry_times_when_send_failed: int = 2
    max_message_size: int = 4_194_304
    compression_type: Compression | None = None
    send_latency_fault_enable: bool = False
    async_sends_max: int = 10_000
    check_thread_pool_max_size: int = 1
    check_request_hold_max: int = 2_000
    check_session_timeout_ms: int = 10_000
    instance_name: str = ""
    shutdown_timeout_ms: int = 10_000
    start_timeout_ms: int = 10_000
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    born_host: str = ""
    signature_algorithm: str = "HmacSHA256"
    on_event: Callable[[ClientEvent], None] | None = None
    tracing: Tracing | None = None

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value < least:
                raise ConfigurationError(
                    f"{name} is {value}.", remedy=f"It must be at least {least}.", key=name
                )
        for name, most in MOST.items():
            value = getattr(self, name)
            if value > most:
                raise ConfigurationError(
                    f"{name} is {value}.", remedy=f"It must be at most {most}.", key=name
                )
        if self.compression_type not in (None, *get_args(Compression)):
            raise ConfigurationError(
                f"compression_type is {self.compression_type!r}.",
                remedy=f"It must be None or one of {', '.join(get_args(Compression))}.",
                key="compression_type",
            )
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigurationError(
                "Only one of access_key and secret_key is set.",
                remedy="Set both, or neither for records without a signature.",
                key="access_key",
            )
        algorithm_of(self.signature_algorithm)

    def signer(self, now_ms: Callable[[], float]) -> RecordSigner | None:
        """Return what signs records, None where no account is set.

        Args:
            now_ms: the brokers' time as well as it is known.
        """
        if not self.access_key:
            return None
        algorithm = algorithm_of(self.signature_algorithm)
        return RecordSigner(self.access_key, self.secret_key, now_ms, self.born_host, algorithm)


class ProducerKeywords(TypedDict, total=False):
    """The fields of `ProducerOptions` as keyword arguments; a test keeps them equal."""

    topic_prefix: str
    kafka: Mapping[str, Any]
    send_msg_timeout_ms: int
    retry_times_when_send_failed: int
    max_message_size: int
    compression_type: Compression | None
    send_latency_fault_enable: bool
    async_sends_max: int
    check_thread_pool_max_size: int
    check_request_hold_max: int
    check_session_timeout_ms: int
    instance_name: str
    shutdown_timeout_ms: int
    start_timeout_ms: int
    access_key: str
    secret_key: str
    born_host: str
    signature_algorithm: str
    on_event: Callable[[ClientEvent], None] | None
    tracing: Tracing | None
