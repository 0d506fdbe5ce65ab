"""Serves the running job's metrics, health and log levels."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from checkback.metrics.health import Health, batch_age_s_max
from checkback.metrics.instruments import Instruments
from checkback.metrics.log_lines import LOGGER, log_context, write_log_lines
from checkback.metrics.server import Endpoint, MetricsServer, SetLevel
from checkback.protocol.configuration import Settings
from checkback.sinks.kafka.transaction.errors import cause_of
from checkback.sinks.report import BatchReport
from checkback.streaming.reports.job_metrics import JobMetrics
from checkback.streaming.reports.progress import Progress, ProgressLine
from checkback.streaming.reports.unread import Unread

_log = logging.getLogger(__name__)

ANSWER_S_MAX: Final = 2.0
SPARK_LEVELS: Final = {"WARNING": "WARN"}
"""Spark's words for levels that have another name there."""


class Brokers:
    """Tells whether the brokers answer."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._admin: Any = None

    def why_unreached(self) -> str:
        """Ask the brokers; return what went wrong, "" if they answered."""
        try:
            if self._admin is None:
                self._admin = AdminClient(self._settings.connection())
            self._admin.describe_cluster(request_timeout=ANSWER_S_MAX).result(2 * ANSWER_S_MAX)
        except KafkaException as error:
            return cause_of(error).str()
        except TimeoutError:
            return f"no answer in {2 * ANSWER_S_MAX:g} s"
        return ""


class Observation:
    """Collects what the job reports, and answers scrapes and probes.

    Attributes:
        health: takes what concerns probes alone.
        metrics: takes what concerns metrics alone.
    """

    def __init__(self, settings: Settings, progress: Progress, now_ms: Callable[[], int]) -> None:
        self.log_level = settings.log_level
        self._settings = settings
        write_log_lines(settings.log_format, settings.log_level)
        instruments = Instruments()
        self.metrics = JobMetrics(instruments, settings, progress, now_ms)
        brokers = Brokers(settings)
        age_s_max = batch_age_s_max(settings.trigger_interval_ms)
        self.health = Health(age_s_max, brokers.why_unreached)
        instruments.watch("checkback_ready", lambda: float(self.health.ready().is_well))
        self._access_problem = ""
        self._levels: dict[str, SetLevel] = {LOGGER: self._set_level}
        self._server = _server(
            settings,
            Endpoint(instruments.registry, self.health.alive, self.health.ready, self._levels),
        )

    @property
    def url(self) -> str | None:
        """The endpoint's URL; None without one."""
        return None if self._server is None else self._server.url

    def started(self, set_spark_level: SetLevel) -> None:
        """Note that the query runs."""
        self._levels["spark"] = lambda level: set_spark_level(SPARK_LEVELS.get(level, level))
        self.health.started()

    def batch_written(self, batch_id: int, report: BatchReport, took_s: float) -> None:
        """Note that a batch was written, and what its tasks report."""
        self.health.batch_written()
        self.metrics.add_batch(report, took_s)
        with log_context(batch_id=batch_id):
            _log.debug("A batch was written in %.3f s", took_s)

    def unread_looked(self, unread: Iterable[Unread]) -> None:
        """Take what a look at the topics found unread."""
        found = list(unread)
        self.metrics.take_unread(found)
        waiting = ", ".join(of_topic.says() for of_topic in found if of_topic.records)
        self.health.looked(max((of_topic.still_s for of_topic in found), default=0.0), waiting)

    def line_told(self, asked: set[str], line: ProgressLine) -> None:
        """Note a progress line, and the groups that were asked since the one before."""
        self.metrics.take_groups(asked, line.groups_without_members, line.undelivered_groups)
        self.metrics.take_stalls(line.stalls)
        self.metrics.take_short_topics(len(line.short_topics))

    def rules_changed(self, facts: Mapping[str, Any]) -> None:
        """Log that other access rules are in force, for operators who read only the log."""
        _log.warning(
            "Access control is %s and was %s, by rules %s from batch %d on",
            facts["access_control"], facts["before"], facts["version"] or "none",
            facts["from_batch"],
        )  # fmt: skip

    def access_looked(self, problem: str) -> None:
        """Note what is wrong with the access rules, "" for nothing."""
        if problem == self._access_problem:
            return
        self._access_problem = problem
        self.metrics.take_access_problem(is_broken=bool(problem))
        if problem:
            _log.error("The access rules before stay in force: %s", problem)
        else:
            _log.info("The access rules are in order again")

    def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.close()

    def _set_level(self, level: str) -> None:
        # The sink's processes get it with their next batch.
        self.log_level = level  # type: ignore[assignment]  # the endpoint took one of the four
        write_log_lines(self._settings.log_format, level)


def _server(settings: Settings, endpoint: Endpoint) -> MetricsServer | None:
    """Open the endpoint; if that fails, log it and go on without one."""
    host, port = settings.metrics_address
    try:
        return MetricsServer(host, port, endpoint)
    except OSError as error:
        _log.warning(
            "There are no metrics: %s:%d can't be listened at (%s); set metrics_port to a free"
            " port.",
            host, port, error.strerror,
        )  # fmt: skip
        return None
