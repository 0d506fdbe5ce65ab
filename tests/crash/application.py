"""The application of a crash run: keeps sending transactions, answers checks, reads finals."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.crash import truth
from tests.crash.truth import Evidence, Fate, Position, Transaction
from tests.integration.running import COMMIT, ROLLBACK, UNKNOWN, wait_until

from checkback.protocol.properties import text_value
from checkback.protocol.records import Op, half_headers
from checkback.protocol.topics import TopicNames
from checkback.state.formats.settled_marks import unpack_settled

GROUP: Final = "orders"
SHARES: Final = {
    Fate.COMMITTED: 60,
    Fate.ROLLED_BACK: 15,
    Fate.UNKNOWN: 7,
    Fate.FORGOTTEN_COMMIT: 8,
    Fate.FORGOTTEN_ROLLBACK: 6,
    Fate.SILENT: 4,
}
ANSWERS: Final = {
    Fate.UNKNOWN: COMMIT,
    Fate.FORGOTTEN_COMMIT: COMMIT,
    Fate.FORGOTTEN_ROLLBACK: ROLLBACK,
}
FIRST_OPS: Final = {Fate.COMMITTED: COMMIT, Fate.ROLLED_BACK: ROLLBACK, Fate.UNKNOWN: UNKNOWN}
ROUND_S: Final = 0.1
KEYS: Final = tuple(b"key %d" % number for number in range(80))
"""Each is used again once the op of its last half is stored: then order is promised."""


@dataclass
class Application:
    """Works in a thread of its own until stopped.

    Args:
        bootstrap_servers: the broker.
        names: Checkback's topics.
        real: the real topics.
        half_partitions: number of partitions of the half topic.
        seed: decides fates and topics.
        per_second: transactions per second.
        forged_share: of the commits, how many follow a rollback that somebody forged. A relay
            passes such a commit to the job.
        evidence: collects what it reads.
        truth: collects what it did, by half.
        watched: every partition that it reads.
    """

    bootstrap_servers: str
    names: TopicNames
    real: Sequence[str]
    half_partitions: int
    seed: int
    per_second: int = 40
    forged_share: float = 0.0
    evidence: Evidence = field(default_factory=Evidence)
    truth: dict[Position, Transaction] = field(default_factory=dict)
    watched: list[tuple[str, int]] = field(default_factory=list)
    sent: int = 0
    _free_keys: deque[bytes] = field(default_factory=lambda: deque(KEYS))
    _acknowledged: int = 0
    _sending: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _failure: BaseException | None = None

    def start(self) -> None:
        connection = {
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
        }
        # Idempotent: a half that the client sends twice would be a second transaction.
        self._producer = Producer(
            {
                **connection,
                "linger.ms": 2,
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
            }
        )
        reader = {"group.id": "audit", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**connection, **reader, "isolation.level": "read_committed"})
        self._chance = random.Random(self.seed)
        names = self.names
        topics = [names.settled, names.discarded, names.refused, names.check(GROUP), *self.real]
        wait_until(lambda: set(topics) <= self._consumer.list_topics(timeout=20).topics.keys())
        known = self._consumer.list_topics(timeout=20).topics
        self.watched = [(topic, number) for topic in topics for number in known[topic].partitions]
        self._consumer.assign([TopicPartition(*one, 0) for one in self.watched])
        self._sending.set()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(30)
        self._consumer.close()

    def finish_sending(self, timeout_s: float = 60.0) -> None:
        """Send no more halves, and wait until all sent ones are stored."""
        self._sending.clear()
        deadline = time.monotonic() + timeout_s
        while self._acknowledged < self.sent:
            assert time.monotonic() < deadline, f"{self.sent - self._acknowledged} not stored"
            time.sleep(ROUND_S)

    def snapshot(self) -> tuple[dict[Position, Transaction], Evidence]:
        """Return a copy of what was done and seen up to now."""
        if self._failure is not None:
            raise self._failure
        with self._lock:
            seen = self.evidence
            copied = Evidence(*(list(column) for column in vars(seen).values()))
            return dict(self.truth), copied

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                self._round()
        except BaseException as failure:
            self._failure = failure
            raise

    def _round(self) -> None:
        until = time.monotonic() + ROUND_S
        if self._sending.is_set():
            for _ in range(round(self.per_second * ROUND_S)):
                self._send()
        while (left := until - time.monotonic()) > 0:
            self._producer.poll(0)
            message = self._consumer.poll(min(left, 0.01))
            if message is not None:
                with self._lock:
                    self._read(message)

    def _send(self) -> None:
        fate = self._chance.choices(list(SHARES), list(SHARES.values()))[0]
        topic = self._chance.choice(self.real)
        is_forged = fate is Fate.COMMITTED and self._chance.random() < self.forged_share
        if not self._free_keys:  # the broker is down
            return
        key = self._free_keys.popleft()
        partition = KEYS.index(key) % self.half_partitions
        # A relay passes commits with keys while the job has to write earlier ones: all of them
        # where batches are slow.
        record_key = None if partition % 2 else key
        body = b"%d-%06d" % (self.seed, self.sent)
        self.sent += 1
        headers: Any = half_headers(
            producer_group=GROUP, transaction_id=body.decode(), real_topic=topic, properties={}
        )

        def stored(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            position = (message.partition() or 0, message.offset() or 0)
            with self._lock:
                self._acknowledged += 1
                self.truth[position] = Transaction(position, body, topic, fate, record_key or b"")
            if is_forged:
                self._op(position, "forged", ROLLBACK)
            if fate in FIRST_OPS:
                self._op(position, body.decode(), FIRST_OPS[fate], key)
            else:
                self._free_keys.append(key)

        self._producer.produce(
            self.names.half,
            body,
            record_key,
            partition=partition,
            headers=headers,
            on_delivery=stored,
        )

    def _op(
        self, position: Position, transaction_id: str, state: int, key: bytes | None = None
    ) -> None:
        op = Op(*position, GROUP, transaction_id, state)
        headers: Any = op.headers()

        def stored(error: KafkaError | None, _message: Message) -> None:
            assert error is None, error
            if key is not None:
                self._free_keys.append(key)

        self._producer.produce(
            self.names.op, op.value(), op.key(), position[0], headers=headers, on_delivery=stored
        )

    def _read(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            assert error.retriable() or error.code() < 0, error
            return
        topic, seen = message.topic() or "", self.evidence
        headers = message.headers() or []
        if topic == self.names.settled:
            marks = unpack_settled(message.value() or b"")
            seen.marks.append(truth.TrueMark(message.partition() or 0, marks))
        elif topic == self.names.refused:
            reason = text_value(headers, "__checkback.errors.reason") or ""
            seen.refused.append((reason, text_value(headers, "UNIQ_KEY") or ""))
        elif topic == self.names.discarded:
            seen.discarded.append(_half_of(headers))
        elif topic == self.names.check(GROUP):
            self._asked(headers)
        else:
            at = (topic, message.partition() or 0, message.offset() or 0)
            seen.finals.append(truth.Final(*at, message.value() or b"", _half_of(headers)))

    def _asked(self, headers: list[tuple[str, bytes]]) -> None:
        position = _half_of(headers)
        times = int(text_value(headers, "TRANSACTION_CHECK_TIMES") or 0)
        self.evidence.checks.append((position, times))
        transaction = self.truth.get(position)
        # If the op is still on its way, the transaction is committed, and the answer only repeats
        # that.
        if transaction is not None and transaction.fate in ANSWERS:
            self._op(position, transaction.body.decode(), ANSWERS[transaction.fate])


def _half_of(headers: list[tuple[str, bytes]]) -> Position:
    partition = text_value(headers, "TRAN_HALF_QUEUE_ID")
    offset = text_value(headers, "TRAN_PREPARED_QUEUE_OFFSET")
    return int(partition or -1), int(offset or -1)
