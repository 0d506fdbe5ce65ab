"""How large a record each topic takes, asked of the brokers once in a while."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from checkback.client.message import Message
from checkback.client.outcome import remark_of
from checkback.protocol.errors import CheckbackError, InvalidMessageError
from checkback.protocol.properties import Headers

_log = logging.getLogger(__name__)

KEPT_S: Final = 300.0
BATCH_OVERHEAD_BYTES: Final = 100
"""Of a batch with one record, besides key, value and headers (format 2: 61 and lengths)."""
HEADER_OVERHEAD_BYTES: Final = 10


def record_bytes(body: bytes, key: bytes | None, headers: Headers) -> int:
    """Return at most how many bytes a record takes on a topic, uncompressed."""
    header_bytes = sum(
        len(name.encode()) + len(value) + HEADER_OVERHEAD_BYTES for name, value in headers
    )
    return BATCH_OVERHEAD_BYTES + len(body) + len(key or b"") + header_bytes


class TopicLimits:
    """Refuses records that a topic would refuse. Threads may share it.

    A topic that can't be asked (missing, or no right to describe it) has no known limit: then the
    broker's own refusal says it later.

    Args:
        open_admin: opens an admin client.
    """

    def __init__(self, open_admin: Callable[[], Any]) -> None:
        self._open_admin = open_admin
        self._limits: dict[str, tuple[int | None, float]] = {}
        self._lock = threading.Lock()

    def check(self, topic: str, message: Message, size: int) -> None:
        """Refuse a message whose record is larger than a topic takes.

        Raises:
            InvalidMessageError: names the topic's limit.
        """
        limit = self.limit(topic)
        if limit is not None and size > limit:
            raise InvalidMessageError(
                f"The message for {message.topic} makes a record of up to {size} bytes;"
                f" {topic} takes at most {limit} (max.message.bytes).",
                remedy="Make it smaller, or raise the topic's limit.",
                size=size,
                limit=limit,
            )

    def limit(self, topic: str) -> int | None:
        """Return a topic's max.message.bytes, None where it can't be learnt."""
        now_s = time.monotonic()
        with self._lock:
            known, until_s = self._limits.get(topic, (None, 0.0))
            if now_s >= until_s:
                known = self._ask(topic)
                self._limits[topic] = known, now_s + KEPT_S
            return known

    def _ask(self, topic: str) -> int | None:
        try:
            admin = self._open_admin()
            try:
                return _max_message_bytes(admin, topic)
            finally:
                admin.close()
        except (KafkaError, CheckbackError) as error:
            _log.info("The record limit of %s is not known: %s", topic, remark_of(error))
            return None


def _max_message_bytes(admin: Any, topic: str) -> int | None:
    found = admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all"
    )
    setting = found["topic"][topic].get("max.message.bytes")
    return int(setting["value"]) if setting else None
