"""A pipeline that may not fence, and what the page of CheckbackFencesFailed says to do about it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AclBinding
from tests.integration.direct_sessions import GROUP, DirectSession
from tests.integration.guarded import ADMIN, Acls, bindings_of, guarded_broker, login, needed
from tests.integration.running import COMMAND, Pipeline, Topics, wait_until

from checkback.deploy.broker import free_ports

FAILED = "checkback_fences_failed_total"


def for_direct_delivery(topics: Topics) -> list[AclBinding]:
    """Return what `acl grants --pipeline` prints as optional and for direct delivery."""
    printed = subprocess.check_output(
        [
            COMMAND, "acl", "grants", "--pipeline", "--principal", "User:pipeline",
            "--topic", f"{topics.prefix}paid", "--topic-prefix", topics.prefix, "--output", "json",
        ],
        text=True,
    )  # fmt: skip
    grants: list[dict[str, Any]] = json.loads(printed)["grants"]
    commands = [one["command"] for one in grants if "deliver directly" in one["purpose"]]
    assert len(commands) == 2
    return [binding for one in commands for binding in bindings_of(one)]


@pytest.mark.nightly  # a broker with an authorizer of its own, for the page of one alert
def test_the_rights_that_the_page_names_let_a_half_be_given_up(tmp_path: Path) -> None:
    with guarded_broker(tmp_path / "broker", "pipeline") as broker:
        topics = Topics(broker.bootstrap_servers, "f.", half_partitions=1, kafka=login(ADMIN))
        [port] = free_ports(1)
        changes = {"application_id": topics.prefix, "kafka": login("pipeline"), "check_max": 1}
        settings = topics.settings(
            tmp_path / "checkpoint", state_partitions=1, metrics_port=port, **changes
        )
        real = f"{topics.prefix}paid"
        topics.create(topics.settings(state_partitions=1), [real], [GROUP])
        acls = Acls(broker.bootstrap_servers)
        asked_for = ("--pipeline", "--principal", "User:pipeline", "--group", GROUP)
        acls.give(needed(topics, ["paid"], *asked_for))
        DirectSession(topics).half(b"given up", real)

        with Pipeline(settings, tmp_path) as pipeline:
            log = Path(pipeline.wait_for("started")["log_file"])
            wait_until(lambda: failed(port) > 0, what="a fence that fails")
            assert "could not be fenced" in log.read_text("utf-8")
            assert topics.bodies(topics.names.discarded) == []
            acls.give(for_direct_delivery(topics))
            wait_until(
                lambda: topics.bodies(topics.names.discarded) == ["given up"], what="the discard"
            )
            assert pipeline.terminate() == 0


def failed(port: int) -> float:
    """Return how many fences have failed, as the job's metrics tell."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    lines = [line for line in text.splitlines() if line.startswith(f"{FAILED} ")]
    return float(lines[0].split()[1]) if lines else 0.0
