"""README.md's client example runs as it stands, twice, with a kill in between."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.shared_jvm import SharedJvm

from checkback.deploy.topics import create_topics
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.testing import Topics, wait_until

README = Path(__file__).parents[2] / "README.md"
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMITTED = "        return State.COMMIT_MESSAGE if is_new"
PRINT = "    print("


@pytest.fixture
def settings(bootstrap_servers: str, unique: str, tmp_path: Path) -> Settings:
    """The example's topic exists, as the README's own command makes it."""
    topics = Topics(bootstrap_servers, unique)
    found = topics.settings(tmp_path / "checkpoint")
    create_topics(found, [f"{unique}paid"])
    return found


def example(settings: Settings) -> str:
    """The README's code on this test's broker and topics; nothing else differs."""
    code, _ = PYTHON_BLOCK.findall(README.read_text("utf-8"))
    prefix = settings.topic_prefix
    changes = {
        'bootstrap_servers="localhost:9092"': (
            f'bootstrap_servers="{settings.bootstrap_servers}", topic_prefix="{prefix}"'
        ),
        '"order-service"': f'"{prefix}group"',
        'Message("paid"': f'Message("{prefix}paid"',
    }
    for written, instead in changes.items():
        assert written in code
        code = code.replace(written, instead)
    return str(code)


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


def started(code: str, folder: Path) -> subprocess.Popen[str]:
    """Start the code, which may wait for the end of its input."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_client_example_sends_a_half_and_commits_it(settings: Settings, tmp_path: Path) -> None:
    ran = run(example(settings), tmp_path)
    assert ran.returncode == 0, ran.stderr
    state, transaction_id = ran.stdout.split()
    topics = Topics(settings.bootstrap_servers, settings.topic_prefix)
    (half,) = topics.read(settings.topics.half)
    (op,) = topics.read(settings.topics.op)

    assert state == "COMMIT_MESSAGE"
    assert names.text_value(half.headers() or [], names.UNIQ_KEY) == transaction_id
    assert (half.value(), half.key()) == (b"42 EUR", b"order-1")
    assert (op.partition(), int(op.value() or b"")) == (half.partition(), half.offset())
    assert names.text_value(op.headers() or [], names.COMMIT_OR_ROLLBACK) == "8"


def test_the_client_example_sends_once_what_runs_twice_with_a_kill_in_between(
    settings: Settings, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """Its check looked the order up: a second run found the first one's, and sent it again."""
    topics = Topics(settings.bootstrap_servers, settings.topic_prefix)
    code, real = example(settings), f"{settings.topic_prefix}paid"
    assert code.count(COMMITTED) == 1
    killed = code.replace(COMMITTED, f"        import os; os._exit(9)\n{COMMITTED}")
    patient = code.replace(PRINT, f"    import sys; sys.stdin.read()\n{PRINT}")

    assert run(killed, tmp_path).returncode == 9
    with shared_jvm.pipeline(settings, tmp_path / "pipeline") as pipeline:
        pipeline.wait_for("started")
        with started(patient, tmp_path) as second:  # it answers the check of the first run's half
            wait_until(lambda: topics.bodies(real) == ["42 EUR"], what="the first run's message")
            said, _ = second.communicate(timeout=60)
        third = run(code, tmp_path)
        pipeline.wait_for("progress")
        wait_until(lambda: pipeline.wait_for("progress")["pending"] == 0, what="all settled")
        assert pipeline.terminate() == 0

    assert [one.split()[0] for one in (said, third.stdout)] == ["ROLLBACK_MESSAGE"] * 2
    assert topics.bodies(real) == ["42 EUR"]
