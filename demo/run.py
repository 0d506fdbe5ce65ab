"""Runs the demo: starts everything, waits until every transaction is settled, and audits."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from checkback.demo.audit import audit, collect_evidence
from checkback.demo.fates import REAL_TOPICS, Order
from checkback.demo.orders import OrderDatabase
from checkback.demo.report import DemoReport, Tally, Timeline, fate_lines
from checkback.deploy.settings import environment_without_settings, write_settings
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.testing.pipeline_process import QUICK_JVM, RUN, pipeline_command
from checkback.testing.processes import Child, Notice, told_exit
from checkback.testing.topics import create_plain_topics

PIPELINE: Final = "pipeline"
ORDER_SERVICE: Final = "order service"
RELAY: Final = "relay"
RETIRED_SERVICE: Final = "retired service"
DEMO: Final = "demo"

STARTED: Final = {
    PIPELINE: "runs with {state_partitions} state partitions",
    RELAY: "serves the partitions {partitions}",
}
NOTICES: Final = {
    "batch": "sends {orders} orders",
    "fatal_batch": "sends {orders} orders, to be killed with all of them open",
    "send_failed": "could not send {order_id}: {error}",
    "all_sent": "has sent all its orders and goes on answering checks",
}
"""What the timeline says of the processes' events."""
RELAY_PROGRAM: Final = (*RUN[:-1], "relay")
START_TIMEOUT_S: Final = 300.0
SETTLE_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.5
PAUSE_BEFORE_RESTART_S: Final = 1.0


@dataclass(slots=True)
class Demonstration:
    """One run of the demo, on a running Kafka.

    Args:
        data_dir: the folder of its files.
    """

    settings: Settings
    data_dir: Path
    orders: list[Order]
    seed: int
    timeline: Timeline
    kills: int = 0
    _config: Path = field(init=False)
    _database: Path = field(init=False)
    _tally: Tally = field(init=False)
    _inbox: SimpleQueue[Notice] = field(default_factory=SimpleQueue)
    _children: dict[str, Child] = field(default_factory=dict)
    _started: set[str] = field(default_factory=set)
    _delivered: int = 0

    def __post_init__(self) -> None:
        self._config = self.data_dir / "checkback.toml"
        self._database = self.data_dir / "orders.sqlite"
        self._tally = Tally(len(self.orders))

    def run(self) -> DemoReport:
        """Run the demo. When this returns or raises, every process that it started has ended.

        Raises:
            OperationalError: a process ended unexpectedly; the message says why.
            BrokerError: Kafka can't be reached.
        """
        with ExitStack() as ending:
            ending.callback(self._end_children)
            write_settings(self._config, self.settings)
            create_topics(self.settings)
            create_plain_topics(self.settings, REAL_TOPICS)
            database = OrderDatabase(self._database)
            database.create(self.orders)
            self.timeline.say(DEMO, f"planned {len(self.orders)} orders, created the topics")
            self._start_pipeline()
            if self.settings.relay:
                self._start_relay()
            self._start_service(RETIRED_SERVICE)
            self._start_service(ORDER_SERVICE)
            self._wait_until_settled()
            self._stop(ORDER_SERVICE)
            if self.settings.relay:
                self._stop(RELAY)
            self._stop(PIPELINE)
        return self._audited(database)

    def _start_pipeline(self) -> None:
        self._start(PIPELINE, pipeline_command(self._config))
        self.timeline.say(DEMO, "starts the pipeline: checkback run")
        self._wait_for_start(PIPELINE)
        self.timeline.say(DEMO, "until it ends, this shows it in a browser:")
        self.timeline.show_command(console_command(self._config))

    def _start_relay(self) -> None:
        self._start(RELAY, pipeline_command(self._config, RELAY_PROGRAM))
        self.timeline.say(DEMO, "starts a relay: checkback relay")
        self._wait_for_start(RELAY)

    def _wait_for_start(self, name: str) -> None:
        self._listen(lambda: name in self._started, START_TIMEOUT_S)
        if name not in self._started:
            raise self._children[name].failure(f"did not start within {START_TIMEOUT_S:.0f} s")

    def _start_service(self, name: str) -> None:
        is_retired = name == RETIRED_SERVICE
        command = [
            sys.executable, "-m", "checkback.demo.order_service",
            "--bootstrap-servers", self.settings.bootstrap_servers,
            "--database", str(self._database),
            "--group", GROUPS[is_retired],
        ]  # fmt: skip
        self._start(name, [*command, "--never-answered"] if is_retired else command)

    def _start(self, name: str, command: list[str]) -> None:
        log = self.data_dir / f"{name.replace(' ', '-')}.log"
        environment = environment_without_settings()
        self._children[name] = Child(name, command, log, self._inbox, environment)

    def _wait_until_settled(self) -> None:
        self._listen(lambda: self._tally.is_settled, SETTLE_TIMEOUT_S)
        if self._tally.is_settled:
            self.timeline.say(DEMO, "every transaction is settled")
        else:
            self.timeline.say(DEMO, f"timed out; {self._tally.state()}")

    def _listen(self, is_over: Callable[[], bool], timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not is_over() and time.monotonic() < deadline_s:
            try:
                self._take(self._inbox.get(timeout=POLL_S))
            except Empty:
                continue
            self.timeline.show_state(self._tally.state())

    def _take(self, notice: Notice) -> None:
        source, fields, tally = notice.source, notice.fields, self._tally
        if notice.event in NOTICES:
            self.timeline.say(source, NOTICES[notice.event].format_map(fields))
        match notice.event:
            case "started":
                self._started.add(source)
                self.timeline.say(source, STARTED[source].format_map(fields))
            case "progress":
                self._progressed(source, fields)
            case "ready":
                self._service_ready(source, fields["pid"])
            case "send_failed":
                tally.halves_expected -= 1
            case "check_answered":
                tally.answers[fields["answer"]] += 1
            case "payments_settled":
                tally.payments += fields["orders"]
            case "all_sent":
                tally.all_sent = True
            case "ended":
                self._process_ended(source, fields)

    def _progressed(self, source: str, fields: Mapping[str, Any]) -> None:
        if source == RELAY:
            self._say_delivered(fields.get("delivered", 0))
            return
        for who, text in (
            (ORDER_SERVICE, self._tally.answers_line()),
            (ORDER_SERVICE, self._tally.payments_line()),
            (source, self._tally.add_progress(fields)),
        ):
            if text:
                self.timeline.say(who, text)

    def _say_delivered(self, delivered: int) -> None:
        if delivered > self._delivered:
            self.timeline.say(RELAY, f"made {delivered - self._delivered} commits visible")
        self._delivered = delivered

    def _service_ready(self, source: str, pid: int) -> None:
        again = "again " if source in self._started else ""
        self._started.add(source)
        self.timeline.say(source, f"runs {again}(pid {pid})")

    def _process_ended(self, source: str, fields: Mapping[str, Any]) -> None:
        if self._children[source].pid != fields["pid"]:
            return
        if source in (PIPELINE, RELAY) or fields["exit_code"] != -signal.SIGKILL:
            raise self._children[source].failure(told_exit(fields["exit_code"]))
        self.kills += 1
        if source == RETIRED_SERVICE:
            self.timeline.say(source, "killed; its group never comes back")
            return
        self.timeline.say(source, "killed between half message and op")
        time.sleep(PAUSE_BEFORE_RESTART_S)
        self._start_service(source)

    def _stop(self, name: str) -> None:
        exit_code = self._children[name].stop()
        if exit_code != 0:
            raise self._children[name].failure(f"should have stopped but {told_exit(exit_code)}")
        self.timeline.say(name, "stopped")

    def _end_children(self) -> None:
        for child in reversed(self._children.values()):
            child.stop()

    def _audited(self, database: OrderDatabase) -> DemoReport:
        settings = self.settings
        self.timeline.say(DEMO, "reads the real topics and compares with the database")
        evidence = collect_evidence(settings.bootstrap_servers, settings.topics, GROUPS)
        truths = database.truths()
        return DemoReport(
            seed=self.seed,
            duration_s=round(self.timeline.elapsed_s, 1),
            kills=self.kills,
            fates=fate_lines(truths, evidence),
            findings=audit(truths, evidence),
            timeline=self.timeline.entries,
        )


GROUPS: Final = ("order-service", "retired-service")
"""The producer groups of the order service and of the service that never comes back."""

SHORT: Final[Mapping[str, Any]] = {
    "transaction_timeout_ms": 2_000,
    "check_interval_ms": 2_000,
    "check_max": 5,
    "progress_interval_ms": 1_000,
    "half_partitions": 2,
    "state_partitions": 2,
    "master": "local[2]",
    # The JVM's second compiler does not pay off within a minute; without it Spark starts in half
    # the time.
    "spark": {
        "driver.extraJavaOptions": QUICK_JVM,
        "ui.enabled": "false",
    },
}
"""What takes minutes in production takes seconds in the demo."""


def demo_settings(bootstrap_servers: str, data_dir: Path, *, relay: bool = False) -> Settings:
    """Return the settings of a run, with a relay or without."""
    return Settings(
        bootstrap_servers=bootstrap_servers,
        checkpoint=str(data_dir / "checkpoint"),
        relay=relay,
        **SHORT,
    )


def console_command(config: Path) -> str:
    """Return the command line that a person types to see the run in a browser."""
    return shlex.join([own_command(), "console", "--config", str(config)])


def own_command() -> str:
    """Return how a person starts Checkback here: in a checkout by path, unless a PATH has it."""
    started = Path(sys.argv[0])
    if started.name != "checkback" or shutil.which("checkback"):
        return "checkback"
    return os.path.relpath(started) if started.is_relative_to(Path.cwd()) else str(started)
