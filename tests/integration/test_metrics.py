"""A running pipeline as a platform team watches it: Prometheus, probes, JSON logs, traces."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.running import COMMIT, ROLLBACK, Pipeline, Topics, wait_until

from checkback.deploy.ports import free_ports
from checkback.protocol.properties import text_value

ROOT = Path(__file__).parents[2]
PRINTED = ("WARNING: ", "OpenJDK ", "Picked up ", "Setting ", "To adjust logging ")
"""How lines begin that the JVM and Spark print without logging."""
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Prometheus:
    """A real Prometheus that reads the job's metrics with our rules."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, query: str) -> dict[str, float]:
        """Return the values of a query, by the value of its first label besides Prometheus' own."""
        given = urllib.parse.urlencode({"query": query})
        code, answer = fetch(f"{self.url}/api/v1/query?{given}")
        if code != 200:
            return {}  # it starts, or a busy machine let it wait for too long
        found = json.loads(answer)["data"]["result"]
        own = {"__name__", "instance", "job"}
        return {
            next((text for name, text in one["metric"].items() if name not in own), ""): float(
                one["value"][1]
            )
            for one in found
        }

    def last(self, name: str) -> dict[str, float]:
        """Return what a metric said last, also where the look after it did not come in time."""
        return self.ask(f"last_over_time({name}[15m])")

    def get(self, name: str) -> float:
        """Return the one value that a metric had last, 0 where there is none."""
        return next(iter(self.last(name).values()), 0.0)


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    config = folder / "prometheus.yml"
    document = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "500ms"},
        "rule_files": [str(ROOT / "deploy" / "prometheus" / "checkback.rules.yml")],
        "scrape_configs": [{"job_name": "checkback", "static_configs": [{"targets": [target]}]}],
    }
    config.write_text(json.dumps(document), "utf-8")
    (port,) = free_ports(1)
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(30)


def fetch(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
    try:
        answer = httpx.request(method, url, content=body, timeout=30)
    except httpx.TransportError as error:
        return 0, str(error)
    return answer.status_code, answer.text


def send_one_of_each(topics: Topics, real: str) -> None:
    committed = topics.send_half(b"committed", real, properties={"traceparent": TRACE})
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(topics.send_half(b"back", real, partition=1), "back", ROLLBACK)
    nowhere = topics.send_half(b"nowhere", f"{topics.prefix}missing")
    topics.send_op(nowhere, "nowhere", COMMIT)
    topics.send_half(b"silent", real, properties={"traceparent": TRACE})


@pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="prometheus is missing; `make programs` fetches it from Debian's package",
)
@pytest.mark.timeout(900)  # a busy machine answers late; each wait has a limit of its own
def test_prometheus_reads_what_a_running_pipeline_did(topics: Topics, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    settings = topics.settings(
        tmp_path / "checkpoint",
        metrics_port=port,
        log_format="json",
        log_level="INFO",
        log_file="-",
        check_interval_ms=1_000,
        check_max=3,
    )
    real, base = f"{topics.prefix}orders", f"http://127.0.0.1:{port}"
    topics.create(settings, [real], ["g"])

    with prometheus(tmp_path, f"127.0.0.1:{port}") as found, Pipeline(settings, tmp_path) as job:
        starts = (503, "the job starts\n")
        wait_until(lambda: fetch(f"{base}/readyz") == starts, what="an answer before Spark's")
        assert fetch(f"{base}/healthz")[0] == 200
        # An alert sees a counter rise, so its first value has to be there before.
        wait_until(lambda: found.last("checkback_refused_total"), what="that nothing is refused")
        wait_until(lambda: found.last("checkback_discarded_total"), what="nor discarded")
        started = job.wait_for("started")
        send_one_of_each(topics, real)
        wait_for_figures(found)
        wait_until(lambda: fetch(f"{base}/readyz")[0] == 200, what="that it is ready")
        fired = {"CheckbackMessagesRefused", "CheckbackDiscarded"}
        wait_until(lambda: fired <= found.ask('ALERTS{alertstate="firing"}').keys(), what="alerts")
        assert fetch(f"{base}/loglevel/spark", "PUT", b"INFO")[0] == 200
        assert fetch(f"{base}/loglevel/checkback", "PUT", b"DEBUG")[0] == 200
        batches = found.get("checkback_batches_total")
        topics.send_half(b"one more", real)
        wait_until(lambda: found.get("checkback_batches_total") > batches + 1, what="more")
        assert job.terminate() == 0
        job.wait_for_jvm()

    assert started["metrics_url"] == base
    assert_traced(topics, real)
    assert_logged((tmp_path / "run.err").read_text("utf-8"))


FIGURES = {
    "checkback_commit_messages_total": {"": 2},
    "checkback_rollback_messages_total": {"": 1},
    "checkback_final_messages_total": {"": 1},
    "checkback_refused_total": {"REAL_TOPIC_MISSING": 1},
    "checkback_discarded_total": {"check_limit": 1},
    "checkback_checks_total": {"sent": 3},
    "checkback_finish_message_latency_count": {"": 3},
    "checkback_half_messages": {},
    "checkback_oldest_pending_age_seconds": {},
    "checkback_state_rows": {"": 2},
}
"""What Prometheus has in the end of what `send_one_of_each` sends; where a figure is 0, nothing."""


def wait_for_figures(found: Prometheus) -> None:
    """Wait until Prometheus has what was sent; the last batch's figures may come in two looks."""
    try:
        wait_until(lambda: figures(found) == FIGURES, what="the figures")
    except AssertionError as error:
        error.add_note(f"They are {figures(found)}")
        raise
    # What members and brokers answer may change while a machine is busy.
    silent, ready = (
        f"max_over_time(checkback_{one}[15m])" for one in ("groups_without_members", "ready")
    )
    wait_until(lambda: found.ask(silent) == {"": 1}, what="a group without members")
    wait_until(lambda: found.ask(ready) == {"": 1}, what="readiness")
    lag = "sum(last_over_time(checkback_lag_records[15m]))"
    wait_until(lambda: found.ask(lag) == {"": 0}, what="no lag")
    assert found.get("checkback_state_bytes") > 100
    stages = found.last("checkback_batch_stage_seconds")
    assert stages["trigger_execution"] >= stages["add_batch"] > 0


def figures(found: Prometheus) -> dict[str, dict[str, float] | None]:
    """Return what Prometheus has for FIGURES, without zeros; None where it has nothing at all."""
    has = {name: found.last(name) for name in FIGURES}
    return {
        name: {label: value for label, value in one.items() if value} if one else None
        for name, one in has.items()
    }


def assert_traced(topics: Topics, real: str) -> None:
    """Both the final message and the check request carry on the trace of their half."""
    (final,) = topics.read(real)
    checks = [one for one in topics.read(topics.names.check("g")) if one.value() == b"silent"]

    assert text_value(final.headers() or [], "traceparent") == TRACE
    assert {text_value(one.headers() or [], "traceparent") for one in checks} == {TRACE}


def assert_logged(text: str) -> None:
    """Lines are JSON, Spark's too; each has the facts that it is about."""
    said = [line for line in text.splitlines() if line.startswith("{")]
    lines: list[dict[str, Any]] = [json.loads(line) for line in said]
    loggers = {line["logger"] for line in lines}
    plain = [line for line in text.splitlines() if not line.startswith("{")]
    (refused,) = (one["context"] for one in lines if one["msg"].startswith("Refused, "))
    written = [one for one in lines if one["msg"].startswith("A batch was written")]

    assert all({"ts", "level", "msg", "logger"} <= line.keys() for line in lines)
    assert {"checkback.sinks.outputs", "checkback.streaming.observation"} <= loggers
    assert any("spark" in name.lower() for name in loggers)
    assert (refused["transaction_id"], refused["reason"]) == ("nowhere", "REAL_TOPIC_MISSING")
    assert {"batch_id", "state_partition"} <= refused.keys()
    assert plain == [line for line in plain if line.startswith(PRINTED)]
    assert written
    assert all("batch_id" in one["context"] for one in written)
