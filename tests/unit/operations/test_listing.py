"""Choosing among the records that a topic keeps for operators, and showing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import ModuleType

import pytest
from tests.unit.operations.records import NAMES, discarded, half, record

from checkback.commands import discarded as discarded_commands
from checkback.commands import refused as refused_commands
from checkback.commands.shared.app import execute
from checkback.commands.shared.options import operator_facts
from checkback.commands.shared.parked import content_data, content_text
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.protocol.errors import NotFoundError, UsageError
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


@dataclass
class Terminal:
    """Where commands run over records, and what they print."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, module: ModuleType, records: list[FoundRecord], *words: str) -> int:
        self.monkeypatch.setattr(module, "open_scanner", lambda _: nullcontext(Kept(records)))
        return execute(module.command, [*words, "--bootstrap-servers", "none:1"])

    def shown(self, module: ModuleType, records: list[FoundRecord], *words: str) -> str:
        assert self.run(module, records, *words) == 0
        return self.capsys.readouterr().out


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(monkeypatch, capsys)


@pytest.mark.parametrize(("module", "kept", "none"), CASES)
def test_an_empty_topic_and_a_filter_that_takes_nothing_are_told_apart(
    terminal: Terminal, module: ModuleType, kept: FoundRecord, none: str
) -> None:
    assert "u" in terminal.shown(module, [kept], "list").split()
    assert terminal.shown(module, [], "list") == f"{none}\n"
    for chosen in (("--group", "another"), ("--older-than", "36500d")):
        assert terminal.shown(module, [kept], "list", *chosen) == "Nothing matches.\n"


@pytest.mark.parametrize(("module", "kept", "none"), CASES)
def test_each_option_of_a_filter_chooses(
    terminal: Terminal, module: ModuleType, kept: FoundRecord, none: str
) -> None:
    its, another = {
        "Nothing was discarded.": ("check-limit", "expired"),
        "Nothing was refused.": ("REAL_TOPIC_MISSING", "FINAL_TOO_LARGE"),
    }[none]
    chosen = ("--group", "g", "--topic", "orders", "--older-than", "1h", "--reason")
    assert "u" in terminal.shown(module, [kept], "list", *chosen, its).split()
    assert terminal.shown(module, [kept], "list", "--reason", another) == "Nothing matches.\n"


@pytest.mark.parametrize("words", [["list"], ["show", "1:9"]])
def test_a_record_commands_no_terminal_and_adds_no_line(
    terminal: Terminal, words: list[str]
) -> None:
    terminal.monkeypatch.delenv("COLUMNS", raising=False)
    at, evil = Position(1, 9), "\x1b[2Jevil\n\u202e"
    odd = half(evil, group=evil, topic=evil, at=at)
    headers = refused_headers(odd.headers, RefusedReason.REAL_TOPIC_MISSING, NAMES.half, *odd.at)
    value = evil.encode()
    for module, kept in (
        (discarded_commands, replace(discarded(odd, at=at), value=value)),
        (refused_commands, record(NAMES.refused, headers, at=at, value=value)),
    ):
        shown = terminal.shown(module, [kept], *words)
        assert not {"\x1b", "\u202e"} & set(shown)
        assert not [line for line in shown.splitlines() if line.startswith(r"\u202e")]
        assert shown.count(r"\x1b[2Jevil") >= 3


def test_a_body_is_shown_whole_and_a_name_that_no_record_has_is_not_found(
    terminal: Terminal,
) -> None:
    body = b"x" * 100_000
    for module, kept, _ in CASES:
        found = [replace(kept, value=body)]
        assert body.decode() in terminal.shown(module, found, "show", "u")
        assert terminal.run(module, found, "show", "v") == NotFoundError.exit_code


def test_whoever_acts_says_on_what_and_who_and_why() -> None:
    facts = operator_facts(RecordFilter(name="u"), "ann", "made it", everything=False)
    assert (facts.operator, facts.reason) == ("ann", "made it")
    assert operator_facts(RecordFilter(), "ann", "made it", everything=True).now_ms > 0
    for wanted, operator, why, everything in (
        (RecordFilter(), "ann", "made it", False),
        (RecordFilter(name="u"), "ann", "made it", True),
        (RecordFilter(name="u"), "", "made it", False),
        (RecordFilter(name="u"), "ann", " ", False),
    ):
        with pytest.raises(UsageError):
            operator_facts(wanted, operator, why, everything=everything)


def test_bytes_that_are_no_text_are_shown_escaped() -> None:
    found = record(NAMES.refused, [("a", b"\xff")], value=None)

    assert content_text(b"\xff") == "\\xff"
    assert content_data(found) == {"key_base64": "a2V5", "body_base64": ""}
