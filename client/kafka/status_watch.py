"""Follows the pipeline's status: whether it refuses new transactions.

The producer reads the status topic when it starts, and follows it: it learns of a change about a
second after the pipeline's start. While the brokers do not answer, the last known status counts.
Without the topic, or the right to read it, the producer knows nothing and tries every transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from checkback.client.listener import one_line
from checkback.protocol.errors import SendError
from checkback.protocol.records import PipelineStatus

_log = logging.getLogger(__name__)

POLL_S: Final = 0.5


class StatusWatch:
    """Follows the status topic in a thread."""

    def __init__(self, open_consumer: Callable[[], Consumer], topic: str) -> None:
        self._open_consumer = open_consumer
        self._place = TopicPartition(topic, 0, OFFSET_BEGINNING)
        self._status: PipelineStatus | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, timeout_s: float) -> None:
        """Read the status, then follow the topic; return without one if brokers take too long."""
        consumer = self._open_consumer()
        thread = threading.Thread(
            target=self._follow, args=(consumer,), name="checkback-status", daemon=True
        )
        self._read(consumer, time.monotonic() + timeout_s)
        thread.start()
        self._thread = thread

    def require_accepting(self) -> None:
        """Refuse a transaction that the pipeline would refuse.

        Raises:
            SendError: the pipeline said that it refuses new transactions; nothing was sent.
        """
        if self._status is not None and self._status.reject_transactions:
            raise SendError(
                "The pipeline refuses new transactions (reject_transactions).",
                remedy="Send again when it takes them; nothing was stored, the local transaction "
                "did not run.",
                in_doubt=False,
                code="NO_PERMISSION",
            )

    def close(self, timeout_s: float) -> None:
        """Stop following."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _read(self, consumer: Consumer, deadline_s: float) -> None:
        try:
            self._read_to_end(consumer, deadline_s)
        except KafkaException as error:
            _log.info("The pipeline's status is not known: %s", one_line(error))

    def _read_to_end(self, consumer: Consumer, deadline_s: float) -> None:
        # Assigned first: whatever the brokers answer next, the thread follows the topic from now
        # on.
        consumer.assign([self._place])
        left_s = max(0.1, deadline_s - time.monotonic())
        first, end = consumer.get_watermark_offsets(self._place, left_s)
        at = first
        while at < end and time.monotonic() < deadline_s:
            message = consumer.poll(POLL_S)
            error = None if message is None else message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return
            if message is not None and error is None:
                self._take(message)
                at = (message.offset() or 0) + 1

    def _follow(self, consumer: Consumer) -> None:
        while not self._stopping.is_set():
            try:
                message = consumer.poll(POLL_S)
                if message is not None and message.error() is None:
                    self._take(message)
            except BaseException:  # without this thread the last status would count for ever
                _log.exception("The pipeline's status can't be read, trying again")
                self._stopping.wait(POLL_S)
        consumer.close()

    def _take(self, message: Message) -> None:
        # A record that can't be read says nothing; what was known stays.
        self._status = PipelineStatus.from_json(message.value()) or self._status
