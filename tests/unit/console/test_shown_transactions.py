"""What the pages of one transaction or record show of it, whatever strangers wrote into it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from html import escape
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.console.console_stage import EVIL, Stage, make_stage
from tests.unit.operations.records import NAMES, half, record

from checkback.console.access import Visitor
from checkback.console.facts import KafkaFacts
from checkback.console.pending_view import PendingView
from checkback.console.rendering import rendered
from checkback.console.words import half_properties
from checkback.operations.topics.position import Position
from checkback.protocol.configuration import Settings
from checkback.protocol.refusals import RefusedReason, refused_headers


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = make_stage(tmp_path)
    made.look()
    return made


def test_nothing_that_a_message_says_turns_or_hides_the_text_beside_it(stage: Stage) -> None:
    [one] = stage.console.facts.histories("0:4")
    turned = replace(one, events=tuple(
        replace(event, facts={**event.facts, "properties": {"note": "\u202emoc.live\x1b[8m"}})
        if event.kind == "half" else event for event in one.events
    ))  # fmt: skip
    shown = rendered("parts/transaction.html", {
        "shown": [{"history": turned, "entries": [], "waits": None, "body": b"a\n\xe2\x80\xaeb",
                   "properties": half_properties(turned)}],
        "visitor": Visitor("kim", sees_bodies=True),
    })  # fmt: skip

    assert "\\u202emoc.live\\x1b[8m" in shown
    assert "a\n\\u202eb" in shown


def test_nothing_that_a_message_says_becomes_markup(stage: Stage) -> None:
    client = stage.signed_in()

    for path in ("/parts/transactions/0:4", "/parts/refused", "/parts/records/refused/0:4"):
        text = client.get(path).text
        assert EVIL not in text
        assert escape(EVIL) in text, path
    assert EVIL not in client.get("/transactions", params={"name": EVIL}).text
    assert EVIL not in client.get("/pending", params={"group": EVIL}).text


def test_bodies_and_properties_are_for_operators(stage: Stage) -> None:
    for path in ("/parts/transactions/0:4", "/parts/records/refused/0:4"):
        stranger, operator = (one.get(path).text for one in (stage.client(), stage.signed_in()))
        assert escape(EVIL) not in stranger
        assert "shown to signed-in operators" in stranger
        assert escape(EVIL) in operator
        assert "order-4" in operator


def test_a_timeline_says_what_who_and_why(stage: Stage) -> None:
    text = stage.client().get("/parts/transactions/1:5").text

    places = [text.index(said) for said in (
        "Half message stored", "Asked back: check request 1", "Op says unknown, answering a check",
        "Op says commit", "operator kim", "the customer paid by phone", "Verdict: commit",
        "Final message delivered",
    )]  # fmt: skip
    assert places == sorted(places)
    assert "Decide it by hand" not in text
    gone = stage.client().get("/parts/transactions/1:3").text
    assert "Discarded after 15 checks" in gone
    assert "Resumed as 1:9" in gone


def test_of_names_of_megabytes_the_list_of_refused_records_keeps_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page has five hundred rows, and each links to what its record names."""
    long = half("u" * 2_000_000, group="g" * 2_000_000, at=Position(1, 7))
    headers = refused_headers(long.headers, RefusedReason.OP_WITHOUT_HALF, NAMES.op, *long.at)
    found = record(NAMES.refused, headers, at=Position(0, 4))
    scanner = nullcontext(SimpleNamespace(scan=lambda *_, **__: iter([found])))
    monkeypatch.setattr(KafkaFacts, "scanner", lambda _: scanner)

    settings = Settings(topic_prefix=NAMES.prefix)
    [row] = KafkaFacts(settings, PendingView(settings), lambda: 0).refused()

    assert (row["transaction_id"], row["group"]) == ("u" * 1_024, "g" * 1_024)
    assert row["at"] == "0:4"
