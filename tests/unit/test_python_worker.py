"""What Spark's workers import is left out of garbage collection, once."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from checkback.streaming.spark import python_workers


def test_only_new_imports_are_worth_another_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: done.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    monkeypatch.setattr(python_workers, "_modules_kept", 0)

    for _ in range(2):
        python_workers.keep_modules()
    assert done == ["collect", "freeze"], "garbage must not be kept with the modules"

    monkeypatch.setitem(sys.modules, "imported_later", ModuleType("imported_later"))
    python_workers.keep_modules()
    assert done == ["collect", "freeze"] * 2
