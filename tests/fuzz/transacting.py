"""Writes ops in Kafka transactions of their own, which commit or are aborted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from confluent_kafka import Producer
from tests.fuzz.records import Record
from tests.fuzz.writing import Stored
from tests.integration.running import Topics

TIMEOUT_S: Final = 60.0


class Transacting:
    """A producer of ops.

    Args:
        topics: where they go.
        stored: told of each op that is committed, and of its offset.
    """

    def __init__(self, topics: Topics, stored: Stored) -> None:
        self._topic = topics.names.op
        self._stored = stored
        own = {"transactional.id": f"{topics.prefix}ops", "linger.ms": 0}
        self._producer = Producer({**topics.connection, **own})
        self._producer.init_transactions(TIMEOUT_S)
        self._failed: list[str] = []

    def commit(self, ops: Iterable[Record]) -> None:
        """Write ops that everybody sees."""
        self._write(ops, is_kept=True)
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self, ops: Iterable[Record]) -> None:
        """Write ops that nobody may see."""
        self._write(ops, is_kept=False)
        self._producer.abort_transaction(TIMEOUT_S)

    def _write(self, ops: Iterable[Record], *, is_kept: bool) -> None:
        self._producer.begin_transaction()
        for op in ops:
            headers: Any = [(name.decode(), value) for name, value in op.headers]
            told = self._told(op, is_kept=is_kept)
            to = op.partition
            self._producer.produce(
                self._topic, op.value, op.key, to, headers=headers, on_delivery=told
            )
        assert self._producer.flush(TIMEOUT_S) == 0
        assert not self._failed, self._failed[:3]

    def _told(self, op: Record, *, is_kept: bool) -> Callable[[Any, Any], None]:
        def told(error: Any, message: Any) -> None:
            if error is not None:
                self._failed.append(f"{op.kind}: {error.str()}")
            elif is_kept:
                self._stored(op, message.offset())

        return told
