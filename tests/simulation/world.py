"""Applications, brokers and clocks as one seed makes them; the pages are the real ones.

Producers begin transactions, die, come back, answer checks or can't; their ops get lost, doubled
and delayed; others write ops for halves that are not theirs. Time is what the world says it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.property.model import COMMIT, ROLLBACK, UNKNOWN, Record

from checkback.state import EventKind

START = 1_700_000_000_000
GROUPS = 4


@dataclass
class Transaction:
    """What an application's database knows of one transaction."""

    offset: int
    group: int
    number: int
    stored_at: int
    immunity: int
    state: int
    decided_at: int
    """Until then the local transaction still runs, and a check is answered UNKNOWN."""
    is_forgotten: bool
    """The database lost it: every check is answered UNKNOWN."""

    def answer(self, now: int) -> int:
        return UNKNOWN if self.is_forgotten or now < self.decided_at else self.state


@dataclass
class Group:
    """A producer group: whether one of its processes lives, and whether one ever did."""

    is_alive: bool = True
    has_topic: bool = True


@dataclass
class Topic:
    """One partition of a topic, and how far the pipeline has read it."""

    records: list[Record] = field(default_factory=list)
    read: int = 0

    def next(self, limit: int) -> list[Record]:
        return self.records[self.read : self.read + limit]


class World:
    """Everything around the pipeline.

    Args:
        random: decides whatever is left to chance.
        pace_ms: about how long a local transaction takes.
    """

    def __init__(self, random: Random, pace_ms: int) -> None:
        self.random = random
        self.pace_ms = pace_ms
        self.broker_ms = START
        self.skew_ms = 0
        self.groups = [Group() for _ in range(GROUPS)]
        self.groups[-1].has_topic = random.random() < 0.5
        self.transactions: dict[int, Transaction] = {}
        self.half_topic = Topic()
        self.op_topic = Topic()
        self.on_their_way: list[tuple[int, Record]] = []
        self.is_calm = False

    @property
    def driver_ms(self) -> int:
        """The time that the pipeline's machine believes it is."""
        return self.broker_ms + self.skew_ms

    def live(self) -> None:
        """Let some time pass, and everybody do something."""
        self.broker_ms += self.random.choice((0, 1, 7, self.pace_ms // 3, self.pace_ms))
        if not self.is_calm:
            self._disturb()
            for _ in range(self.random.choice((0, 1, 3, 8))):
                self._begin_transaction()
        self._deliver_ops()

    def calm_down(self) -> None:
        """Begin nothing more, mend everything."""
        self.is_calm = True
        self.skew_ms = max(self.skew_ms, 0)
        for group in self.groups:
            group.is_alive = group.has_topic = True

    def ask(self, offset: int, check_times: int) -> None:
        """Deliver a check request, or tell the pipeline that it has nowhere to go."""
        transaction = self.transactions[offset]
        group = self.groups[transaction.group]
        if not group.has_topic:
            record = Record(EventKind.UNDELIVERED, offset, 0, 0, 0, 0, check_times)
            self._send(record, delay_ms=0)
        elif group.is_alive and (self.is_calm or self.random.random() < 0.9):
            delay_ms = self.random.randrange(self.pace_ms)
            state = transaction.answer(self.broker_ms + delay_ms)
            self._send(self._op(transaction, state), delay_ms)

    def _disturb(self) -> None:
        chance = self.random.random
        for group in self.groups:
            if chance() < 0.05:
                group.is_alive = not group.is_alive
            if not group.has_topic and chance() < 0.02:
                group.has_topic = True
        if chance() < 0.05:
            self.skew_ms = self.random.choice((0, 0, -3 * self.pace_ms, 5 * self.pace_ms))
        if chance() < 0.3:
            self._forge_op()

    def _begin_transaction(self) -> None:
        number = self.random.randrange(GROUPS)
        if not self.groups[number].is_alive:
            return
        offset = len(self.half_topic.records)
        transaction = Transaction(
            offset=offset,
            group=number,
            number=offset + 1_000,
            stored_at=self.broker_ms,
            immunity=self.random.choice((-1, -1, -1, 0, self.pace_ms, 9 * self.pace_ms)),
            state=self.random.choice((COMMIT, COMMIT, ROLLBACK)),
            decided_at=self.broker_ms + self.random.choice((0, 0, 1, 4)) * self.pace_ms,
            is_forgotten=self.random.random() < 0.05,
        )
        self.transactions[offset] = transaction
        self.half_topic.records.append(
            Record(
                EventKind.HALF, offset, offset, self.broker_ms, number, transaction.number,
                transaction.immunity,
            )
        )  # fmt: skip
        self._say_what_became_of(transaction)

    def _say_what_became_of(self, transaction: Transaction) -> None:
        """Send the op, unless the process dies first or the op gets lost; perhaps twice."""
        if transaction.is_forgotten or self.random.random() < 0.2:
            return
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            delay_ms = transaction.decided_at - self.broker_ms
            delay_ms += self.random.choice((0, 0, 0, 1, 30)) * self.pace_ms
            self._send(self._op(transaction, transaction.state), delay_ms)

    def _forge_op(self) -> None:
        """Name a half with the wrong group or transaction id: one there is, was or will be."""
        offset = self.random.randrange(len(self.half_topic.records) + 5)
        known = self.transactions.get(offset)
        group = known.group if known and self.random.random() < 0.5 else GROUPS
        state = self.random.choice((COMMIT, ROLLBACK))
        self._send(Record(EventKind.OP, offset, 0, 0, group, 1, state), delay_ms=0)

    def _op(self, transaction: Transaction, state: int) -> Record:
        offset, group, number = transaction.offset, transaction.group, transaction.number
        return Record(EventKind.OP, offset, 0, 0, group, number, state)

    def _send(self, record: Record, delay_ms: int) -> None:
        self.on_their_way.append((self.broker_ms + delay_ms, record))

    def _deliver_ops(self) -> None:
        arrived = sorted(one for one in self.on_their_way if one[0] <= self.broker_ms)
        self.on_their_way = [one for one in self.on_their_way if one[0] > self.broker_ms]
        for _, record in arrived:
            source = len(self.op_topic.records)
            self.op_topic.records.append(record._replace(source=source, time=self.broker_ms))
