"""Parts for tests of the whole pipeline: those of `checkback.testing`, and the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checkback.deploy.admin import admin_client
from checkback.testing import PipelineProcess as Pipeline
from checkback.testing import Topics, wait_until
from checkback.testing.pipeline_process import QUICK_JVM, QUICK_SPARK
from checkback.testing.topics import COMMIT, ROLLBACK, UNKNOWN

COMMAND = str(Path(sys.executable).parent / "checkback")
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
    "Topics",
    "features", "printed_without", "require_share_groups", "wait_until",
]  # fmt: skip


def printed_without(heavy: str, *words: str) -> str:
    """Run a command that has to succeed without these modules; return what it prints.

    What imports Spark starts a JVM with it, and people wait for ten seconds.
    """
    program = [sys.executable, "-c", LIGHT, heavy, *words]
    return subprocess.run(program, check=True, capture_output=True, text=True, timeout=120).stdout


def features(bootstrap_servers: str) -> dict[str, int]:
    """Return the features that the brokers have agreed on, with their levels."""
    with admin_client(bootstrap_servers, {}) as admin:
        found = admin.describe_features()
    return {name: one["finalized"][1] for name, one in sorted(found.items()) if "finalized" in one}


def require_share_groups(bootstrap_servers: str) -> None:
    """Skip the test where the brokers have no share groups."""
    if not features(bootstrap_servers).get("share.version"):
        pytest.skip("these brokers have no share groups")
