"""What must hold of every transaction at its end, whoever made it visible: sink or producer.

The audit of batches says that the sink wrote what the pages decided. This one believes no page: it
compares what consumers see with what the applications' databases say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.exactly_once.application import COMMIT, Applications, Position, Transaction
from tests.simulation.exactly_once.pages import Reference

from checkback.protocol.direct import DIRECT_ID_PREFIX
from checkback.state import Action, Outcome
from checkback.state import Counter as Counted
from checkback.testing.fake_kafka.log import Record

VERDICTS = {
    int(Action.COMMIT): "commit",
    int(Action.DELIVERED): "delivered",
    int(Action.ROLLBACK): "rollback",
    int(Action.DISCARD_CHECK_LIMIT): "discard",
    int(Action.DISCARD_EXPIRED): "discard",
}
FINALS = {"commit": (1, 0), "delivered": (0, 1), "rollback": (0, 0), "discard": (0, 0)}
"""By verdict, how often the sink and the producer have written the final message."""


def session_of(record: Record) -> str:
    """Return the direct session that wrote a record, empty for another writer."""
    writer = "" if record.transaction is None else record.transaction.transactional_id
    return writer if writer.startswith(DIRECT_ID_PREFIX) else ""


@dataclass(slots=True)
class Verdicts:
    """Every verdict of the plans, and every final that consumers see.

    Args:
        applications: know the truth.
        reference: knows what is left.
    """

    applications: Applications
    reference: Reference
    given: dict[Position, str] = field(default_factory=dict)
    unwritten: set[Position] = field(default_factory=set)
    by_sink: Counter[Position] = field(default_factory=Counter)
    by_producer: Counter[Position] = field(default_factory=Counter)

    def batch_begins(self) -> None:
        """Take in that what follows belongs to a batch of its own."""
        self.unwritten.clear()

    def planned(self, outcomes: Iterable[Outcome]) -> None:
        """Take in what a batch decides."""
        for one in outcomes:
            refused = one.counters[Counted.DELIVERED_REFUSED]
            assert not refused, "a delivered op meets another verdict"
            for action, offset in zip(one.action.tolist(), one.offset.tolist(), strict=True):
                if action in VERDICTS:
                    self._give((one.partition, offset), VERDICTS[action])

    def written(self, position: Position) -> None:
        """Take in that consumers see a final of the sink's, or its refusal."""
        self.by_sink[position] += 1
        self._once(position)

    def delivered(self, position: Position, record: Record) -> None:
        """Take in that consumers see a final of a producer's."""
        self.by_producer[position] += 1
        self._once(position)
        one = self.applications.transactions[position]
        assert session_of(record) == one.session_id, f"{position}: another session delivered it"
        assert one.state == COMMIT, f"{position}: delivered, though it was not committed"
        assert record.value == one.body, f"{position}: delivered with another body"

    def at_the_end(self, *, is_settled: bool, last_is_committed: bool) -> None:
        """Check once nothing can happen any more.

        Args:
            last_is_committed: whether Spark has committed the last batch; else any part of it may
                be written.
            is_settled: whether everything had its verdict; a start that was refused leaves halves.
        """
        for position, verdict in self.given.items():
            visible = self.by_sink[position], self.by_producer[position]
            assert visible[1] <= FINALS[verdict][1], f"{position}: delivered, and {verdict}"
        if not is_settled:
            return
        if last_is_committed:
            self.unwritten.clear()
        assert not self.reference.pending, "halves are pending at the end"
        assert not self.reference.delivered_waiting, "a delivered op has met no half"
        for position, one in self.applications.transactions.items():
            self._require_settled(position, one)

    def _require_settled(self, position: Position, one: Transaction) -> None:
        verdict = self.given.get(position)
        assert verdict is not None, f"{position} has no verdict"
        visible = self.by_sink[position], self.by_producer[position]
        if position not in self.unwritten or visible[0]:
            assert visible == FINALS[verdict], f"{position}: {verdict}, finals are {visible}"
        if verdict in ("commit", "delivered"):
            assert one.state == COMMIT, f"{position}: {verdict}, though it was not committed"
        elif verdict == "rollback":
            assert one.state != COMMIT, f"{position}: rolled back, though it was committed"

    def _give(self, position: Position, verdict: str) -> None:
        assert position not in self.given, f"{position} has two verdicts"
        self.given[position] = verdict
        self.unwritten.add(position)

    def _once(self, position: Position) -> None:
        seen = self.by_sink[position] + self.by_producer[position]
        assert seen <= 1, f"{position}: consumers see it {seen} times"
