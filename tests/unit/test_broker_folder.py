"""The folder of an embedded broker: which broker runs on it, and that there is only one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkback.deploy.broker_files import BrokerFolder, BrokerRecord
from checkback.protocol.errors import PrerequisiteError

HOLD = (
    "import fcntl, os, sys\n"
    "with open(sys.argv[1], 'w+b') as lock:\n"
    "    fcntl.lockf(lock, fcntl.LOCK_EX, 0, 0, os.SEEK_SET)\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)
RECORD = BrokerRecord(os.getpid(), "127.0.0.1:9092")


@pytest.fixture
def folder(tmp_path: Path) -> BrokerFolder:
    made = BrokerFolder(tmp_path / "broker")
    made.create()
    return made


@contextmanager
def kafkas_lock(folder: BrokerFolder) -> Iterator[None]:
    """Hold the lock in a process of its own, as Kafka does."""
    command = [sys.executable, "-c", HOLD, str(folder.data / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


def test_a_second_broker_on_a_folder_is_refused_and_told_of_the_first(folder: BrokerFolder) -> None:
    folder.write_record(RECORD)

    with kafkas_lock(folder), pytest.raises(PrerequisiteError) as refused:
        folder.create()
    assert folder.running() is None, "another process may have its id"
    assert f"(pid {RECORD.pid}, {RECORD.bootstrap_servers})" in refused.value.message
    folder.create()


@pytest.mark.parametrize("text", ["", '{"pid": 1}', "[]"])
def test_a_record_that_is_cut_off_is_none(folder: BrokerFolder, text: str) -> None:
    (folder.path / "broker.json").write_text(text)

    assert folder.read_record() is None
    assert folder.running() is None


def test_a_folder_that_can_t_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(PrerequisiteError, match="can't be written"):
        BrokerFolder(tmp_path / "file" / "broker").create()
