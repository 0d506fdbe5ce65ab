"""A running job whose brokers can't end a transaction, because a third broker is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.deciding import plain_half
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until
from tests.integration.sinking import create_listed

from checkback.deploy.broker import free_ports
from checkback.protocol.records import Op
from checkback.testing.broker import Cluster

PROPERTIES = {"replica.lag.time.max.ms": "1500", "broker.session.timeout.ms": "3000"}
WAITS = "waits until the brokers can end its last transaction"
BACKLOG = 30_000
"""To write them takes seconds without the compiled part; in these the broker can be killed."""
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1_200)]


@dataclass
class Outage:
    """A cluster, a topic that has no leader without broker 1, and one that does not miss it."""

    cluster: Cluster
    topics: Topics
    lone: str
    healthy: str

    @property
    def finals(self) -> list[str]:
        return self.topics.bodies(self.lone) + self.topics.bodies(self.healthy)

    def commit(self, number: int) -> list[str]:
        """Write halves for both topics in turn and their commits, the first to these topics."""
        bodies = [f"{at:06}" for at in range(number)]
        names = self.topics.names
        producer = Producer({**self.topics.connection, "enable.idempotence": True, "linger.ms": 20})

        def write(topic: str, key: bytes | None, value: bytes, headers: Any) -> None:
            producer.produce(topic, value, key, 0, headers=headers)
            producer.poll(0)

        for at, body in enumerate(bodies):
            real = (self.lone, self.healthy)[at % 2]
            headers = plain_half(body, real)
            write(names.half, None, body.encode(), headers)
        assert producer.flush(60) == 0
        for at, body in enumerate(bodies):
            op = Op(0, at, "g", body, COMMIT)
            write(names.op, op.key(), op.value(), op.headers())
        assert producer.flush(60) == 0
        return bodies

    def begin_under(self, job: Pipeline) -> None:
        """Kill the broker while a transaction that wrote to its topic is open."""
        admin = AdminClient(self.topics.connection)
        wait_until(lambda: self._is_open(admin), 120, "an open transaction")
        self.cluster.broker(1).kill()
        wait_until(lambda: job.wait_for("progress")["short_topics"], 240, "a line that names it")

    def _is_open(self, admin: Any) -> bool:
        place = TopicPartition(self.lone, 0)
        asked = {place: OffsetSpec.latest()}
        open_end = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        end = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        return bool(open_end[place].result().offset > end[place].result().offset)

    def audit(self, committed: list[str]) -> None:
        """Every committed message is there once: as a final, or refused for the lost broker."""

        def found() -> list[str]:
            refused = self.topics.bodies(self.topics.names.refused)
            return sorted(self.finals + refused)

        wait_until(lambda: {*committed} <= {*found()}, 240, "all that was committed")
        assert len(found()) == len({*found()})
        assert {*self.topics.reasons()} <= {"REAL_TOPIC_UNAVAILABLE"}


@pytest.fixture
def outage(tmp_path: Path) -> Iterator[Outage]:
    with Cluster(tmp_path / "brokers", properties=PROPERTIES, heap_mb=256) as cluster:
        topics = Topics(cluster.bootstrap_servers, "lost-")
        lone, healthy = "lost-lone", "lost-orders"
        topics.create(real=[healthy], groups=["g"])
        placed: Any = [[1]]  # its stub wants text
        admin = AdminClient(topics.connection)
        create_listed(admin, NewTopic(lone, 1, replica_assignment=placed))
        yield Outage(cluster, topics, lone, healthy)


def job_over(outage: Outage, folder: Path, **changes: Any) -> Pipeline:
    # Nothing is asked or discarded meanwhile: this is about what was committed.
    patient = {"transaction_timeout_ms": 3_600_000, "log_file": "-", "native_sink": False}
    changes = {**patient, **changes}
    return Pipeline(outage.topics.settings(folder / "checkpoint", **changes), folder / "run")


def lines_that_wait(job: Pipeline) -> int:
    return (job.folder / "run.err").read_text("utf-8", "replace").count(WAITS)


def test_a_job_waits_for_lost_replicas_and_goes_on_by_itself(
    outage: Outage, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    base = f"http://127.0.0.1:{port}"
    committed = outage.commit(BACKLOG)
    with job_over(outage, tmp_path, metrics_port=port) as job:
        outage.begin_under(job)

        # It used to end with the first try that failed, after a minute.
        wait_until(lambda: lines_that_wait(job) >= 3, 300, "a job that waits on")
        assert job.is_alive
        [short] = job.wait_for("progress")["short_topics"]
        assert short == {"topic": outage.lone, "shortage": "partition 0 has no leader"}
        assert httpx.get(f"{base}/readyz", timeout=30).status_code == 503
        assert httpx.get(f"{base}/healthz", timeout=30).status_code == 200
        assert "checkback_short_topics 1.0" in httpx.get(f"{base}/metrics", timeout=30).text

        outage.cluster.broker(1).restart()
        outage.audit(committed)
        wait_until(lambda: httpx.get(f"{base}/readyz", timeout=30).status_code == 200, 120)
        wait_until(lambda: not job.wait_for("progress")["short_topics"], 120, "a line without it")
        assert job.terminate() == 0


def test_a_job_that_waits_for_lost_replicas_ends_in_time_and_the_next_start_waits_too(
    outage: Outage, tmp_path: Path
) -> None:
    committed = outage.commit(BACKLOG)
    with job_over(outage, tmp_path) as job:
        outage.begin_under(job)

        assert job.terminate(150) == 0  # what deploy/ grants

        before = lines_that_wait(job)
        job.start()
        wait_until(lambda: lines_that_wait(job) >= before + 2, 300, "a start that waits")
        assert job.is_alive
        outage.cluster.broker(1).restart()
        job.wait_for("started", 240)
        outage.audit(committed)
        assert job.terminate() == 0
