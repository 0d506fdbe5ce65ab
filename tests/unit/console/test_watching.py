"""What `checkback top` shows while a source does not answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.unit.console.console_stage import Stage, make_stage

from checkback.commands import top
from checkback.console import opening, watching
from checkback.console.watching import Inquiry, SourceWatch

LONG_S = 60.0


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Stage, Event]]:
    """A stage whose brokers answer once the event is set."""
    stage, answers = make_stage(tmp_path), Event()
    kind = type(stage.sources.facts)
    groups = kind.groups

    def in_the_end(facts: Any) -> Any:
        answers.wait(LONG_S)
        return groups(facts)

    monkeypatch.setattr(kind, "groups", in_the_end)
    yield stage, answers
    answers.set()


def test_figures_are_there_before_silent_brokers_are_given_up(
    silent: tuple[Stage, Event],
) -> None:
    """The first picture came after 21 seconds."""
    stage, answers = silent
    watch = SourceWatch(stage.sources)
    watch.begin()

    assert watch.take_figures(LONG_S)
    assert not watch.take_groups(0.0)
    shown = top.text_of(top.view(watch.history, watch.groups, ["Waiting for Kafka."]))
    assert re.search(r"^Pending +11$", shown, re.MULTILINE)
    assert "Waiting for Kafka.\nThe producer groups are not known yet." in shown

    answers.set()
    assert watch.take_groups(LONG_S)
    assert "payment-service" in top.text_of(top.view(watch.history, watch.groups))


def test_before_the_first_figures_the_terminal_says_so(silent: tuple[Stage, Event]) -> None:
    watch = SourceWatch(silent[0].sources)

    shown = top.text_of(top.view(watch.history, watch.groups))

    assert shown.startswith("The first figures are being read.\n")
    assert watch.late == ()


def test_who_is_waited_for_is_told_and_not_asked_again(
    silent: tuple[Stage, Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LATE_S", 1e-9)
    watch = SourceWatch(silent[0].sources)
    watch.begin()
    watch.take_figures(LONG_S)
    watch.begin()
    watch.take_figures(LONG_S)

    [told] = watch.late
    assert told.startswith("Waiting for Kafka, for ")
    assert watch.history.taken == 2


def test_lines_come_although_the_brokers_are_silent(
    silent: tuple[Stage, Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that reads them sees null for the groups, and the groups once they are known."""
    stage, answers = silent
    monkeypatch.setattr(watching, "LATE_S", 0.001)
    monkeypatch.setattr(opening, "open_sources", lambda *_: stage.sources)
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        answers.set()
        monkeypatch.setattr(watching, "LATE_S", LONG_S)
        if len(naps) == 2:
            raise click.Abort

    # Not `time.sleep`, which other threads call as well.
    monkeypatch.setattr(top, "time", SimpleNamespace(sleep=nap))
    told = CliRunner().invoke(top.command, ["--output", "json", "--interval", "100"])

    first, second = map(json.loads, told.output.splitlines()[:2])
    assert first["pending"] == second["pending"] == 11
    assert first["groups"] is None
    assert {one["group"] for one in second["groups"]} >= {"payment-service"}


def test_what_asking_raises_is_raised_where_the_answer_is_taken() -> None:
    now_s = 5.0

    def defect() -> None:
        raise RuntimeError("a defect")

    inquiry = Inquiry(defect, lambda: now_s)
    assert inquiry.answer(None) is None
    inquiry.begin()
    now_s = 7.0
    assert inquiry.waits_s == 2.0
    with pytest.raises(RuntimeError):
        inquiry.answer(None)
    assert inquiry.waits_s == 0.0
