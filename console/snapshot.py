"""What the pipeline is doing now, from whatever source answers: metrics endpoint, ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from checkback.checkpoints.running import is_pipeline_running
from checkback.console.ledger_view import LedgerView
from checkback.console.live_figures import LiveFigures, read_figures
from checkback.operations.diagnosis import Result, judge_running
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckbackError

TOTALS: Final[Mapping[str, str]] = {
    "committed": "checkback_commit_messages_total",
    "rolled_back": "checkback_rollback_messages_total",
    "checked": "checkback_checks_total",
    "discarded": "checkback_discarded_total",
    "refused": "checkback_refused_total",
}
"""By event, as the ledger names it: the metric that counts it."""
PENDING: Final = "checkback_half_messages"
OLDEST: Final = "checkback_oldest_pending_age_seconds"
BATCH: Final = "checkback_batch_write_seconds"
READ: Final = "checkback_records_read_total"
HALVES: Final = "halves"
LAG: Final = "checkback_lag_records"
COUNTED_HOW: Final[Mapping[str, str]] = {
    "metrics": "counted since the pipeline started",
    "ledger": "counted over the whole ledger, without finals that their topics refused",
}
"""By where totals come from: what they count. The ledger has what the rules decided only."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A source that did not answer.

    Args:
        what: which source.
        says: why.
        remedy: what to do.
    """

    what: str
    says: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at one moment; None where no source says it.

    Args:
        time_ms: when it was read.
        application_id: name of the deployment.
        pending: halves without a verdict.
        oldest_age_ms: age of the oldest of them.
        totals: by event, how often it happened since the source began to count.
        refused: refused records by reason.
        discarded: discarded halves by reason.
        batch_s: seconds that batches took, and how many there were.
        lag: records that the pipeline has not read.
        counted_by: where the totals come from: ``metrics``, ``ledger`` or nothing.
        missing: sources that did not answer.
    """

    time_ms: int
    application_id: str
    pending: int | None = None
    oldest_age_ms: int | None = None
    totals: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, float] = field(default_factory=dict)
    discarded: Mapping[str, float] = field(default_factory=dict)
    batch_s: tuple[float, float] | None = None
    lag: float | None = None
    counted_by: str = ""
    missing: tuple[Missing, ...] = ()

    @property
    def counted_how(self) -> str:
        """What the totals count; "" where there are none."""
        return COUNTED_HOW.get(self.counted_by, "")

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(slots=True)
class SnapshotReader:
    """Reads snapshots.

    Args:
        settings: the pipeline's settings.
        ledger: the ledger, None where none is set.
        metrics_url: the pipeline's metrics endpoint, "" where none is known.
        now_ms: a clock.
    """

    settings: Settings
    ledger: LedgerView | None
    metrics_url: str
    now_ms: Callable[[], int]

    def read(self) -> Snapshot:
        """Return what is known now; a source that does not answer is listed, not raised."""
        now, missing = self.now_ms(), []
        told: dict[str, Any] = {}
        sources = (
            ("pipeline", self._from_lock),
            ("ledger", self._from_ledger),
            ("metrics", self._from_metrics),
        )
        for what, read in sources:
            try:
                told |= read(now)
            except CheckbackError as error:
                missing.append(Missing(what, error.message, error.remedy))
        name = self.settings.application_id
        return Snapshot(now, name, missing=tuple(missing), **told)

    def _from_lock(self, _: int) -> dict[str, Any]:
        """Tell nothing but that the pipeline is down, where that can be seen."""
        if not self.settings.checkpoint:
            return {}
        finding = judge_running(is_pipeline_running(self.settings))
        if finding is not None and finding.result is not Result.OK:
            says = f"{finding.says[0].upper()}{finding.says[1:]}."
            raise CheckbackError(says, remedy=finding.remedy)
        return {}

    def _from_ledger(self, now_ms: int) -> dict[str, Any]:
        if self.ledger is None:
            raise CheckbackError(
                "No ledger is set: only the oldest pending transactions can be listed.",
                remedy="Set ledger for the pipeline and the console.",
            )
        self.ledger.refresh()
        groups = self.ledger.groups()
        oldest = min((row["oldest_ms"] for row in groups if row["oldest_ms"]), default=None)
        return {
            "pending": sum(row["pending"] for row in groups),
            "oldest_age_ms": None if oldest is None else max(0, now_ms - oldest),
            "totals": self.ledger.totals(),
            "refused": self.ledger.by_reason("refused"),
            "discarded": self.ledger.by_reason("discarded"),
            "counted_by": "ledger",
        }

    def _from_metrics(self, _: int) -> dict[str, Any]:
        if not self.metrics_url:
            raise CheckbackError(
                "No metrics endpoint is named, so batch times are missing.",
                remedy="Set metrics_port, or give --metrics-url http://HOST:PORT/metrics.",
            )
        return told_by_metrics(read_figures(self.metrics_url))


def told_by_metrics(figures: LiveFigures) -> dict[str, Any]:
    """Return the fields of a snapshot that the metrics tell."""
    told: dict[str, Any] = {}
    pending, age_s = figures.value(PENDING), figures.value(OLDEST)
    if pending is not None:
        told["pending"] = int(pending)
        told["oldest_age_ms"] = int(age_s * 1_000) if pending and age_s is not None else None
    totals = {event: figures.value(name) for event, name in TOTALS.items()}
    totals["prepared"] = figures.by_label(READ, "kind").get(HALVES)
    known = {event: value for event, value in totals.items() if value is not None}
    if known:
        told |= {"totals": known, "counted_by": "metrics"}
    for event in ("refused", "discarded"):
        by_reason = figures.by_label(TOTALS[event], "reason")
        if by_reason:
            told[event] = by_reason
    told["batch_s"] = figures.mean(BATCH)
    told["lag"] = figures.value(LAG)
    return told
