"""Applications over the fake Kafka: they write halves and ops, and answer check requests.

Each half's truth is fixed when it is written. Some never send their op, some answer when they are
asked, some ops come twice or are forged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

from tests.deciding import plain_half
from tests.fakes.kafka import Cluster
from tests.fakes.kafka.log import Record

from checkback.protocol.properties import (
    TRAN_HALF_QUEUE_ID,
    TRAN_PREPARED_QUEUE_OFFSET,
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_ROLLBACK_TYPE,
    text_value,
)
from checkback.protocol.records import Op
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.transaction.marker import RENEWAL_MS

COMMIT, ROLLBACK = TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE
REAL_TOPICS = ("orders", "bills", "narrow", "nowhere")
NARROW_BYTES = 300
HALF_PARTITIONS = 2
GROUPS = ("g0", "g1", "g2")
"""The last one makes its check topic late, or never."""
Position = tuple[int, int]


@dataclass(slots=True)
class Transaction:
    """What the application knows of one transaction.

    Args:
        position: of its half.
        group: number of its producer group.
        number: its own.
        state: how its local transaction ended.
        body: of the message.
        answers: whether its check is answered.
    """

    position: Position
    group: int
    number: int
    state: int
    body: bytes
    answers: bool = True


@dataclass(slots=True)
class Applications:
    """All producers.

    Args:
        cluster: where they write.
        random: what they do.
    """

    cluster: Cluster
    random: Random
    names: TopicNames = field(default_factory=TopicNames)
    transactions: dict[Position, Transaction] = field(default_factory=dict)
    answered: dict[tuple[str, int], int] = field(default_factory=dict)
    late_ops: list[tuple[float, Transaction]] = field(default_factory=list)
    is_calm: bool = False
    _numbers: Iterator[int] = field(default_factory=count)

    def make_topics(self) -> None:
        names, make = self.names, self.cluster.create_topic
        for name in (names.half, names.op, names.feedback):
            make(name, HALF_PARTITIONS)
        for name in (names.discarded, names.refused, *REAL_TOPICS[:2]):
            make(name, 2)
        make(REAL_TOPICS[2], 1)
        make(names.settled, 4)
        for group in GROUPS[:2]:
            make(names.check(group), 1)

    def live(self) -> None:
        """Let everybody do something, and some time pass."""
        self.cluster.clock.now_ms += self.random.choice((0, 20, 400, 1_500))
        self._send_late_ops()
        if self.random.random() < 0.01:
            self.cluster.clock.now_ms += RENEWAL_MS
        if not self.is_calm:
            for _ in range(self.random.choice((0, 1, 2, 5))):
                self._begin()
            if self.random.random() < 0.1:
                self._forge()
        self._answer()

    def calm_down(self) -> None:
        """Begin nothing more, and answer whatever is asked."""
        self.is_calm = True
        self._send_late_ops()
        self.cluster.create_topic(self.names.check(GROUPS[2]), 1)

    def _begin(self) -> None:
        random, partition, number = (
            self.random,
            self.random.randrange(HALF_PARTITIONS),
            next(self._numbers),
        )
        topic, group = random.choice(REAL_TOPICS), random.randrange(len(GROUPS))
        is_long = topic == "narrow" and random.random() < 0.3
        state = random.choice((COMMIT, COMMIT, COMMIT, ROLLBACK))
        body = b"%d" % number + bytes(NARROW_BYTES * is_long)
        headers = plain_half(f"t{number}", topic, GROUPS[group])
        offset = self.cluster.write(self.names.half, partition, b"k%d" % number, body, headers)
        made = Transaction((partition, offset), group, number, state, body, random.random() < 0.8)
        self.transactions[made.position] = made
        if random.random() < 0.75:
            for _ in range(random.choice((1, 1, 1, 2))):
                self._send_op_in_time_or_late(made)

    def _send_op_in_time_or_late(self, one: Transaction) -> None:
        """Send an op, or hold it back: often until its half was asked about or discarded."""
        if self.random.random() < 0.85:
            self._send_op(one)
        else:
            due_ms = self.cluster.clock.now_ms + self.random.choice((500, 5_000, 30_000))
            self.late_ops.append((due_ms, one))

    def _send_late_ops(self) -> None:
        now_ms = self.cluster.clock.now_ms
        due = [one for one in self.late_ops if self.is_calm or one[0] <= now_ms]
        self.late_ops = [one for one in self.late_ops if one not in due]
        for _, one in due:
            self._send_op(one)

    def _send_op(self, one: Transaction, *, number: int | None = None) -> None:
        transaction_id = f"t{one.number if number is None else number}"
        op = Op(*one.position, GROUPS[one.group], transaction_id, one.state)
        partition = one.position[0]
        self.cluster.write(self.names.op, partition, op.key(), op.value(), op.headers())

    def _forge(self) -> None:
        if self.transactions:
            one = self.random.choice(list(self.transactions.values()))
            self._send_op(one, number=one.number + 100_000)

    def _answer(self) -> None:
        for group in GROUPS:
            topic = self.cluster.topics.get(self.names.check(group))
            if topic is None:
                continue
            log = topic.partitions[0]
            first, end = self.answered.get((group, 0), 0), log.last_stable_offset
            self.answered[group, 0] = end
            for offset in range(first, end):
                if log.is_visible(offset):
                    self._answer_one(log.records[offset])

    def _answer_one(self, request: Record) -> None:
        headers = request.headers
        partition = int(text_value(headers, TRAN_HALF_QUEUE_ID) or 0)
        offset = int(text_value(headers, TRAN_PREPARED_QUEUE_OFFSET) or 0)
        one = self.transactions[partition, offset]
        if one.answers or self.is_calm:
            self._send_op(one)
