"""What the verbs of ``checkback bench`` share: the settings of their runs, and the result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from checkback.bench.measures import Measure
from checkback.bench.options import CommonOptions
from checkback.bench.runs import BenchFindings, Run
from checkback.bench.stage import BenchSetting
from checkback.bench.storm import StormOptions
from checkback.commands.bench_stage import bench_stage, show
from checkback.commands.core import CommandOutput
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import UsageError

SERVERS = "127.0.0.1:9"


def test_runs_on_a_kafka_of_the_user_have_topics_that_no_other_call_has(tmp_path: Path) -> None:
    common = CommonOptions(bootstrap_servers=SERVERS, topic_prefix="b-", data_dir=tmp_path / "data")

    with bench_stage(common) as first:
        pass
    with bench_stage(common) as second:
        pass

    assert first.settings.bootstrap_servers == SERVERS
    assert first.settings.topic_prefix.startswith("b-")
    assert first.settings.topic_prefix != second.settings.topic_prefix
    assert first.broker_pid is None


def test_settings_are_those_of_every_run_then_the_user_s_then_the_verb_s(tmp_path: Path) -> None:
    chosen = ("check_max=3", "spark.spark.ui.enabled=true", "kafka.client.id=a=b")
    common = CommonOptions(bootstrap_servers=SERVERS, setting=chosen, data_dir=tmp_path / "data")

    with bench_stage(common, page_size=8) as stage:
        settings = stage.settings

    assert settings.transaction_timeout_ms == 3_600_000  # nothing is asked back
    assert (settings.check_max, settings.page_size) == (3, 8)
    assert settings.spark["spark.ui.enabled"] == "true"
    assert settings.kafka["client.id"] == "a=b"


def test_the_user_s_own_settings_file_and_environment_do_not_change_a_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_PAGE_SIZE", "8")

    with bench_stage(CommonOptions(bootstrap_servers=SERVERS, data_dir=tmp_path / "a")) as stage:
        assert stage.settings.page_size == Settings().page_size


@pytest.mark.parametrize("pair", ["check_max", "=3"])
def test_what_is_no_setting_is_refused(pair: str) -> None:
    common = CommonOptions(bootstrap_servers=SERVERS, setting=(pair,))

    with pytest.raises(UsageError, match="--setting takes KEY=VALUE"), bench_stage(common):
        pass


def test_a_folder_with_files_is_refused_and_a_new_one_kept(tmp_path: Path) -> None:
    new = tmp_path / "new"
    with bench_stage(CommonOptions(bootstrap_servers=SERVERS, data_dir=new)) as stage:
        (stage.folder / "result").touch()

    assert stage.folder == new
    with (
        pytest.raises(UsageError, match="is not empty"),
        bench_stage(CommonOptions(bootstrap_servers=SERVERS, data_dir=new)),
    ):
        pass


def test_a_folder_of_its_own_is_gone_afterwards() -> None:
    with bench_stage(CommonOptions(bootstrap_servers=SERVERS)) as stage:
        assert stage.folder.is_dir()

    assert not stage.folder.exists()


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[bool], str]:
    """Shows one measured run, also saved in the file ``saved``, and returns what was printed."""

    def printed(as_json: bool) -> str:
        stage = BenchSetting(Settings(), tmp_path, 7, 64, machine={"cores": 2})
        run = Run("storm", 0, 1_000, 5, {}, {}, 0, 0, [])
        findings = BenchFindings([Measure("visible_p99_in_storm", [2.5], 40)], [run])
        common = CommonOptions(save=tmp_path / "saved")
        show("storm", common, StormOptions(), findings, stage, CommandOutput(as_json))
        return capsys.readouterr().out

    return printed


def test_a_result_for_programs_is_the_saved_one(
    shown: Callable[[bool], str], tmp_path: Path
) -> None:
    told = json.loads(shown(True))

    assert told == json.loads((tmp_path / "saved").read_text("utf-8"))
    assert (told["command"], told["machine"]) == ("storm", {"cores": 2})
    assert (told["options"]["seed"], told["options"]["rate"]) == (7, 1_000)
    assert [one["value"] for one in told["measures"]] == [2.5]


def test_a_result_for_people_has_runs_and_measures(shown: Callable[[bool], str]) -> None:
    text = shown(False)

    assert "storm 0" in text
    assert "visible_p99_in_storm" in text
