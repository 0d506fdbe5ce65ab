"""`checkback jars archive`, and a driver and a broker that map what it wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from checkback.deploy.broker import EmbeddedBroker
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
def test_a_driver_and_a_broker_map_the_archives_that_the_command_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for conf in USUAL_CONFS:
        (tmp_path / conf).mkdir()
        for jar in jar_paths(conf):
            (tmp_path / conf / jar.name).symlink_to(jar)
    monkeypatch.setenv("CHECKBACK_JARS", str(tmp_path))

    checkback = Path(sys.executable).with_name("checkback")
    made = json.loads(run([str(checkback), "jars", "archive", "--output", "json"]))
    driver, broker = Path(made["archive"]), Path(made["broker_archive"])

    assert driver.parent == broker.parent == tmp_path
    assert driver.stat().st_size > 50_000_000
    assert str(driver) in run([sys.executable, "-c", MAPPED])
    with EmbeddedBroker(tmp_path / "broker") as running:
        assert str(broker) in Path(f"/proc/{running.pid}/maps").read_text()


def run(command: list[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
