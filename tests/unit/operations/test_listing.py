"""What the lists of discarded and of refused records say when they are empty."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
from tests.unit.operations.records import NAMES, discarded, half, record

from checkback.commands import discarded as discarded_commands
from checkback.commands import refused as refused_commands
from checkback.commands.core import execute
from checkback.operations.positions import Position
from checkback.operations.scanning import FoundRecord
from checkback.protocol.refusals import RefusedReason, refused_headers

HALF = half("u", at=Position(1, 7))
REFUSED_HEADERS = refused_headers(
    HALF.headers, RefusedReason.REAL_TOPIC_MISSING, NAMES.half, *HALF.at
)
CASES = [
    (discarded_commands, discarded(HALF, at=Position(0, 4)), "Nothing was discarded."),
    (refused_commands, record(NAMES.refused, REFUSED_HEADERS), "Nothing was refused."),
]


class Kept:
    """A topic with these records, in a scanner's place."""

    def __init__(self, records: list[FoundRecord]) -> None:
        self._records = records

    def scan(self, _: str) -> Iterator[FoundRecord]:
        yield from self._records


def listed(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, records: list[FoundRecord], *chosen: str
) -> None:
    @contextmanager
    def opened(_: object) -> Iterator[Kept]:
        yield Kept(records)

    monkeypatch.setattr(module, "open_scanner", opened)
    assert execute(module.command, ["list", *chosen, "--bootstrap-servers", "none:1"]) == 0


@pytest.mark.parametrize(("module", "kept", "none"), CASES)
def test_an_empty_topic_and_a_filter_that_takes_nothing_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: ModuleType,
    kept: FoundRecord,
    none: str,
) -> None:
    listed(monkeypatch, module, [kept])
    assert "u" in capsys.readouterr().out.split()
    listed(monkeypatch, module, [])
    assert capsys.readouterr().out == f"{none}\n"
    listed(monkeypatch, module, [kept], "--group", "another")
    assert capsys.readouterr().out == "Nothing matches.\n"
    listed(monkeypatch, module, [kept], "--older-than", "36500d")
    assert capsys.readouterr().out == "Nothing matches.\n"
