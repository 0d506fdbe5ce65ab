"""What spark-submit brings along is taken from it, and what it sends to a cluster is complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.programs import FROM_ZIP, output_of

import checkback
from checkback.commands.deploy import command
from checkback.commands.shared.output import CommandOutput
from checkback.deploy import jars, pack
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError, PrerequisiteError
from checkback.streaming.spark import session
from checkback.streaming.spark.jars import is_submitted
from checkback.streaming.spark.s3_files import is_on_s3
from checkback.streaming.spark.shipped_package import package_zip


class GivenConf:
    """A SparkConf as spark-submit filled it."""

    given = (("spark.master", "yarn"), ("spark.executor.memory", "3g"), ("spark.app.name", "x"))

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802 - pyspark's name
        return list(self.given)


def test_a_variable_of_spark_submits_tells_that_it_started_this(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert not is_submitted()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert is_submitted()


def test_settings_win_over_what_spark_submit_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SparkConf", GivenConf)

    given = session.submitted_settings(Settings(master="yarn"))
    assert given == {"spark.master": "yarn", "spark.executor.memory": "3g"}
    named = Settings(master="yarn", spark={"executor.memory": "1g"})
    assert "spark.executor.memory" not in session.submitted_settings(named)


def test_another_kind_of_master_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SparkConf", GivenConf)
    with pytest.raises(ConfigurationError, match="yarn"):
        session.submitted_settings(Settings(master="local[2]"))

    monkeypatch.setattr(GivenConf, "given", (("spark.master", "k8s://https://10.0.0.1:443"),))
    there = Settings(master="k8s://https://kubernetes.default.svc")
    assert session.submitted_settings(there)["spark.master"] == "k8s://https://10.0.0.1:443"


def test_jars_follow_the_checkpoint_and_none_is_fetched_for_spark_submit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jars, "ensure_jars", lambda conf: [Path(f"{conf}.jar")])
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    on_s3 = Settings(checkpoint="s3a://bucket/checkpoint")

    assert is_on_s3(on_s3.checkpoint)
    assert jars.pipeline_jars(Settings(checkpoint="/data")) == [Path("spark.jar")]
    assert jars.pipeline_jars(on_s3) == [Path("spark.jar"), Path("s3.jar")]
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert jars.pipeline_jars(on_s3) == []


def test_a_pack_has_the_package_the_jars_and_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for conf in ("spark", "s3"):
        (tmp_path / f"{conf}.jar").write_text(conf)
    monkeypatch.setattr(pack, "ensure_jars", lambda conf: [tmp_path / f"{conf}.jar"])

    made = pack.write_pack(tmp_path / "pack", ("spark", "s3"))

    assert [jar.read_text() for jar in made.jars] == ["spark", "s3"]
    assert made.submit_options[0::2] == ["--py-files", "--jars"]
    program = f"import sys; sys.path.insert(0, {str(made.package)!r})\n{made.program.read_text()}"
    assert output_of(program, "--version").startswith("checkback ")
    told = CliRunner().invoke(
        command, ["pack", str(tmp_path / "told"), "--s3", "--output", "json"], obj=CommandOutput()
    )
    assert json.loads(told.output)["options"][0::2][:2] == ["--py-files", "--jars"]
    with pytest.raises(PrerequisiteError, match="can't be written"):
        pack.write_pack(tmp_path / "spark.jar" / "below")


def test_a_zip_tells_the_commit_that_it_was_made_from(tmp_path: Path) -> None:
    packed = package_zip(tmp_path, "0123456789ab")
    told = output_of(
        f"{FROM_ZIP}from checkback.commands.version import version_text\nprint(version_text())",
        packed,
    )

    assert told == f"checkback {checkback.__version__} (0123456789ab)\n"


def test_a_package_that_is_imported_from_a_zip_packs_itself(tmp_path: Path) -> None:
    """A driver inside a cluster has Checkback from spark-submit, as a zip."""
    packed = package_zip(tmp_path)
    (tmp_path / "copy").mkdir()
    program = f"""{FROM_ZIP}
from pathlib import Path
from checkback.streaming.spark.shipped_package import package_zip
print(package_zip(), package_zip(Path(sys.argv[2])))
"""
    told = output_of(program, packed, tmp_path / "copy")

    assert told.split() == [str(packed), str(tmp_path / "copy" / packed.name)]
    names = zipfile.ZipFile(packed).namelist()
    assert "checkback/streaming/java/ConditionalFileManager.java" in names


MAKES: dict[str, str] = {
    "folder": "from checkback.streaming.spark.jars import temporary_folder; "
    "(temporary_folder('jars') / 'file').touch()",
    "zip": "from checkback.streaming.spark.shipped_package import package_zip; "
    "assert package_zip().is_file()",
}


@pytest.mark.parametrize("what", MAKES)
def test_a_process_that_ends_leaves_no_temporary_file(what: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    subprocess.run([sys.executable, "-c", MAKES[what]], env=environment, check=True)

    assert list(tmp_path.iterdir()) == []
