"""The SBOM of a release names the jars beside the Python packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.sbom import NEEDED_FOR, jars_to_list

from checkback.deploy.jars import LockedJar, locked_jars

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build" / "release" / "environment" / "bin" / "python"
BEFORE = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "version": 1,
    "metadata": {
        "component": {"type": "application", "name": "checkback", "bom-ref": "root-component"}
    },
    "components": [
        {"type": "library", "name": "click", "version": "8.1", "bom-ref": "requirements-L1"}
    ],
    "dependencies": [{"ref": "requirements-L1"}, {"ref": "root-component"}],
}


def test_each_jar_that_users_get_is_listed_once_with_all_that_it_is_for() -> None:
    twice = ("a-1.jar", "org.a", "a", "1")
    jars = [
        LockedJar("0", "hadoop", "h-1.jar", "org.h", "h", "1"),
        LockedJar("1", "kafka", *twice),
        LockedJar("1", "spark", *twice),
    ]

    assert jars_to_list(jars) == {jars[1]: ["kafka", "spark"]}
    assert {conf for confs in jars_to_list(locked_jars()).values() for conf in confs} == {
        *NEEDED_FOR
    }


def test_the_lock_is_read_without_any_package() -> None:
    """The tools of a release have no numpy, which Java classes took: `make release` ended there."""
    reading = "from checkback.deploy.jars import read_lock; read_lock()"
    program = [sys.executable, "-S", "-c", reading]
    subprocess.run(program, check=True, env={"PYTHONPATH": str(ROOT / "src")}, cwd=ROOT)


@pytest.mark.skipif(not TOOLS.exists(), reason="`make release` prepares the SBOM's tools")
def test_the_sbom_has_every_such_jar_and_nothing_that_changes_from_run_to_run(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sbom.json"
    file.write_text(json.dumps(BEFORE), "utf-8")
    command: list[str | Path] = [TOOLS, "-m", "tools.sbom", file]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(command, check=True, env=environment, cwd=ROOT)
    sbom = json.loads(file.read_text("utf-8"))
    found = {one["purl"]: one for one in sbom["components"] if "purl" in one}
    clients = found["pkg:maven/org.apache.kafka/kafka-clients@3.9.2"]
    on = {one["ref"]: one.get("dependsOn", []) for one in sbom["dependencies"]}

    assert "serialNumber" not in sbom
    assert "timestamp" not in sbom["metadata"]
    assert len(found) == len(jars_to_list(locked_jars()))
    assert (clients["group"], clients["name"], clients["version"], clients["scope"]) == (
        "org.apache.kafka", "kafka-clients", "3.9.2", "required",
    )  # fmt: skip
    assert clients["hashes"] == [
        {"alg": "SHA-256", "content": digest_of("kafka-clients-3.9.2.jar")}
    ]
    assert set(found) <= set(on["root-component"])
    assert any(one["name"] == "click" for one in sbom["components"])


def digest_of(file: str) -> str:
    return next(one.sha256 for one in locked_jars() if one.file == file)
