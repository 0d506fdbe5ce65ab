"""The table is complete, the arrays match it, and ARCHITECTURE.md shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkback.state import Action, Counter
from checkback.state.diagram import BEGIN, END, with_block
from checkback.state.transitions import (
    ACTION,
    COUNTERS,
    IMPOSSIBLE,
    NEXT_PHASE,
    REASON,
    TRANSITIONS,
    Event,
    Phase,
    Transition,
)

ARCHITECTURE = Path(__file__).parents[3] / "ARCHITECTURE.md"
RECORD_EVENTS = (
    Event.HALF,
    Event.HALF_REJECTED,
    Event.COMMIT,
    Event.ROLLBACK,
    Event.UNKNOWN,
    Event.CHECK_UNDELIVERED,
    Event.DELIVERED,
)


def test_whatever_a_record_can_say_is_decided_in_every_phase() -> None:
    assert {pair for pair in TRANSITIONS if pair[1] in RECORD_EVENTS} == {
        (phase, event) for phase in Phase for event in RECORD_EVENTS
    }


def test_arrays_are_the_table() -> None:
    for phase in Phase:
        for event in Event:
            transition = TRANSITIONS.get((phase, event))
            expected = transition or Transition(IMPOSSIBLE, "")  # type: ignore[arg-type]
            assert NEXT_PHASE[phase, event] == expected.phase
            assert ACTION[phase, event] == (expected.action or 0)
            assert REASON[phase, event] == (expected.reason or 0)
            counted = [int(one in expected.counters) for one in Counter]
            assert COUNTERS[phase, event].tolist() == counted
    assert {one.dtype.str for one in (NEXT_PHASE, ACTION, REASON, COUNTERS)} == {"|u1"}


def test_a_verdict_is_never_changed_only_forgotten() -> None:
    settled = (Phase.COMMITTED, Phase.ROLLED_BACK, Phase.DISCARDED)
    for (phase, event), transition in TRANSITIONS.items():
        if phase in settled and transition.phase != phase:
            assert (event, transition.phase) == (Event.VERDICT_RETENTION_OVER, Phase.ABSENT)


def test_every_refusal_has_a_reason_and_nothing_else_has() -> None:
    refusing = (Action.REFUSE_HALF, Action.REFUSE_OP)
    for transition in TRANSITIONS.values():
        is_refused = transition.action in refusing
        assert is_refused == (transition.reason is not None)
        assert is_refused == (Counter.REFUSALS in transition.counters)


def test_deliveries_that_are_refused_are_counted() -> None:
    for (phase, event), transition in TRANSITIONS.items():
        if transition.action == Action.REFUSE_OP:
            is_late = event == Event.DELIVERED and phase != Phase.ABSENT
            assert is_late == (Counter.DELIVERED_REFUSED in transition.counters)


def test_every_phase_event_and_action_is_in_use() -> None:
    assert {phase for phase, _ in TRANSITIONS} == set(Phase)
    assert {event for _, event in TRANSITIONS} == set(Event)
    actions = {transition.action for transition in TRANSITIONS.values()} - {None}
    assert actions == set(Action) - {Action.PREPARED}


def test_the_diagram_is_current() -> None:
    """If this fails: python -m checkback.state.diagram < ARCHITECTURE.md."""
    document = ARCHITECTURE.read_text("utf-8")
    assert document == with_block(document)


def test_only_what_is_between_the_markers_is_replaced() -> None:
    renewed = with_block(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert renewed.startswith(f"before\n{BEGIN}\n\n```mermaid\n")
    assert renewed.endswith(f"\n{END}\nafter\n")
    assert "old\n" not in renewed
    assert with_block(renewed) == renewed
    with pytest.raises(ValueError, match="transitions:begin"):
        with_block("no markers")
