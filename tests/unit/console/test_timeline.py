"""A history in words."""

from __future__ import annotations

from tests.unit.console.console_stage import (
    decided_history,
    given_up_history,
    half,
    pending_history,
)

from checkback.console.words import _WORDS, half_properties, timeline
from checkback.operations.transactions.history import KINDS


def test_every_kind_of_event_has_words() -> None:
    assert set(_WORDS) == set(KINDS)


def test_a_timeline_names_who_and_why_and_how_long_after() -> None:
    entries = timeline(decided_history(half(5)))

    assert [(one.kind, one.after) for one in entries] == [
        ("half", ""), ("check request", "+1m"), ("mark", "+1s"), ("op", "+4s"),
        ("op", "+5m35s"), ("mark", "+800ms"), ("final", "+0s"),
    ]  # fmt: skip
    by_hand = entries[4]
    assert (by_hand.who, by_hand.why) == ("operator kim", "the customer paid by phone")
    assert entries[2].title == "Noted by batch 17: asked"
    assert entries[2].why == "1 check so far"
    assert entries[5].title == "Verdict: commit (batch 19)"
    assert entries[5].why == "after 3 checks"
    assert [one.link for one in timeline(given_up_history(half(3))) if one.link] == ["1:9"]


def test_the_properties_of_a_half_have_its_key_first() -> None:
    properties = half_properties(pending_history(half(4)))

    assert next(iter(properties)) == "(key)"
    assert properties["REAL_TOPIC"] == "orders-paid"
