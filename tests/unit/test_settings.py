"""The settings: one name in file, environment and flags, a fixed precedence, and none is
ignored."""

from __future__ import annotations

import json
import re
import traceback
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from checkback.commands.config import command as config_command
from checkback.commands.shared.output import CommandOutput
from checkback.commands.shared.settings import every_setting_options, settings_options
from checkback.deploy.settings import (
    LoadedSettings,
    load_settings,
    load_with_sources,
    read_environment,
)
from checkback.protocol.configuration import MASK, Settings
from checkback.protocol.errors import ConfigurationError

FILE = """
bootstrap_servers = "file:9092"
check_interval_ms = 1000
check_max = 3
check_enabled = false

[kafka]
security.protocol = "SASL_SSL"
"sasl.username" = "orders"
sasl.password = "from-file"

[spark]
sql.shuffle.partitions = 4
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file."""
    path = tmp_path / "checkback.toml"
    path.write_text(FILE)
    return path


def show(*arguments: str, **environment: str) -> dict[str, dict[str, Any]]:
    ran = CliRunner().invoke(
        config_command,
        ["show", "--output", "json", *arguments],
        env=environment,
        obj=CommandOutput(),
    )
    assert ran.exception is None, ran.exception
    shown: dict[str, dict[str, Any]] = json.loads(ran.stdout)["settings"]
    return shown


def test_file_then_environment_then_flags(config: Path) -> None:
    env = {"CHECKBACK_CHECK_INTERVAL_MS": "2000", "CHECKBACK_CHECK_MAX": "4"}

    loaded = load_with_sources(config, env, {"check_max": "5"})

    assert loaded.settings.bootstrap_servers == "file:9092"
    assert loaded.settings.check_interval_ms == 2000
    assert loaded.settings.check_max == 5
    assert loaded.settings.check_enabled is False
    assert {
        key: loaded.sources[key]
        for key in ("bootstrap_servers", "check_interval_ms", "check_max", "page_size")
    } == {
        "bootstrap_servers": "file",
        "check_interval_ms": "environment",
        "check_max": "flag",
        "page_size": "default",
    }


def test_families_are_joined_member_by_member(config: Path) -> None:
    env = {"CHECKBACK_KAFKA_SASL_PASSWORD": "from-environment"}

    loaded = load_with_sources(config, env, {"kafka.sasl.mechanism": "PLAIN"})

    assert loaded.settings.kafka == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "orders",
        "sasl.password": "from-environment",
        "sasl.mechanism": "PLAIN",
    }
    assert loaded.settings.spark == {"sql.shuffle.partitions": "4"}
    assert loaded.sources["kafka.sasl.password"] == "environment"
    assert loaded.sources["kafka.sasl.username"] == "file"


def test_every_setting_is_a_flag_of_run_and_is_explained() -> None:
    @click.command()
    @every_setting_options
    def probe(loaded: LoadedSettings) -> None:
        click.echo(str(loaded.settings.check_max))

    told = CliRunner().invoke(probe, ["--help"], terminal_width=400)
    for one in fields(Settings):
        assert f"--{one.name.replace('_', '-')} " in told.stdout
        assert one.metadata["text"] in told.stdout
    assert "[default: 15]" in told.stdout
    assert CliRunner().invoke(probe, ["--check-max", "7"]).stdout == "7\n"


@click.command()
@settings_options
def operators_command(settings: Settings) -> None:
    click.echo(f"{settings.check_max} {settings.kafka} {settings.topic_prefix}")


def test_an_operators_command_takes_any_setting_by_its_key() -> None:
    given = ["--set", "check_max=7", "--set", "kafka.client.id=a=b", "--topic-prefix", "x-"]

    assert CliRunner().invoke(operators_command, given).stdout == "7 {'client.id': 'a=b'} x-\n"
    told = CliRunner().invoke(operators_command, ["--help"], terminal_width=80)
    assert len(told.stdout.splitlines()) < 20


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("check_max=-1", "check_max is -1"),
        ("check_max=many", "check_max is 'many'"),
        ("chek_max=3", "'chek_max' (from the flag)"),
        ("secret-alone", "--set takes KEY=VALUE"),
    ],
)
def test_a_set_value_is_judged_as_one_of_the_environment_is(given: str, says: str) -> None:
    ran = CliRunner().invoke(operators_command, ["--set", given])

    assert isinstance(ran.exception, ConfigurationError)
    assert says in str(ran.exception)
    assert "secret-alone" not in str(ran.exception)


@pytest.mark.parametrize(
    ("env", "flags", "said"),
    [
        ({"CHECKBACK_CHEK_MAX": "3"}, {}, "'chek_max' (from the environment)"),
        ({}, {"check_maximum": "3"}, "'check_maximum' (from the flag)"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(
    env: dict[str, str], flags: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_settings(None, env, flags)

    assert said in str(refused.value)
    assert "'check_max'" in refused.value.remedy


def test_an_unknown_key_in_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[producer]\ngroup = 'a'\n")

    with pytest.raises(ConfigurationError, match="no setting 'producer'"):
        load_settings(path, {}, {})


@pytest.mark.parametrize(
    "variable",
    [
        "CHECKBACK_JARS",
        "CHECKBACK_CONFIG",
        "CHECKBACK_SERVICE_HOST",
        "CHECKBACK_SERVICE_PORT_HTTP",
        "CHECKBACK_PORT",
        "CHECKBACK_PORT_8080_TCP_ADDR",
        "CHECKBACK_UI_SERVICE_PORT",
        "PATH",
    ],
)
def test_variables_that_are_no_settings_are_left_alone(variable: str) -> None:
    """Kubernetes sets the addresses of a service named checkback in every pod of its namespace."""
    assert load_settings(None, {variable: "tcp://10.0.0.1:80"}, {}) == Settings()


def test_a_port_is_a_setting_and_one_that_is_misspelled_is_refused() -> None:
    assert load_settings(None, {"CHECKBACK_METRICS_PORT": "9404"}, {}).metrics_port == 9404
    with pytest.raises(ConfigurationError, match="metric_port"):
        load_settings(None, {"CHECKBACK_METRIC_PORT": "9404"}, {})
    spark = load_settings(None, {"CHECKBACK_SPARK_UI_PORT": "4041"}, {}).spark
    assert spark == {"ui.port": "4041"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("check_max", "many", "valid integer"),
        ("check_enabled", "perhaps", "valid boolean"),
        ("check_max", "-1", "at least 0"),
    ],
)
def test_a_wrong_value_names_its_key_and_what_it_must_be(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} is '?{value}'?.*{said}"):
        load_settings(None, {f"CHECKBACK_{key.upper()}": value}, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "can't be read"),
        ("a = ", "not TOML"),
        ("\xff", "UTF-8"),
        ("check_max = " + "1" * 5_000, "not TOML"),
        ("a = " + "[" * 5_000, "not TOML"),
        ("kafka." + "k." * 1_500 + "a = 1", "not TOML"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "checkback.toml"
    if text is not None:
        path.write_text(text, "latin-1")

    with pytest.raises(ConfigurationError, match=f"checkback.toml.*{said}"):
        load_settings(path, {}, {})


def test_show_masks_secrets_and_says_where_each_value_is_from(config: Path) -> None:
    shown = show(
        *("--config", str(config)), *("--kafka", "ssl.key.password=b"), CHECKBACK_CHECK_MAX="9"
    )

    assert shown["check_max"] == {"value": 9, "source": "environment"}
    assert shown["kafka.sasl.username"] == {"value": "orders", "source": "file"}
    assert shown["kafka.sasl.password"] == {"value": MASK, "source": "file"}
    assert shown["kafka.ssl.key.password"] == {"value": MASK, "source": "flag"}
    assert shown["half_partitions"] == {"value": 4, "source": "default"}


@pytest.mark.parametrize("character", ["[", "]", "^", "|", "\\", "%41", "\n"])
def test_a_ledger_path_that_delta_rs_can_not_use_is_refused(character: str) -> None:
    with pytest.raises(ConfigurationError, match="ledger is") as told:
        Settings(ledger=f"/data/a{character}b")
    assert told.value.fields["key"] == "ledger"


@pytest.mark.parametrize(("port", "host"), [(0, "127.0.0.1"), (9404, "0.0.0.0")])  # noqa: S104
def test_without_a_port_of_its_own_an_endpoint_is_for_this_machine_alone(
    port: int, host: str
) -> None:
    """A relay listened at a free port of every interface where only metrics_host was set."""
    settings = Settings(metrics_host="0.0.0.0", metrics_port=port)  # noqa: S104

    assert settings.metrics_address == (host, port)


def test_a_flag_of_a_family_must_be_a_pair() -> None:
    ran = CliRunner().invoke(
        config_command, ["show", "--kafka", "secret-alone"], obj=CommandOutput()
    )

    assert isinstance(ran.exception, ConfigurationError)
    assert "--kafka takes KEY=VALUE" in str(ran.exception)
    assert "secret-alone" not in str(ran.exception)


@pytest.mark.parametrize(
    "wrong",
    [
        {"master": "nonsense"},
        {"master": "local[x]"},
        {"spark": {"spark.driver.memory": "banana"}},
        {"spark": {"executor.memory": "2 GB"}},
    ],
)
def test_a_spark_setting_that_no_jvm_takes_is_refused(wrong: dict[str, Any]) -> None:
    """Without the check Spark printed a trace of fifteen lines, and the exit code was 70."""
    with pytest.raises(ConfigurationError):
        Settings(**wrong)


def test_no_variable_that_the_code_reads_is_refused_as_an_unknown_setting() -> None:
    """Each of these was, although the documents name it: the console did not start with tokens."""
    root = Path(__file__).parents[2]
    files = [root / "setup.py", *(path for top in root.glob("*/__init__.py")
                                  for path in top.parent.rglob("*.py"))]  # fmt: skip
    named = {
        name
        for path in files
        for name in re.findall(r"\"(CHECKBACK_[A-Z_]+[A-Z])\"", path.read_text("utf-8"))
    }

    assert {"CHECKBACK_CONSOLE_TOKENS", "CHECKBACK_METRICS_URL", "CHECKBACK_JARS"} <= named
    assert read_environment(dict.fromkeys(named, "x")).keys() <= {
        one.name for one in fields(Settings)
    }


def test_a_variable_with_an_empty_part_in_its_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="CHECKBACK_KAFKA_SASL__PASSWORD"):
        read_environment({"CHECKBACK_KAFKA_SASL__PASSWORD": "x"})


def test_user_and_password_in_a_url_are_masked() -> None:
    settings = Settings(
        checkpoint="s3a://user:hunter2@bucket/a",
        spark={"hadoop.fs.s3a.proxy": "http://me:hunter2@proxy:80"},
    )

    assert "hunter2" not in str(settings.masked())
    assert "@bucket/a" in str(settings.masked()["checkpoint"])


@pytest.mark.parametrize("value", ["12345678", '["12345678"]', '{a = "12345678"}'])
def test_a_secret_that_is_no_text_is_refused_without_showing_it(tmp_path: Path, value: str) -> None:
    file = tmp_path / "checkback.toml"
    file.write_text(f'access_key = "operators"\nsecret_key = {value}\n')

    with pytest.raises(ConfigurationError, match=r"secret_key is \*+\.") as raised:
        load_settings(file, {}, {})

    assert "12345678" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    "key",
    [
        "hadoop.fs.azure.account.key.store.dfs.core.windows.net",
        "hadoop.fs.azure.sas.container.store",
        "hadoop.fs.s3a.access.key",
        "hadoop.fs.s3a.encryption.key",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
def test_a_member_that_holds_a_secret_is_masked(key: str) -> None:
    settings = Settings(kafka={key: "hunter2"}, spark={key: "hunter2"})

    assert "hunter2" not in f"{settings.masked()} {settings!r}"


@pytest.mark.parametrize("one", [one for one in fields(Settings) if one.name.endswith("_ms")])
def test_a_time_that_stands_for_never_elsewhere_is_refused(one: Field[Any]) -> None:
    """Added to another time it is past: commits were refused, and batches failed for good."""
    never: dict[str, Any] = {one.name: 2**63 - 1}
    with pytest.raises(ConfigurationError, match=f"{one.name} is 9223372036854775807"):
        Settings(**never)
