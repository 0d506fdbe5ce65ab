"""What must hold of every transaction at its end.

The audit of batches says that the sink wrote what the pages decided. This one believes no page: it
compares what consumers see with what the applications' databases say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.exactly_once.application import COMMIT, Applications, Position, Transaction
from tests.simulation.exactly_once.pages import Reference

from checkback.state import Action, Outcome

VERDICTS = {
    int(Action.COMMIT): "commit",
    int(Action.ROLLBACK): "rollback",
    int(Action.DISCARD_CHECK_LIMIT): "discard",
    int(Action.DISCARD_EXPIRED): "discard",
}
FINALS = {"commit": 1, "rollback": 0, "discard": 0}
"""By verdict, how often the final message is written."""


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
    finals: Counter[Position] = field(default_factory=Counter)

    def batch_begins(self) -> None:
        """Take in that what follows belongs to a batch of its own."""
        self.unwritten.clear()

    def take_back(self) -> None:
        """Forget the verdicts of the last batch."""
        for position in self.unwritten:
            del self.given[position]

    def planned(self, outcomes: Iterable[Outcome]) -> None:
        """Take in what a batch decides."""
        for one in outcomes:
            for action, offset in zip(one.action.tolist(), one.offset.tolist(), strict=True):
                if action in VERDICTS:
                    self._give((one.partition, offset), VERDICTS[action])

    def written(self, position: Position) -> None:
        """Take in that consumers see a final, or its refusal."""
        self.finals[position] += 1
        seen = self.finals[position]
        assert seen <= 1, f"{position}: consumers see it {seen} times"

    def at_the_end(self, *, is_settled: bool, last_is_committed: bool) -> None:
        """Check once nothing can happen any more.

        Args:
            last_is_committed: whether Spark has committed the last batch; else any part of it may
                be written.
            is_settled: whether everything had its verdict; a start that was refused leaves halves.
        """
        if not is_settled:
            return
        if last_is_committed:
            self.unwritten.clear()
        assert not self.reference.pending, "halves are pending at the end"
        for position, one in self.applications.transactions.items():
            self._require_settled(position, one)

    def _require_settled(self, position: Position, one: Transaction) -> None:
        verdict = self.given.get(position)
        assert verdict is not None, f"{position} has no verdict"
        visible = self.finals[position]
        if position not in self.unwritten or visible:
            assert visible == FINALS[verdict], f"{position}: {verdict}, finals are {visible}"
        if verdict == "commit":
            assert one.state == COMMIT, f"{position}: {verdict}, though it was not committed"
        elif verdict == "rollback":
            assert one.state != COMMIT, f"{position}: rolled back, though it was committed"

    def _give(self, position: Position, verdict: str) -> None:
        assert position not in self.given, f"{position} has two verdicts"
        self.given[position] = verdict
        self.unwritten.add(position)
