"""What the demo shows: a table with a line per fate, counts meanwhile, and the timeline."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any, Final, Self

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from checkback.demo.audit import AuditFinding, Evidence, SeenRecord
from checkback.demo.fates import Fate
from checkback.demo.orders import OrderTruth


@dataclass(frozen=True, slots=True)
class FateLine:
    """One line of the table."""

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
    counts = (
        Counter(fates.values()),
        Counter(truth.order.fate for truth in truths if truth.is_committed),
        _by_fate(fates, evidence.check_requests),
        _by_fate(fates, evidence.check_answers),
        _by_fate(fates, _records(evidence.finals)),
        _by_fate(fates, _records(evidence.discarded)),
    )
    return [FateLine(fate, *(of[fate] for of in counts)) for fate in Fate]


def fate_table(lines: Iterable[FateLine]) -> Table:
    """Return the table for a terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("fate")
    for heading in ("orders", "local\ncommit", "asked\nback", "answered", "final", "discarded"):
        table.add_column(heading, justify="right", vertical="bottom")
    for line in lines:
        _, *numbers = astuple(line)
        table.add_row(line.fate.label, *map(str, numbers))
    return table


def _records(records: Iterable[SeenRecord]) -> Counter[str]:
    return Counter(record.order_id for record in records)


def _by_fate(fates: Mapping[str, Fate], counts: Mapping[str, int]) -> Counter[Fate]:
    found: Counter[Fate] = Counter()
    for order_id, count in counts.items():
        if order_id in fates:
            found[fates[order_id]] += count
    return found


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
    """Counts of a run, and whether it is settled."""

    halves_expected: int
    counts: Counter[str] = field(default_factory=Counter)
    pending: int = 0
    all_sent: bool = False
    answers: Counter[str] = field(default_factory=Counter)
    """Answers to checks since the last line about them."""
    payments: int = 0
    """Payments that ended since the last line about them."""

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

    def answers_line(self) -> str:
        """Return a timeline line about the answers since the last call, "" for none."""
        answers, self.answers = self.answers, Counter()
        if not answers:
            return ""
        parts = ", ".join(f"{answers[name]} {label}" for name, label in ANSWER_LABELS.items())
        return f"answered {answers.total()} checks: {parts}"

    def payments_line(self) -> str:
        """Return a timeline line about the payments since the last call, "" for none."""
        payments, self.payments = self.payments, 0
        return f"heard how {payments} open payments ended" if payments else ""

    def state(self) -> str:
        """Return the state of the run in one line."""
        counted = ", ".join(f"{label} {self.counts[name]}" for name, label in COUNT_LABELS.items())
        return f"of {self.halves_expected} orders: {counted}, pending {self.pending}"


SOURCE_STYLES: Final = {
    "order service": "cyan",
    "retired service": "magenta",
    "pipeline": "green",
    "demo": "bold",
}
SOURCE_WIDTH: Final = max(map(len, SOURCE_STYLES))
COLUMNS_MAX: Final = 80
"""Longer lines are folded, also in a file: they end up in reports and mails."""
TEXT_AT: Final = len("1234.5 s  ") + SOURCE_WIDTH + 2


@dataclass(slots=True)
class Timeline:
    """Prints and remembers events with the time since the beginning."""

    console: Console
    clock_s: Callable[[], float] = time.monotonic
    entries: list[dict[str, Any]] = field(default_factory=list)
    _began_s: float = field(init=False)
    _status: Status | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._began_s = self.clock_s()

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._status = self.console.status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self.clock_s() - self._began_s

    def say(self, source: str, text: str) -> None:
        """Add a line."""
        at_s = round(self.elapsed_s, 1)
        self.entries.append({"at_s": at_s, "source": source, "text": text})
        first, *further = folded(self.console, text, TEXT_AT)
        line = Text.assemble(
            (f"{at_s:6.1f} s  ", "dim"),
            (f"{source:<{SOURCE_WIDTH}}  ", SOURCE_STYLES.get(source, "")),
            "\n".join([first, *(" " * TEXT_AT + line for line in further)]),
        )
        self.console.print(line, soft_wrap=True)

    def show_command(self, command: str) -> None:
        """Show a command for people to copy, by itself and never folded."""
        self.console.print(f"  {command}", soft_wrap=True, markup=False)

    def show_state(self, text: str) -> None:
        """Show the present state in the last line of a terminal; elsewhere do nothing."""
        if self._status is not None:
            self._status.update(f"[dim]{text}[/dim]")


def folded(console: Console, text: str, indent: int = 0) -> list[str]:
    """Return a text as lines that fit the terminal and COLUMNS_MAX; no word is broken."""
    columns = min(COLUMNS_MAX, console.width) if console.is_terminal else COLUMNS_MAX
    width = max(20, columns - indent)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
