"""README.md's example and the listener in docs/sending.md run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.shared_jvm import SharedJvm
from tests.programs import run_python

from checkback.deploy.topics import create_topics
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.testing import Topics, wait_until

README = Path(__file__).parents[2] / "README.md"
SENDING = Path(__file__).parents[2] / "docs" / "sending.md"
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMITTED = "        return State.COMMIT_MESSAGE if is_new"
PRINT = "    print("


@pytest.fixture
def settings(bootstrap_servers: str, unique: str, tmp_path: Path) -> Settings:
    """The example's topic exists, as the README's own command makes it."""
    topics = Topics(bootstrap_servers, unique)
    found = topics.settings(tmp_path / "checkpoint")
    create_topics(found, [f"{unique}paid", f"{unique}audit"])
    return found


def example(code: str, settings: Settings) -> str:
    """A document's code on this test's broker and topics; nothing else differs."""
    prefix = settings.topic_prefix
    assert 'bootstrap_servers="localhost:9092"' in code
    changes = {
        'bootstrap_servers="localhost:9092"': (
            f'bootstrap_servers="{settings.bootstrap_servers}", topic_prefix="{prefix}"'
        ),
        '"order-service"': f'"{prefix}group"',
        'Message("paid"': f'Message("{prefix}paid"',
        'send("paid"': f'send("{prefix}paid"',
        'send("audit"': f'send("{prefix}audit"',
    }
    for written, instead in changes.items():
        code = code.replace(written, instead)
    return code


def blocks(document: Path) -> list[str]:
    return PYTHON_BLOCK.findall(document.read_text("utf-8"))


def started(code: str, folder: Path) -> subprocess.Popen[str]:
    """Start the code, which may wait for the end of its input."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_example_commits_both_messages(settings: Settings, tmp_path: Path) -> None:
    code, _consumer = blocks(README)
    ran = run_python(example(code, settings), cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    transaction_id = ran.stdout.strip()
    topics = Topics(settings.bootstrap_servers, settings.topic_prefix)
    halves = {
        names.text_value(half.headers() or [], names.UNIQ_KEY): half
        for half in topics.read(settings.topics.half)
    }
    ops = topics.read(settings.topics.op)

    half = halves[transaction_id]
    assert (half.value(), half.key()) == (b'{"order":1,"amount":42}', b"order-1")
    assert {names.text_value(op.headers() or [], names.UNIQ_KEY) for op in ops} == halves.keys()
    states = [names.text_value(op.headers() or [], names.COMMIT_OR_ROLLBACK) for op in ops]
    assert states == ["8", "8"]


@pytest.mark.nightly  # by day tests/unit/client/test_sending_document.py runs the page's code
def test_the_listener_sends_once_what_runs_twice_with_a_kill_in_between(
    settings: Settings, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """Its check looked the order up: a second run found the first one's, and sent it again."""
    topics = Topics(settings.bootstrap_servers, settings.topic_prefix)
    *_, listener = blocks(SENDING)
    code, real = example(listener, settings), f"{settings.topic_prefix}paid"
    assert code.count(COMMITTED) == 1
    killed = code.replace(COMMITTED, f"        import os; os._exit(9)\n{COMMITTED}")
    patient = code.replace(PRINT, f"    import sys; sys.stdin.read()\n{PRINT}")

    assert run_python(killed, cwd=tmp_path).returncode == 9
    with shared_jvm.pipeline(settings, tmp_path / "pipeline") as pipeline:
        pipeline.wait_for("started")
        with started(patient, tmp_path) as second:  # it answers the check of the first run's half
            wait_until(lambda: topics.bodies(real) == ["42 EUR"], what="the first run's message")
            said, _ = second.communicate(timeout=60)
        third = run_python(code, cwd=tmp_path)
        pipeline.wait_for("progress")
        wait_until(lambda: pipeline.wait_for("progress")["pending"] == 0, what="all settled")
        assert pipeline.terminate() == 0

    assert [one.split()[0] for one in (said, third.stdout)] == ["ROLLBACK_MESSAGE"] * 2
    assert topics.bodies(real) == ["42 EUR"]
