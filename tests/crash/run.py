"""A crash run: one broker, one checkpoint, one pipeline that is killed many times."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.crash.application import GROUP, Application
from tests.crash.audit import audit_at_end, audit_so_far, unsettled
from tests.crash.cases import (
    FENCING,
    NEEDS_NEW_PRODUCER,
    NEEDS_NEW_RELAY,
    STATE_PARTITIONS,
    Case,
)
from tests.crash.injected.crash_points import (
    FOLDER_VARIABLE,
    RELAY_VARIABLE,
    Control,
    kill,
    own_processes,
)
from tests.crash.truth import Fate
from tests.deciding import decided_op
from tests.integration.relay.relaying import relay_process
from tests.integration.running import Pipeline, Topics, wait_until

from checkback.deploy.broker import EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, OperationalError

INJECTED: Final = Path(__file__).with_name("injected")
REAL_TOPICS: Final = ("orders", "invoices", "mail")
HALF_PARTITIONS: Final = 4
SINK_TRANSACTION_TIMEOUT_MS: Final = 12_000
BROKER_PROPERTIES: Final = {
    # How often the broker looks for abandoned transactions; Kafka's default is 10 s.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"
}
REACHED_S: Final = 240.0
SETTLED_S: Final = 300.0
PAUSED_S: Final = 15.0
"""Longer than a relay's session: another relay has the partitions by then."""
FORGED_SHARE: Final = 0.05


def crash_environment(control: Path) -> dict[str, str]:
    """Return variables that make every Python process of a pipeline a possible victim."""
    paths = [str(INJECTED), os.environ.get("PYTHONPATH", "")]
    return {
        FOLDER_VARIABLE: str(control),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }


@dataclass(frozen=True, slots=True)
class Survived:
    """The result of a crash: what was on disk, and the time until every committed message was
    final."""

    case: Case
    facts: dict[str, Any]
    recovered_s: float

    def __str__(self) -> str:
        disk = f"offsets/{self.facts['planned']}, commits/{self.facts['committed']}"
        return f"{self.case}; on disk {disk}; recovered in {self.recovered_s:.1f} s"


@dataclass
class CrashRun:
    """A crash run; pipeline and application run inside its block.

    Args:
        broker: the broker, which is killed, too.
        folder: folder for checkpoint, logs and control files.
        prefix: prefix of the topics.
        seed: seed of the application.
        changes: changed settings of the pipeline.
        relays: how many relays run beside the job.
        per_second: transactions per second.
    """

    broker: EmbeddedBroker
    folder: Path
    prefix: str
    seed: int = 1
    changes: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    relays: int = 0
    per_second: int = 40
    restarted: int = 0

    def __post_init__(self) -> None:
        self.control = Control(self.folder / "control")
        self.control.folder.mkdir(parents=True)
        self.topics = Topics(self.broker.bootstrap_servers, self.prefix, HALF_PARTITIONS)
        self.settings = self._settings()
        real = [f"{self.prefix}{name}" for name in REAL_TOPICS]
        self.topics.create(self.settings, real, [GROUP])
        environment = {**crash_environment(self.control.folder), **self.environment}
        self.pipeline = Pipeline(self.settings, self.folder, environment)
        self.relay_processes = [
            relay_process(
                self.settings, self.folder / f"relay-{number}", number,
                {**environment, RELAY_VARIABLE: str(number)},
            )
            for number in range(self.relays)
        ]  # fmt: skip
        self.application = Application(
            self.broker.bootstrap_servers, self.topics.names, real, HALF_PARTITIONS, self.seed,
            self.per_second, FORGED_SHARE if self.relays else 0.0,
        )  # fmt: skip

    def __enter__(self) -> CrashRun:
        self.application.start()
        self.start_pipeline()
        if self.relays:
            self.pipeline.wait_for("started")
        for relay in self.relay_processes:
            relay.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.application.stop()
        kill(self.control, "machine", None)
        self.pipeline.wait()
        for relay in self.relay_processes:
            if relay.is_alive:
                relay.wait()

    def start_pipeline(self) -> None:
        self.pipeline.start()
        self._tell_processes()

    def start_relays(self) -> None:
        """Start the relays that do not run, as a supervisor does.

        A relay ends by itself only where brokers do not answer for too long.
        """
        for relay in self.relay_processes:
            if not relay.is_alive:
                code = relay.wait()
                assert code in (-signal.SIGKILL, BrokerError.exit_code), relay.errors()
                self.restarted += code == BrokerError.exit_code
                relay.start()

    def crash(self, case: Case) -> Survived:
        """Let the case happen, restart what does not restart itself, and audit.

        Everything that the application committed before the crash has to be final afterwards.
        """
        self.arm(case)
        facts = self.wait_for_crash(case)
        began = time.monotonic()
        before = set(self.application.snapshot()[0])
        self.heal(case)
        self.wait_until_final(before)
        self.require_sound()
        return Survived(case, facts, time.monotonic() - began)

    def arm(self, case: Case) -> None:
        if case.point.startswith(FENCING):
            kill(self.control, "machine", None)
            self.pipeline.wait()
        planned = self.control.last_batch("offsets")
        self.control.note("armed.json", json.dumps(case.armed(planned)))
        if case.point in NEEDS_NEW_PRODUCER and planned is not None:
            # A writer lives for many batches; only a new one initialises a producer.
            kill(self.control, "sink", case.state_partition)
        if not self.pipeline.is_alive:
            self.start_pipeline()
        if case.point in NEEDS_NEW_RELAY:
            self.relay_processes[case.state_partition or 0].kill()
        self.start_relays()

    def wait_for_crash(self, case: Case) -> dict[str, Any]:
        path = self.control.folder / f"fired-{case.name}.json"
        wait_until(lambda: path.exists() or not self.pipeline.is_alive, REACHED_S, str(case))
        assert path.exists(), f"{case}: ended before: {self.pipeline.errors()}"
        return dict(json.loads(path.read_text()))

    def heal(self, case: Case) -> None:
        """Restart the processes that nobody else restarts."""
        if "broker" in case.victims:
            self.broker.kill()
            self.broker.start()
        if case.ends_driver:
            exit_code = self.pipeline.wait(REACHED_S)
            if case.victims == ("jvm",):
                assert exit_code == OperationalError.exit_code, self.pipeline.errors()
                assert "JVM ended" in self.pipeline.errors()
            self.start_pipeline()
        if "paused relay" in case.victims:
            time.sleep(PAUSED_S)
            os.kill(self.relay_processes[case.state_partition or 0].pid, signal.SIGCONT)
        if "relay" in case.victims:
            self.relay_processes[case.state_partition or 0].wait()
        self._tell_processes()
        self.start_relays()

    def wait_until_final(self, positions: set[tuple[int, int]]) -> None:
        """Wait until those of the halves that were committed at once are final."""
        waiting = positions
        deadline = time.monotonic() + SETTLED_S
        while True:
            truth, evidence = self.application.snapshot()
            finals = {final.half for final in evidence.finals}
            waiting = {
                one for one in waiting if truth[one].fate is Fate.COMMITTED and one not in finals
            }
            if not waiting:
                return
            assert self.pipeline.is_alive, f"ended by itself: {self.pipeline.errors()}"
            self.start_relays()
            if time.monotonic() > deadline:
                self._tell_where_they_are()
                raise AssertionError(
                    f"never final: {sorted(waiting)[:5]}; see {self.folder}/run.err"
                )
            time.sleep(0.1)

    def require_sound(self) -> None:
        """Fail on errors that no later batch could repair."""
        findings = audit_so_far(*self.application.snapshot())
        assert not findings, findings[:10]

    def finish(self) -> None:
        """Stop sending, wait until everything is settled, stop the pipeline, and audit
        everything."""
        self.application.finish_sending()
        self.start_relays()
        wait_until(
            lambda: not unsettled(*self.application.snapshot()), SETTLED_S, "all to be settled"
        )
        for relay in self.relay_processes:
            assert relay.terminate() == 0, relay.errors()
        assert self.pipeline.terminate() == 0, self.pipeline.errors()
        findings = audit_at_end(*self.application.snapshot())
        assert not findings, findings[:10]

    def summary(self) -> str:
        """Return how many transactions were audited, and which way they became final."""
        truth, evidence = self.application.snapshot()
        kinds = self.decided() if self.relays else {}
        return (
            f"{len(truth)} transactions, {len(evidence.finals)} finals; ops: {dict(kinds)};"
            f" {self.restarted} relays ended for want of brokers"
        )

    def decided(self) -> Counter[str]:
        """Return how many ops relays decided, by kind."""
        records = self.topics.read(self.topics.names.decided)
        found = (decided_op(record.headers() or []) for record in records)
        return Counter(op.kind.value for op in found if op)

    def _tell_where_they_are(self) -> None:
        """Let every Python process write its threads' stacks to run.err."""
        for pid in own_processes(self.control.folder):
            if b"python" in Path("/proc", str(pid), "cmdline").read_bytes():
                os.kill(pid, signal.SIGUSR1)
        time.sleep(2)

    def _settings(self) -> Settings:
        return self.topics.settings(
            self.folder / "checkpoint",
            **{
                "state_partitions": STATE_PARTITIONS,
                # Small, so that every batch has pages for each state partition.
                "page_size": 32,
                "transaction_timeout_ms": 1_000,
                "check_max": 4,
                "sink_transaction_timeout_ms": SINK_TRANSACTION_TIMEOUT_MS,
                "relay": self.relays > 0,
                **self.changes,
            },
        )

    def _tell_processes(self) -> None:
        processes = {
            "driver": self.pipeline.pid,
            "broker": self.broker.pid,
            "checkpoint": str(self.folder / "checkpoint"),
        }
        self.control.note("processes.json", json.dumps(processes))
