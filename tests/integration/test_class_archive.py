"""A driver and a broker map the archives of classes that set-up writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.class_archives import train_class_archives

from checkback.deploy.broker import EmbeddedBroker
from checkback.deploy.jars import USUAL_CONFS, jar_paths

MAPPED = """
from pathlib import Path
from checkback.protocol.configuration import Settings
from checkback.streaming.spark.session import start_session
spark = start_session(Settings(master="local[1]", spark={"ui.enabled": "false"}), [])
pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
print(Path(f"/proc/{pid}/maps").read_text())
spark.stop()
"""


@pytest.mark.nightly  # make setup does the same each time
@pytest.mark.skipif(sys.platform != "linux", reason="what is mapped stands in /proc")
def test_a_driver_and_a_broker_map_the_archives_that_set_up_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for conf in USUAL_CONFS:
        (tmp_path / conf).mkdir()
        for jar in jar_paths(conf):
            (tmp_path / conf / jar.name).symlink_to(jar)
    monkeypatch.setenv("CHECKBACK_JARS", str(tmp_path))

    made = train_class_archives()
    driver, broker = made.driver, made.broker

    assert driver.parent == broker.parent == tmp_path
    assert driver.stat().st_size > 50_000_000
    assert str(driver) in run([sys.executable, "-c", MAPPED])
    with EmbeddedBroker(tmp_path / "broker") as running:
        assert str(broker) in Path(f"/proc/{running.pid}/maps").read_text()


def run(command: list[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
