"""A query of the bench: how it is started, and what its progress lines add up to."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

from checkback.bench.query import Query, told
from checkback.bench.stage import BenchSetting, Trial
from checkback.protocol.configuration import Settings

TELLING = """
import json, signal, sys, threading
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
for counts in ({"finals": 2, "checks": 1}, {"finals": 3}):
    print(json.dumps({"event": "progress", "counts": counts}), flush=True)
ended.wait()
"""


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    settings = Settings(bootstrap_servers="127.0.0.1:9", spark={"spark.ui.enabled": "false"})
    return BenchSetting(settings, tmp_path, 7, 64, broker_pid=123, machine={}).trial("one")


def test_a_query_is_started_with_the_trial_s_settings_and_its_own_event_log(trial: Trial) -> None:
    query = Query(trial, "job", program=["program"], options=["--seed", "7"])

    launch = query.prepare()

    [config] = trial.folder.glob("job/*.toml")
    written = tomllib.loads(config.read_text("utf-8"))
    assert written["topic_prefix"] == "one-"
    assert written["spark"]["spark.ui.enabled"] == "false"
    assert written["spark"]["spark.eventLog.dir"] == (trial.folder / "job" / "events").as_uri()
    assert list(launch.command)[:1] == ["program"]
    assert str(config) in launch.command
    assert list(launch.command)[-2:] == ["--seed", "7"]
    assert launch.broker_pid == 123
    assert launch.written == Path(trial.settings.checkpoint)


def test_settings_in_the_environment_do_not_reach_the_query(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_CHECK_MAX", "3")

    launch = Query(trial, "job", environment={"PYSPARK_PYTHON": "python"}).prepare()

    assert "CHECKBACK_CHECK_MAX" not in launch.environment
    assert launch.environment["PYSPARK_PYTHON"] == "python"


def test_counts_are_the_sums_of_the_progress_lines(trial: Trial) -> None:
    with Query(trial, "job", program=[sys.executable, "-c", TELLING]) as query:
        query.wait_until(lambda: len(query.progress()) == 2, 30)

        assert query.counts() == {"finals": 5, "checks": 1}
        assert query.batches() == []


def test_what_a_query_tells_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    told({"event": "started", "pid": 1})

    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"event": "started", "pid": 1}
