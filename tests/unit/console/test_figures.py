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
    DRAWN_MAX,
    History,
    MetricSamples,
    Snapshot,
    announced_metrics,
    batch_times_ms,
    figures_of,
    nice_top,
    number_text,
    plot,
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
    told = figures_of(MetricSamples.parse(TEXT), 1_000_090_000)

    assert (told["pending"], told["oldest_age_ms"]) == (41, 12_500)
    assert told["totals"] == {"prepared": 1100, "committed": 1000, "refused": 7}
    assert told["refused"] == {"OP_WITHOUT_HALF": 3, "NOT_A_HALF": 4}
    assert told["batch_s"] == (5.5, 10)
    assert (told["lag"], told["oldest_unread_ms"], told["batch_age_ms"]) == (9, 75_000, 90_000)


def test_before_its_first_batch_a_job_has_no_last_one() -> None:
    text = (
        TEXT.replace("1.0e6", "0").replace(" 75\n", " NaN\n").replace(" 3\n# TYPE", " NaN\n# TYPE")
    )
    told = figures_of(MetricSamples.parse(text), 1_000_090_000)

    assert (told["oldest_unread_ms"], told["batch_age_ms"]) == (None, None)


STARTING = TEXT.replace(" 41\n", " NaN\n").replace(" 12.5\n", " NaN\n")
"""As a job answers that has not read its checkpoint yet."""


def test_while_a_job_starts_the_checkpoint_says_what_is_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "_answer", lambda _: STARTING)

    both = make_stage(tmp_path, metrics_url="http://metrics").sources.snapshots.read()

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
    both = stage.sources.snapshots.read()
    assert (both.pending, both.totals["committed"], both.missing) == (41, 1_000, ())

    alone = replace(stage.sources.snapshots, metrics_url="").read()
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


def test_the_history_keeps_the_newest_and_plots_them() -> None:
    history = History()
    assert (history.latest, [one.lines for one in history.plots()]) == (None, [()] * 7)
    for second in range(4_000):
        history.add(snapshot(second, second * 5, None))

    assert (len(history.snapshots()), history.taken) == (1_800, 4_000)
    committed = next(one for one in history.plots() if one.title == "Committed")
    assert (committed.latest, committed.unit, committed.span) == ("5", "/s", "29m59s")
    assert "now 5 /s" in committed.says
    points = len(committed.lines[0].split())
    assert 200 < points <= DRAWN_MAX


def test_a_plot_fits_its_box_and_leaves_gaps_open() -> None:
    points = [(0, 0.0), (1, 10.0), (2, None), (3, 5.0), (4, 5.0)]
    drawn = plot("Pending", "", points, "4s")

    assert drawn.lines == ("0.0,68.0 80.0,4.0", "240.0,36.0 320.0,36.0")
    assert (drawn.top, drawn.latest) == ("10", "5")
    assert plot("Pending", "", [], "0s").lines == ()


def test_ages_are_durations_on_a_round_scale() -> None:
    """The overview said 1020 s of 2000s, and 17m above it."""
    drawn = plot("Oldest pending", "s", [(0, 900.0), (1, 1_020.0)], "1s")

    assert (drawn.latest, drawn.top, drawn.unit, drawn.latest_unit) == ("17m", "30m", "", "")
    assert plot("Oldest pending", "s", [(0, 1.0), (1, 2e6)], "1s").top == "23d3h"


def test_numbers_are_short() -> None:
    texts = {0: "0", 999: "999", 12_345: "12.3k", 1_234_567: "1.23M", 0.25: "0.25", 5e9: "5G"}
    assert {value: number_text(value) for value in texts} == texts
    assert [nice_top(value) for value in (0, 0.3, 1, 1.2, 49, 51)] == [1, 0.5, 1, 2, 50, 100]
