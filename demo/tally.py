"""Counts during a demo run, from the reports of the pipeline and the order service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

COUNT_LABELS: Final[Mapping[str, str]] = {
    "halves": "half messages",
    "finals": "final",
    "rollbacks": "rolled back",
    "checks": "asked back",
    "discards": "discarded",
    "refusals": "refused",
}
"""The pipeline's counts that are shown, and their labels."""
ANSWER_LABELS: Final[Mapping[str, str]] = {
    "COMMIT_MESSAGE": "commit",
    "ROLLBACK_MESSAGE": "rollback",
    "UNKNOW": "unknown",
}


@dataclass(slots=True)
class Tally:
    """Counts of a run, and whether it is settled.

    Args:
        halves_expected: number of half messages that will be sent.
    """

    halves_expected: int
    counts: Counter[str] = field(default_factory=Counter)
    pending: int = 0
    all_sent: bool = False
    _answers: Counter[str] = field(default_factory=Counter)
    _payments: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether every half message was read and has its verdict."""
        return self.all_sent and self.counts["halves"] >= self.halves_expected and not self.pending

    def add_progress(self, fields: Mapping[str, Any]) -> str:
        """Add a progress line of the pipeline; return a line for the timeline, "" for none."""
        counts = {name: fields["counts"].get(name, 0) for name in COUNT_LABELS}
        self.counts.update(counts)
        self.pending = fields["pending"]
        said = [f"{label} {counts[name]}" for name, label in COUNT_LABELS.items() if counts[name]]
        return ", ".join([*said, f"pending {self.pending}"]) if said else ""

    def add_answer(self, state: str) -> None:
        """Add an answer to a check.

        Args:
            state: name of the LocalTransactionState.
        """
        self._answers[state] += 1

    def add_payments(self, settled: int) -> None:
        """Add a number of payments that the order service heard of."""
        self._payments += settled

    def told_answers(self) -> str:
        """Return a timeline line about the answers since the last call, "" for none."""
        answers, self._answers = self._answers, Counter()
        if not answers:
            return ""
        parts = ", ".join(f"{answers[one]} {label}" for one, label in ANSWER_LABELS.items())
        return f"answered {answers.total()} checks: {parts}"

    def told_payments(self) -> str:
        """Return a timeline line about the payments since the last call, "" for none."""
        payments, self._payments = self._payments, 0
        return f"heard how {payments} open payments ended" if payments else ""

    def state(self) -> str:
        """Return the state of the run in one line."""
        counted = ", ".join(f"{label} {self.counts[name]}" for name, label in COUNT_LABELS.items())
        return f"of {self.halves_expected} orders: {counted}, pending {self.pending}"
