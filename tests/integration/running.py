"""Parts for tests of the whole pipeline: those of `checkback.testing`, and the command."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.programs import COMMAND, output_of

from checkback.commands.shared.app import NOUNS, LazyGroup, execute
from checkback.deploy.admin import admin_client
from checkback.protocol.configuration import Settings
from checkback.testing import PipelineProcess as Pipeline
from checkback.testing import Topics, wait_until
from checkback.testing.pipeline_process import QUICK_JVM, QUICK_SPARK
from checkback.testing.topics import COMMIT, ROLLBACK, UNKNOWN

SPARK = "pyspark,py4j,pandas"
LIGHT = """
import sys
from checkback.commands import main
heavy = set(sys.argv.pop(1).split(","))
sys.argv[0] = "checkback"
try:
    main()
finally:
    assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
"""

__all__ = [
    "COMMAND", "COMMIT", "QUICK_JVM", "QUICK_SPARK", "ROLLBACK", "SPARK", "UNKNOWN", "Pipeline",
    "Topics", "commit", "deployed", "executed", "features", "left_open", "printed_without",
    "require_share_groups", "wait_until",
]  # fmt: skip


def deployed(topics: Topics, folder: Path, **changes: Any) -> tuple[Settings, str]:
    """Make a deployment's topics; return its settings, and its real topic."""
    settings = topics.settings(folder / "checkpoint", **changes)
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    return settings, real


def commit(topics: Topics, real: str, *bodies: str, partition: int = 0) -> None:
    """Send transactions that commit."""
    for body in bodies:
        at = topics.send_half(body.encode(), real, partition=partition)
        topics.send_op(at, body, COMMIT)


def left_open(connection: Mapping[str, Any], name: str, topic: str, partition: int = 0) -> Producer:
    """Return a producer of that transactional id, whose transaction is open on a partition."""
    producer = Producer({**connection, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"of an open transaction", partition=partition)
    producer.flush(30)
    return producer


def executed(words: Sequence[str]) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, its output and its errors."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = execute(LazyGroup(NOUNS), words)
    return code, out.getvalue(), errors.getvalue()


def printed_without(heavy: str, *words: str) -> str:
    """Run a command that has to succeed without these modules; return what it prints.

    What imports Spark starts a JVM with it, and people wait for ten seconds.
    """
    return output_of(LIGHT, heavy, *words)


def features(bootstrap_servers: str) -> dict[str, int]:
    """Return the features that the brokers have agreed on, with their levels."""
    with admin_client(bootstrap_servers, {}) as admin:
        found = admin.describe_features()
    return {name: one["finalized"][1] for name, one in sorted(found.items()) if "finalized" in one}


def require_share_groups(bootstrap_servers: str) -> None:
    """Skip the test where the brokers have no share groups."""
    if not features(bootstrap_servers).get("share.version"):
        pytest.skip("these brokers have no share groups")
