"""The demo's result: a table with a line per fate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from checkback.demo.audit import AuditFinding, Evidence, SeenRecord
from checkback.demo.database import OrderTruth
from checkback.demo.fates import Fate


@dataclass(frozen=True, slots=True)
class FateLine:
    """One line of the table.

    Args:
        fate: the fate.
        orders: number of orders with this fate.
        committed_locally: how many of them the database holds as paid.
        check_requests: number of check requests.
        check_answers: number of answers.
        finals: number of final messages on the real topics.
        discarded: number of discarded half messages.
    """

    fate: Fate
    orders: int
    committed_locally: int
    check_requests: int
    check_answers: int
    finals: int
    discarded: int


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The result of a run.

    Args:
        seed: the seed of the plan.
        duration_s: duration of the run.
        kills: how many producer processes were killed.
        fates: the table.
        findings: what the audit found wrong; empty if nothing.
        timeline: the lines of the timeline.
        data_dir: the folder with all files, empty if it was deleted.
    """

    seed: int
    duration_s: float
    kills: int
    fates: Sequence[FateLine]
    findings: Sequence[AuditFinding]
    timeline: Sequence[Mapping[str, Any]]
    data_dir: str = ""

    @property
    def orders(self) -> int:
        """The number of orders."""
        return sum(line.orders for line in self.fates)

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {"orders": self.orders, "audit_passed": not self.findings, **asdict(self)}

    def verdict(self) -> str:
        """Return the audit's result in a sentence."""
        if self.findings:
            return f"Audit failed: {len(self.findings)} findings."
        finals = sum(line.finals for line in self.fates)
        return (
            f"Audit passed: of {self.orders} orders the {finals} that were committed locally are "
            "on their real topics once, byte for byte; no other is."
        )


def fate_lines(truths: Sequence[OrderTruth], evidence: Evidence) -> list[FateLine]:
    """Return the table's lines, in the order of the fates."""
    fates = {truth.order.order_id: truth.order.fate for truth in truths}
    orders = Counter(fates.values())
    committed = Counter(truth.order.fate for truth in truths if truth.is_committed)
    requests = _by_fate(fates, evidence.check_requests)
    answers = _by_fate(fates, evidence.check_answers)
    finals = _by_fate(fates, _records(evidence.finals))
    discarded = _by_fate(fates, _records(evidence.discarded))
    return [
        FateLine(
            fate,
            orders[fate],
            committed[fate],
            requests[fate],
            answers[fate],
            finals[fate],
            discarded[fate],
        )
        for fate in Fate
    ]


def fate_table(lines: Iterable[FateLine]) -> Table:
    """Return the table for a terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("fate")
    for heading in (
        "orders",
        "local\ncommit",
        "asked\nback",
        "answered",
        "final",
        "discarded",
    ):
        table.add_column(heading, justify="right", vertical="bottom")
    for line in lines:
        numbers = (
            line.orders,
            line.committed_locally,
            line.check_requests,
            line.check_answers,
            line.finals,
            line.discarded,
        )
        table.add_row(line.fate.label, *(str(number) for number in numbers))
    return table


def _records(records: Iterable[SeenRecord]) -> Counter[str]:
    return Counter(record.order_id for record in records)


def _by_fate(fates: Mapping[str, Fate], counts: Mapping[str, int]) -> Counter[Fate]:
    found: Counter[Fate] = Counter()
    for order_id, count in counts.items():
        if order_id in fates:
            found[fates[order_id]] += count
    return found
