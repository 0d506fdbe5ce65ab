"""One relay as a process: its loop, rules of access control, health, metrics and stop."""

from __future__ import annotations

import gc
import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from checkback.metrics.health import Answer
from checkback.metrics.instruments import Instruments
from checkback.metrics.log_lines import LOGGER
from checkback.metrics.server import Endpoint, MetricsServer
from checkback.metrics.table import RELAY
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError, PrerequisiteError
from checkback.relay.reading import RecordRules
from checkback.relay.record_verifier import RecordVerifier
from checkback.relay.relay import Relay
from checkback.sinks.kafka.read.rule_source import rule_source
from checkback.sinks.kafka.read.rule_watch import RuleWatch

SILENT_S: Final = 60.0
"""A loop that takes longer than this hangs: each wait for the brokers is shorter."""
UNSERVED_S: Final = 30.0
YOUNG_OBJECTS: Final = 50_000
"""Objects made between two looks of Python's collector for cycles; a large group makes 45,000."""
Emit = Callable[[str, dict[str, Any]], None]


def require_relay(settings: Settings) -> None:
    """Refuse settings with which no relay may run.

    Raises:
        ConfigurationError: relay is not set, or the servers are not.
    """
    if not settings.relay:
        raise ConfigurationError(
            "relay is not set: the job would read the ops itself, and not the decided topic.",
            remedy="Set relay = true in the configuration of job and relay, and restart the job.",
            key="relay",
        )
    settings.connection()


@dataclass(slots=True)
class RelayHealth:
    """Answers health probes by what the loop has reported."""

    now_s: Callable[[], float] = time.monotonic
    _turned_s: float = field(default=float("-inf"))
    _served_s: float = field(default=float("-inf"))

    def turned(self, *, is_ready: bool) -> None:
        """Note that the loop has run once more."""
        self._turned_s = self.now_s()
        if is_ready:
            self._served_s = self._turned_s

    def alive(self) -> Answer:
        """Tell whether the loop runs."""
        age_s = self.now_s() - self._turned_s
        if SILENT_S < age_s < float("inf"):
            return Answer(False, f"the relay's loop has not run for {age_s:.0f} s")
        return Answer(True, "alive")

    def ready(self) -> Answer:
        """Tell whether the relay serves all its partitions."""
        age_s = self.now_s() - self._served_s
        if age_s == float("inf"):
            return Answer(False, "the relay starts, or waits for a start of the job")
        if age_s > UNSERVED_S:
            return Answer(False, f"the relay has not served its partitions for {age_s:.0f} s")
        return Answer(True, "ready")


@dataclass(slots=True)
class RelayProcess:
    """Runs a relay until a signal ends it.

    Args:
        emit: takes events and progress.
    """

    settings: Settings
    instance: int
    emit: Emit
    _stops: bool = False
    _health: RelayHealth = field(default_factory=RelayHealth)
    _instruments: Instruments = field(default_factory=lambda: Instruments(RELAY))
    _counted: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Run until SIGTERM or SIGINT.

        Raises:
            CheckbackError: the relay can't go on; its message says what to do.
        """
        watch = RuleWatch(rule_source(self.settings))
        watch.read()
        server = self._endpoint()
        with self._stopped_by_signals():
            relay = Relay(self.settings, self.instance, self._rules(watch))
            gc.set_threshold(YOUNG_OBJECTS)
            try:
                self._loop(relay, watch, server.url)
            finally:
                relay.close()
                server.close()
                watch.close()
        self.emit("stopped", {"instance": self.instance})

    def _loop(self, relay: Relay, watch: RuleWatch, url: str) -> None:
        progress_s, has_started = 0.0, False
        while not self._stops:
            relay.step()
            now_s = time.monotonic()
            self._health.turned(is_ready=relay.is_ready)
            if watch.take_new_rules():
                relay.use_rules(self._rules(watch))
                self.emit("access_rules_changed", {})
            if relay.is_ready and not has_started:
                has_started = True
                self.emit("started", {"instance": self.instance, "metrics": url,
                                      "partitions": sorted(relay.partitions)})  # fmt: skip
            if now_s >= progress_s:
                progress_s = now_s + self.settings.progress_interval_ms / 1_000
                self._report(relay, watch.problem)

    def _report(self, relay: Relay, problem: str) -> None:
        counts, measured = relay.counts, self._instruments
        now = {"groups": counts.groups, "failed": counts.failed, **counts.decided}
        for what, number in now.items():
            added = number - self._counted.get(what, 0)
            if what in ("groups", "failed"):
                measured.add(f"checkback_relay_{what}_total", added)
            else:
                measured.add("checkback_relay_ops_total", added, outcome=what.replace(" ", "_"))
        self._counted = dict(now)
        waiting, age_s = relay.backlog()
        measured.set("checkback_relay_waiting_ops", waiting)
        measured.set("checkback_relay_oldest_op_age_seconds", age_s)
        measured.set("checkback_relay_partitions", len(relay.partitions))
        measured.set("checkback_relay_memory_bytes", relay.memory_bytes)
        measured.set("checkback_relay_ready", self._health.ready().is_well)
        wrong = {"access_rules_problem": problem} if problem else {}
        progress = {"partitions": sorted(relay.partitions), "waiting": waiting, **now, **wrong}
        self.emit("progress", progress)

    def _rules(self, watch: RuleWatch) -> RecordRules:
        names, rules = self.settings.topics, watch.rules
        verifier = None if rules is None else RecordVerifier(rules, names)
        return RecordRules(names, self.settings.max_message_bytes, verifier)

    def _endpoint(self) -> MetricsServer:
        host, port = self.settings.metrics_address
        levels: Mapping[str, Callable[[str], None]] = {LOGGER: logging.getLogger(LOGGER).setLevel}
        try:
            health, registry = self._health, self._instruments.registry
            return MetricsServer(host, port, Endpoint(registry, health.alive, health.ready, levels))
        except OSError as error:
            raise PrerequisiteError(
                f"The metrics endpoint can't be opened on {host}:{port}: {error.strerror}.",
                remedy="Set metrics_port: job and relay on one machine need two.",
                port=port,
            ) from error

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        def stop(*_: object) -> None:
            self._stops = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                with suppress(ValueError):
                    signal.signal(number, handler)
