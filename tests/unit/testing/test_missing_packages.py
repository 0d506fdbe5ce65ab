"""Where only the client is installed, tools that need more say what to install."""

from __future__ import annotations

import pytest

from checkback import testing
from checkback.protocol.errors import PrerequisiteError


def test_a_tool_whose_package_is_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(testing, "import_module", missing)
    with pytest.raises(PrerequisiteError, match=r"PageEngine .* numpy") as raised:
        _ = testing.PageEngine

    assert raised.value.remedy == "Install it: pip install 'checkback[spark]'."


def test_a_module_of_ours_that_is_missing_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError("No module named 'checkback.state'", name="checkback.state")

    monkeypatch.setattr(testing, "import_module", missing)
    with pytest.raises(ModuleNotFoundError):
        _ = testing.PageEngine
