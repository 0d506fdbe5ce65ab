"""A sink's process ends with the process that it works for, on any kernel."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from checkback.sinks.process import server


@pytest.mark.parametrize("has_call", [True, False])
def test_the_end_of_a_process_is_noticed(monkeypatch: pytest.MonkeyPatch, has_call: bool) -> None:
    def refused(_: int) -> int:
        raise OSError(38, "Function not implemented")

    if not has_call:  # an older kernel, or a sandbox
        monkeypatch.setattr(os, "pidfd_open", refused)
    monkeypatch.setattr(server, "LOOK_S", 0.01)
    owner = subprocess.Popen([sys.executable, "-c", ""])
    owner.wait()

    server._wait_for_end(owner.pid)
