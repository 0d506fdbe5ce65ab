"""`checkback jars archive`, and a driver that maps what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkback.deploy.jars import USUAL_CONFS, jar_paths

MAPPED = """
from pathlib import Path
from checkback.protocol.configuration import Settings
from checkback.streaming.session import start_session
spark = start_session(Settings(master="local[1]", spark={"ui.enabled": "false"}), [])
pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
print(Path(f"/proc/{pid}/maps").read_text())
spark.stop()
"""


@pytest.mark.nightly  # make setup runs the command each time
@pytest.mark.skipif(sys.platform != "linux", reason="what is mapped stands in /proc")
def test_a_driver_maps_the_archive_that_the_command_wrote(tmp_path: Path) -> None:
    for conf in USUAL_CONFS:
        (tmp_path / conf).mkdir()
        for jar in jar_paths(conf):
            (tmp_path / conf / jar.name).symlink_to(jar)
    environment = {**os.environ, "CHECKBACK_JARS": str(tmp_path)}

    checkback = Path(sys.executable).with_name("checkback")
    told = run([str(checkback), "jars", "archive", "--output", "json"], environment)
    archive = Path(json.loads(told)["archive"])

    assert archive.parent == tmp_path
    assert archive.stat().st_size > 50_000_000
    assert str(archive) in run([sys.executable, "-c", MAPPED], environment)


def run(command: list[str], environment: dict[str, str]) -> str:
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
