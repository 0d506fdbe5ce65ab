"""Fills the pipeline's metrics from the tasks' reports and Spark's progress."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from checkback import __version__
from checkback.metrics.instruments import COUNTED, Instruments
from checkback.metrics.table import RECORD_KINDS, STAGES
from checkback.protocol.configuration import Settings
from checkback.sinks.report import BatchReport
from checkback.streaming.reports.progress import PendingIndex, Progress
from checkback.streaming.reports.stalls import Stall
from checkback.streaming.reports.unread import Unread

CAPITAL: Final = re.compile(r"(?=[A-Z])")
HELD_STAGES: Final = frozenset({"add_batch", "trigger_execution"})
"""Stages that include the time for which a batch's end is held (batch/idle_wait.py)."""
COUNTS: Final = {
    "commits": "checkback_commit_messages_total",
    "rollbacks": "checkback_rollback_messages_total",
    "finals": "checkback_final_messages_total",
    "native_fallbacks": "checkback_native_fallbacks_total",
    "delivered": "checkback_delivered_messages_total",
    "delivered_refused": "checkback_delivered_refused_total",
}
"""Metrics by the names of the counts in a report."""


@dataclass(slots=True)
class SilentGroups:
    """Groups that were found without a live member; each is forgotten unless it is asked again.

    A group is asked once per check interval, a progress line comes more often: between two
    requests the group stays as it was found.
    """

    keep_ms: int
    _found_ms: dict[str, int] = field(default_factory=dict)

    def take(self, asked: Iterable[str], silent: Collection[str], now_ms: int) -> int:
        """Add the result of a look at groups; return how many are silent now."""
        for group in asked:
            if group in silent:
                self._found_ms[group] = now_ms
            else:
                self._found_ms.pop(group, None)
        kept = {group: at for group, at in self._found_ms.items() if now_ms - at <= self.keep_ms}
        self._found_ms = kept
        return len(kept)


class JobMetrics:
    """Fills the instruments. Batches, the driver's loop and scrapes may call it at once."""

    def __init__(
        self,
        instruments: Instruments,
        settings: Settings,
        progress: Progress,
        now_ms: Callable[[], int],
    ) -> None:
        self._fill = instruments
        self._progress = progress
        self._now_ms = now_ms
        names = settings.topics
        self._topics = {
            names.half: "half",
            names.op: "op",
            names.feedback: "feedback",
            **({names.decided: "decided"} if settings.relay else {}),
        }
        for label in self._topics.values():
            instruments.set("checkback_lag_records", math.nan, topic=label)
            instruments.set("checkback_oldest_unread_age_seconds", math.nan, topic=label)
            instruments.set("checkback_unread_still_seconds", math.nan, topic=label)
        keep_ms = 2 * (settings.check_interval_ms + settings.progress_interval_ms)
        self._silent = SilentGroups(keep_ms)
        instruments.set("checkback_build_info", 1, version=__version__)
        instruments.set("checkback_pending_bound_seconds", pending_bound_ms(settings) / 1_000)
        self._watch("checkback_half_messages", lambda index: index.pending)
        self._watch("checkback_check_backlog", lambda index: index.overdue)
        self._watch("checkback_state_rows", lambda index: index.state_rows)
        self._watch("checkback_state_bytes", lambda index: index.state_bytes)
        self._watch("checkback_oldest_pending_age_seconds", self._oldest_age_s)

    def add_batch(self, report: BatchReport, took_s: float) -> None:
        """Add a batch."""
        fill = self._fill
        self._add_report(report)
        fill.add("checkback_batches_total")
        fill.observe("checkback_batch_write_seconds", took_s)
        fill.set("checkback_last_batch_timestamp_seconds", self._now_ms() / 1_000)

    def take_spark_progress(self, progress: Mapping[str, Any] | None, held_ms: int = 0) -> None:
        """Set the gauges of Spark's progress in the last batch.

        Args:
            progress: None before the first batch.
            held_ms: how long the batch's end was held because there was nothing to do; two stages
                have this time in them.
        """
        if progress is None:
            return
        for name, took_ms in progress["durationMs"].items():
            stage = CAPITAL.sub("_", name).lower()
            if stage in STAGES:
                own_ms = max(0, took_ms - held_ms) if stage in HELD_STAGES else took_ms
                self._fill.set("checkback_batch_stage_seconds", own_ms / 1_000, stage=stage)

    def take_unread(self, unread: Iterable[Unread]) -> None:
        """Take what a look at the topics found unread."""
        found = {of_topic.topic: of_topic for of_topic in unread}
        # All at once: one that is still no number would hide the others' sum from the alert.
        for topic, label in self._topics.items() if found else ():
            of_topic = found.get(topic, Unread(topic, 0))
            self._fill.set("checkback_lag_records", of_topic.records, topic=label)
            self._fill.set("checkback_oldest_unread_age_seconds", of_topic.oldest_s, topic=label)
            self._fill.set("checkback_unread_still_seconds", of_topic.still_s, topic=label)

    def take_groups(
        self, asked: Iterable[str], without_members: Iterable[str], without_topic: Iterable[str]
    ) -> None:
        """Set the gauges of producer groups.

        Args:
            without_topic: groups that have no check topic, and so never had a member.
        """
        silent = {*without_members, *without_topic}
        number = self._silent.take({*asked, *silent}, silent, self._now_ms())
        self._fill.set("checkback_groups_without_members", number)

    def take_access_problem(self, *, is_broken: bool) -> None:
        """Set whether the access rules have mistakes."""
        self._fill.set("checkback_access_rules_broken", float(is_broken))

    def take_stalls(self, stalls: Iterable[Stall]) -> None:
        """Set the gauges of partitions that stand still."""
        found = list(stalls)
        for topic, label in self._topics.items():
            number = sum(stall.topic == topic for stall in found)
            self._fill.set("checkback_stalled_partitions", number, topic=label)
        self._fill.clear("checkback_stall_seconds")
        for stall in found:
            place = {"topic": self._topics[stall.topic], "partition": str(stall.partition)}
            producer = str(stall.producer_id)
            self._fill.set(
                "checkback_stall_seconds", stall.stalled_s, **place, producer_id=producer
            )

    def take_short_topics(self, number: int) -> None:
        """Set for how many topics' replicas a batch waits."""
        self._fill.set("checkback_short_topics", number)

    def _add_report(self, report: BatchReport) -> None:
        fill, counts = self._fill, report.counts
        for name, metric in COUNTS.items():
            if counts[name]:
                fill.add(metric, counts[name])
        for kind in RECORD_KINDS:
            if counts[kind]:
                fill.add("checkback_records_read_total", counts[kind], kind=kind)
        for outcome, number in (
            ("sent", report.asked_groups.total()),
            ("undelivered", report.undelivered_groups.total()),
        ):
            if number:
                fill.add("checkback_checks_total", number, outcome=outcome)
        for reason, number in report.refused.items():
            fill.add("checkback_refused_total", number, reason=reason)
        for reason, number in report.discarded.items():
            fill.add("checkback_discarded_total", number, reason=reason)
        *finished, total_ms = report.finished
        if any(finished):
            fill.add_counts(COUNTED, finished, total_ms / 1_000)

    def _watch(self, name: str, figure: Callable[[PendingIndex], float]) -> None:
        self._fill.watch(name, lambda: self._progress.figure(figure))

    def _oldest_age_s(self, index: PendingIndex) -> float:
        oldest_ms = index.oldest_ms
        return 0.0 if oldest_ms is None else max(0, self._now_ms() - oldest_ms) / 1_000


def pending_bound_ms(settings: Settings) -> int:
    """Return the age at which an ordinary half has used up its checks, or expires."""
    checked_ms = settings.transaction_timeout_ms + settings.check_max * settings.check_interval_ms
    return min(checked_ms, settings.half_retention_ms)
