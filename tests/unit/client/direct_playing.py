"""What unit tests of direct delivery play with: a transactional producer that fails as told."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from checkback.client.direct.direct_half import DirectHalf
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.listener import LocalTransactionState
from checkback.protocol.direct import direct_transactional_id

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
MINE = direct_transactional_id("p-", "g", "1" * 32)
OTHERS = direct_transactional_id("p-", "g", "2" * 32)


def half_of(own: OwnHalves, session_id: str = MINE, transaction_id: str = "u") -> DirectHalf:
    half = DirectHalf(transaction_id, session_id, 0)
    own.add_session(session_id)
    own.add(half)
    return half


class Kafka:
    """A transactional producer that fails where it was told to, and takes as long as told."""

    def __init__(self, **fails: object) -> None:
        self.fails = fails
        self.calls: list[str] = []
        self.keys: list[bytes] = []
        """Of all records, in the order in which they were handed over."""
        self.now_s = 0.0
        self.took_s: dict[str, float] = {}

    def _do(self, what: str) -> Any:
        self.calls.append(what)
        self.now_s += self.took_s.get(what, 0.0)
        failure = self.fails.get(what)
        if isinstance(failure, Exception):
            raise type(failure)(*failure.args)  # one of its own: it keeps where it was raised
        return failure or 0

    def init_transactions(self, _timeout_s: float) -> None:
        self._do("init")

    def begin_transaction(self) -> None:
        self._do("begin")

    def produce(self, topic: str, _value: bytes, key: bytes, *_: object) -> None:
        self.keys.append(key)
        self._do(f"produce {topic}")

    def flush(self, _timeout_s: float) -> int:
        return int(self._do("flush"))

    def commit_transaction(self, _timeout_s: float) -> None:
        self._do("commit")

    def purge(self) -> None:
        self._do("purge")

    def poll(self, _timeout_s: float) -> None:
        self._do("poll")

    def close(self) -> None:
        self._do("close")


def failed(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))
