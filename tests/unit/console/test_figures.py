"""Figures: from checkpoint and metrics to snapshots, rates and plots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.console.console_stage import NOW_MS, make_stage

from checkback.checkpoints.files import OUR_FOLDER
from checkback.checkpoints.own_files.running import told_as_running
from checkback.console import overview as figures
from checkback.console.overview import (
    Snapshot,
    announced_metrics,
    batch_times_ms,
    figures_of,
    parse_samples,
    rates_of,
    read_samples,
)
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import PrerequisiteError

TEXT = """\
# TYPE checkback_records_read_total counter
checkback_records_read_total{kind="halves"} 1100
checkback_records_read_total{kind="commits"} 1000
# TYPE checkback_half_messages gauge
checkback_half_messages 41
# TYPE checkback_lag_records gauge
checkback_lag_records{topic="half"} 7
checkback_lag_records{topic="op"} 2
# TYPE checkback_oldest_unread_age_seconds gauge
checkback_oldest_unread_age_seconds{topic="half"} 75
checkback_oldest_unread_age_seconds{topic="op"} 3
# TYPE checkback_last_batch_timestamp_seconds gauge
checkback_last_batch_timestamp_seconds 1.0e6
# TYPE checkback_oldest_pending_age_seconds gauge
checkback_oldest_pending_age_seconds 12.5
# TYPE checkback_commit_messages_total counter
checkback_commit_messages_total 1000
# TYPE checkback_refused_total counter
checkback_refused_total{reason="OP_WITHOUT_HALF"} 3
checkback_refused_total{reason="NOT_A_HALF"} 4
# TYPE checkback_batch_write_seconds histogram
checkback_batch_write_seconds_bucket{le="+Inf"} 10
checkback_batch_write_seconds_sum 5.5
checkback_batch_write_seconds_count 10
"""


def test_the_metrics_become_a_snapshot() -> None:
    told = figures_of(parse_samples(TEXT), 1_000_090_000)

    assert (told["pending"], told["oldest_age_ms"]) == (41, 12_500)
    assert told["totals"] == {"prepared": 1100, "committed": 1000, "refused": 7}
    assert told["refused"] == {"OP_WITHOUT_HALF": 3, "NOT_A_HALF": 4}
    assert told["batch_s"] == (5.5, 10)
    assert (told["lag"], told["oldest_unread_ms"], told["batch_age_ms"]) == (9, 75_000, 90_000)


def test_before_its_first_batch_a_job_has_no_last_one() -> None:
    text = (
        TEXT.replace("1.0e6", "0").replace(" 75\n", " NaN\n").replace(" 3\n# TYPE", " NaN\n# TYPE")
    )
    told = figures_of(parse_samples(text), 1_000_090_000)

    assert (told["oldest_unread_ms"], told["batch_age_ms"]) == (None, None)


STARTING = TEXT.replace(" 41\n", " NaN\n").replace(" 12.5\n", " NaN\n")
"""As a job answers that has not read its checkpoint yet."""


def test_while_a_job_starts_the_checkpoint_says_what_is_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "_answer", lambda _: STARTING)

    both = make_stage(tmp_path, metrics_url="http://metrics").snapshots.read()

    assert (both.pending, both.oldest_age_ms) == (11, 13 * 60_000)
    assert both.totals["committed"] == 1_000


def test_a_missing_endpoint_is_told() -> None:
    for url in ("http://127.0.0.1:1/metrics", "file:///etc/passwd"):
        with pytest.raises(PrerequisiteError, match="No metrics came from"):
            read_samples(url)


def test_the_running_job_is_newer_than_its_checkpoint_and_missing_sources_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "_answer", lambda _: TEXT)
    stage = make_stage(tmp_path, metrics_url="http://metrics")
    both = stage.snapshots.read()
    assert (both.pending, both.totals["committed"], both.missing) == (41, 1_000, ())

    alone = replace(stage.snapshots, metrics_url="").read()
    assert (alone.pending, alone.oldest_age_ms, alone.totals) == (11, 13 * 60_000, {})
    assert [one.what for one in alone.missing] == ["metrics"]


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({"metrics_port": 9404}, "http://127.0.0.1:9404/metrics"),
        ({"metrics_port": 9404, "metrics_host": "::"}, "http://127.0.0.1:9404/metrics"),
        ({"metrics_port": 9404, "metrics_host": "driver"}, "http://driver:9404/metrics"),
        ({"metrics_port": 9404, "metrics_host": "fe80::1"}, "http://[fe80::1]:9404/metrics"),
        ({}, ""),
    ],
)
def test_the_settings_say_where_the_metrics_are(changes: dict[str, Any], url: str) -> None:
    assert announced_metrics(Settings(**changes)) == url


def test_a_running_pipeline_says_where_its_metrics_are(tmp_path: Path) -> None:
    """Without a setting: the overview of a plain run was seven dashes."""
    (tmp_path / OUR_FOLDER).mkdir()
    settings = Settings(checkpoint=str(tmp_path))
    with told_as_running(tmp_path, "http://0.0.0.0:40404"):
        assert announced_metrics(settings) == "http://127.0.0.1:40404/metrics"
        with told_as_running(tmp_path, "http://127.0.0.1:50505"):  # a younger one
            assert announced_metrics(settings) == "http://127.0.0.1:50505/metrics"
    assert announced_metrics(settings) == "", "what an ended one announced is no address"


def snapshot(second: int, committed: float, batch_s: tuple[float, float] | None) -> Snapshot:
    totals = {"committed": committed}
    return Snapshot(NOW_MS + second * 1_000, "orders", totals=totals, batch_s=batch_s)


def test_rates_and_batch_times_are_those_between_two_snapshots() -> None:
    kept = [
        snapshot(0, 100, (1.0, 10)),
        snapshot(2, 300, (2.0, 14)),
        snapshot(4, 300, (2.0, 14)),
        snapshot(6, 5, None),
    ]

    assert [value for _, value in rates_of(kept, "committed")] == [100.0, 0.0, None]
    assert [value for _, value in batch_times_ms(kept)] == [250.0, 250.0, None]
