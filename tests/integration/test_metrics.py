"""A running pipeline as a platform team watches it: Prometheus, probes, JSON logs, traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.running import COMMIT, ROLLBACK, Pipeline, Topics, wait_until
from tests.integration.scraping import NEEDS_PROMETHEUS, Prometheus, fetch, prometheus

from checkback.deploy.broker import free_ports
from checkback.protocol.properties import CHECK_IMMUNITY_TIME_IN_SECONDS, text_value

PRINTED = ("WARNING: ", "OpenJDK ", "Picked up ", "Setting ", "To adjust logging ")
"""How lines begin that the JVM and Spark print without logging."""
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def send_one_of_each(topics: Topics, real: str) -> None:
    committed = topics.send_half(b"committed", real, properties={"traceparent": TRACE})
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(topics.send_half(b"back", real, partition=1), "back", ROLLBACK)
    nowhere = topics.send_half(b"nowhere", f"{topics.prefix}missing")
    topics.send_op(nowhere, "nowhere", COMMIT)
    topics.send_half(b"silent", real, properties={"traceparent": TRACE})


FIRED = {
    "CheckbackDown", "CheckbackNotReady", "CheckbackOldestPending", "CheckbackNoLiveMember",
    "CheckbackMessagesRefused", "CheckbackDiscarded",
}  # fmt: skip
"""What fires at least: before the start, while it lasts, of what `send_one_of_each` sends, and of
a half that is not asked about for long."""


def assert_alerts_fire_and_end(topics: Topics, real: str, found: Prometheus) -> None:
    """Leave a half pending for too long, until the alerts fired; decide it, until none fires."""
    slow = topics.send_half(b"slow", real, properties={CHECK_IMMUNITY_TIME_IN_SECONDS: "3600"})
    try:
        wait_until(lambda: found.fired() >= FIRED, what="alerts")
    except AssertionError as error:
        error.add_note(f"Only these fired: {found.fired()}")
        raise
    topics.send_op(slow, "slow", ROLLBACK)
    wait_until(lambda: found.last("up") and not found.firing(), what="the end of every alert")


@NEEDS_PROMETHEUS
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

    with prometheus(tmp_path, [f"127.0.0.1:{port}"], minute_ms=200) as found:
        wait_until(lambda: found.firing() == {"CheckbackDown"}, what="an alert before the start")
        with Pipeline(settings, tmp_path) as job:
            starts = (503, "the job starts\n")
            wait_until(lambda: fetch(f"{base}/readyz") == starts, what="an answer before Spark's")
            assert fetch(f"{base}/healthz")[0] == 200
            # An alert sees a counter rise, so its first value has to be there before.
            wait_until(
                lambda: found.last("checkback_refused_total"), what="that nothing is refused"
            )
            wait_until(lambda: found.last("checkback_discarded_total"), what="nor discarded")
            started = job.wait_for("started")
            send_one_of_each(topics, real)
            wait_for_figures(found)
            wait_until(lambda: fetch(f"{base}/readyz")[0] == 200, what="that it is ready")
            assert fetch(f"{base}/loglevel/spark", "PUT", b"INFO")[0] == 200
            assert fetch(f"{base}/loglevel/checkback", "PUT", b"DEBUG")[0] == 200
            batches = found.get("checkback_batches_total")
            assert_alerts_fire_and_end(topics, real, found)
            # Where all alerts had fired before, half and op may come in one batch, not read yet.
            wait_until(lambda: found.get("checkback_batches_total") > batches, what="a batch")
            assert job.terminate() == 0
            job.wait_for_jvm()
        wait_until(lambda: found.firing() == {"CheckbackDown"}, what="an alert after its end")

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
    assert {
        "checkback.sinks.partition.records_to_send",
        "checkback.streaming.reports.observation",
    } <= loggers
    assert any("spark" in name.lower() for name in loggers)
    assert (refused["transaction_id"], refused["reason"]) == ("nowhere", "REAL_TOPIC_MISSING")
    assert {"batch_id", "state_partition"} <= refused.keys()
    assert plain == [line for line in plain if line.startswith(PRINTED)]
    assert written
    assert all("batch_id" in one["context"] for one in written)
