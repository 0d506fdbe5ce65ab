"""The command line of the benchmarks: options, settings of the runs, folders."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from bench.__main__ import main, parse
from bench.pipeline import comparisons_of
from bench.result import document
from bench.setting import bench_setting

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import UsageError

SERVERS = "127.0.0.1:9"


def called(*arguments: str) -> argparse.Namespace:
    """Return the options of a call of `pipeline` on a Kafka of the user."""
    return parse(["pipeline", "--bootstrap-servers", SERVERS, *arguments])


def test_a_smoke_run_is_short_whatever_was_given() -> None:
    options = parse(["latency", "--smoke", "--rate", "7", "--body-bytes", "5"])

    assert document(options, [], [], {})["options"] == {
        "rate": 50, "seconds": 4, "idle_seconds": 4, "quiet_seconds": 5, "warm_up_seconds": 3,
        "runs": 1, "seed": 7, "body_bytes": 5, "smoke": True, "setting": [],
        "bootstrap_servers": "",
    }  # fmt: skip


def test_a_comparison_is_kept_in_a_smoke_run() -> None:
    assert comparisons_of(called("--smoke", "--compare", "stateless").compare) == ["stateless"]


@pytest.mark.parametrize("arguments", [["--runs", "0"], ["--batch-events", "x"]])
def test_a_number_out_of_bounds_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        called(*arguments)


def test_an_unknown_comparison_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="kafka-streams"):
        comparisons_of("spark")


def test_a_quiet_part_has_time_for_a_single_commit() -> None:
    """With two seconds none was sent, and the run ended: "0 of 0 did not become visible"."""
    call = ["latency", "--bootstrap-servers", SERVERS, "--quiet-seconds", "4"]

    assert main(call) == UsageError.exit_code


def test_runs_on_a_kafka_of_the_user_have_topics_that_no_other_call_has(tmp_path: Path) -> None:
    options = called("--topic-prefix", "b-", "--data-dir", f"{tmp_path / 'data'}")

    with bench_setting(options) as first:
        pass
    with bench_setting(options) as second:
        pass

    assert first.settings.bootstrap_servers == SERVERS
    assert first.settings.topic_prefix.startswith("b-")
    assert first.settings.topic_prefix != second.settings.topic_prefix
    assert first.broker_pid is None


def test_settings_are_those_of_every_run_then_the_verb_s_then_the_user_s(tmp_path: Path) -> None:
    chosen = ("check_max=3", "spark.spark.ui.enabled=true", "kafka.client.id=a=b")
    options = called(
        "--data-dir", f"{tmp_path / 'data'}", *(f"--setting={pair}" for pair in chosen)
    )

    with bench_setting(options) as stage:
        settings = stage.settings

    assert settings.transaction_timeout_ms == 3_600_000  # nothing is asked back
    assert (settings.check_max, settings.batch_events_max) == (3, 1_000_000)
    assert settings.spark["spark.ui.enabled"] == "true"
    assert settings.kafka["client.id"] == "a=b"


def test_the_user_s_own_settings_file_and_environment_do_not_change_a_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_PAGE_SIZE", "8")

    with bench_setting(called("--data-dir", f"{tmp_path / 'a'}")) as stage:
        assert stage.settings.page_size == Settings().page_size


@pytest.mark.parametrize("pair", ["check_max", "=3"])
def test_what_is_no_setting_is_refused(pair: str) -> None:
    options = called(f"--setting={pair}")

    with pytest.raises(UsageError, match="--setting takes KEY=VALUE"), bench_setting(options):
        pass


def test_a_folder_with_files_is_refused_and_a_new_one_kept(tmp_path: Path) -> None:
    new = tmp_path / "new"
    with bench_setting(called("--data-dir", str(new))) as stage:
        (stage.folder / "result").touch()

    assert stage.folder == new
    with (
        pytest.raises(UsageError, match="is not empty"),
        bench_setting(called("--data-dir", str(new))),
    ):
        pass


def test_a_folder_of_its_own_is_gone_afterwards() -> None:
    with bench_setting(called()) as stage:
        assert stage.folder.is_dir()

    assert not stage.folder.exists()
