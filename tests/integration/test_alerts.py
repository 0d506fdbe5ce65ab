"""Every alert on trial: it fires on what the job reports of its fault, and ends with the fault.

A real Prometheus reads what the part of the job that is observed says of the faults. On a
running job test_metrics.py fires what a job brings about within seconds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.integration.running import wait_until
from tests.integration.scraping import NEEDS_PROMETHEUS, prometheus

from checkback.deploy.alerts import rule_document
from checkback.deploy.broker import free_ports
from checkback.protocol.configuration import Settings
from checkback.sinks.report import BatchReport, PageStatus
from checkback.streaming.reports.job_metrics import pending_bound_ms
from checkback.streaming.reports.observation import Observation
from checkback.streaming.reports.progress import Progress
from checkback.streaming.reports.stalls import Stall
from checkback.streaming.reports.unread import Unread

READ: Final = 10
"""Halves that each batch reads."""


class ReportingJob:
    """What a job says to the part of it that is observed, faults and all.

    Args:
        broker: a broker that answers.
        port: where the metrics are.
    """

    def __init__(self, broker: str, port: int) -> None:
        self.settings = Settings(bootstrap_servers=broker, metrics_port=port)
        self.progress = Progress()
        self.progress.begin_with([])
        self.seen = Observation(self.settings, self.progress, now_ms)
        self._batch = 0

    def start(self) -> None:
        self.seen.started(lambda _: None)

    def batch(self, faults: set[str]) -> None:
        """Report a batch, Spark's progress and a progress line with the faults of these alerts."""
        written = report(faults, self.settings)
        self.progress.add(self._batch, written)
        self.seen.batch_written(self._batch, written, 0.01)
        self._batch += 1
        self.seen.health.beat()
        half = self.settings.topics.half
        waiting = 1_000_000 if "CheckbackLag" in faults else 0
        still_s = 180.0 if "CheckbackUnread" in faults else 0.0
        self.seen.unread_looked([Unread(half, waiting, still_s, still_s)])
        silent = ["g"] if "CheckbackNoLiveMember" in faults else []
        stall = Stall(self.settings.topics.half, 0, 7, 90, 90.0)
        stalls = [stall] if "CheckbackPartitionStalled" in faults else []
        line = self.progress.line(now_ms(), 10)
        line = replace(line, groups_without_members=silent, stalls=stalls)
        self.seen.line_told(self.progress.take_asked_groups(), line)
        self.seen.access_looked("line 3" if "CheckbackAccessRulesBroken" in faults else "")


REFUSED: Final = {
    "CheckbackMessagesRefused": "REAL_TOPIC_MISSING",
    "CheckbackRefusedRate": "OP_WITHOUT_HALF",
}
COUNTED: Final = {
    "CheckbackDeliveredRefused": "delivered_refused",
    "CheckbackSlowSink": "native_fallbacks",
}
IN_REPORTS: Final = {*REFUSED, *COUNTED, "CheckbackDiscarded", "CheckbackOldestPending"}
IN_LOOKS: Final = {
    "CheckbackLag", "CheckbackNoLiveMember", "CheckbackPartitionStalled",
    "CheckbackAccessRulesBroken", "CheckbackUnread",
}  # fmt: skip
NOT_STARTED: Final = {"CheckbackNotReady"}
NOT_THERE: Final = {"CheckbackDown"}
IN_RELAYS: Final = {"CheckbackRelayNotReady", "CheckbackRelayStandsStill"}
"""A job never reports what they look at; tests/unit/metrics/alerts.test.yml tries them."""


def report(faults: set[str], settings: Settings) -> BatchReport:
    """Return the report of a batch with the faults of these alerts."""
    found = BatchReport(0, Counter(halves=READ), asked_groups=Counter(g=1))
    found.counts.update(name for alert, name in COUNTED.items() if alert in faults)
    found.refused.update(name for alert, name in REFUSED.items() if alert in faults)
    found.discarded.update(["check_limit"] if "CheckbackDiscarded" in faults else [])
    page = PageStatus(0, 0, 0, -1, state_bytes=100)
    if "CheckbackOldestPending" in faults:
        page = replace(page, pending=1, oldest_ms=now_ms() - pending_bound_ms(settings) * 6 // 10)
    found.pages.append(page)
    return found


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def reporting(broker: str, port: int) -> Iterator[ReportingJob]:
    job = ReportingJob(broker, port)
    try:
        yield job
    finally:
        job.seen.close()


def test_no_alert_is_without_a_trial() -> None:
    tried = IN_REPORTS | IN_LOOKS | NOT_STARTED | NOT_THERE | IN_RELAYS

    assert tried == {rule["alert"] for rule in rule_document()["groups"][0]["rules"]}


@NEEDS_PROMETHEUS
@pytest.mark.nightly  # in test_metrics.py six of them fire at a real pipeline, and end
@pytest.mark.timeout(600)  # a busy machine answers late; each wait has a limit of its own
def test_each_alert_fires_with_its_fault_and_ends_with_it(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    ports = free_ports(3)
    well, ill, gone = (f"127.0.0.1:{port}" for port in ports)
    faults = IN_REPORTS | IN_LOOKS
    with ExitStack() as stack:
        good, bad = (stack.enter_context(reporting(bootstrap_servers, one)) for one in ports[:2])
        found = stack.enter_context(prometheus(tmp_path, [well, ill, gone]))
        good.start()

        def goes_on(faults: set[str]) -> None:
            good.batch(set())
            bad.batch(faults)

        def all_fire() -> bool:
            goes_on(faults)
            fire = found.firing(f'instance="{ill}"') | found.firing(f'instance="{gone}"')
            return fire == faults | NOT_STARTED | NOT_THERE and not found.firing(
                f'instance="{well}"'
            )

        def none_fires() -> bool:
            goes_on(set())
            # A Prometheus that does not answer says of no metric what it is.
            return bool(found.last("checkback_batches_total")) and not found.firing()

        # An alert sees a counter rise, so its first value has to be there before.
        goes_on(set())
        wait_until(
            lambda: found.ask("count(checkback_ready)") == {"": 2}, what="both jobs' metrics"
        )
        try:
            wait_until(all_fire, what="every alert of the ill job, and none of the other")
        except AssertionError as error:
            error.add_note(f"Only these fire: {sorted(found.firing())}")
            raise
        bad.start()
        stack.enter_context(reporting(bootstrap_servers, ports[2])).start()
        wait_until(none_fires, what="the end of every alert")
