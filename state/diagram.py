"""The transition table as text: the block between the markers in ARCHITECTURE.md.

``python -m checkback.state.diagram < ARCHITECTURE.md`` prints the document with a current block.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Final

from checkback.state.transitions import TRANSITIONS, Event, Phase, Transition

BEGIN: Final = "<!-- transitions:begin -->"
END: Final = "<!-- transitions:end -->"

_START: Final = "[*]"
SETTLED: Final = (Phase.COMMITTED, Phase.ROLLED_BACK)
WRONG_IDENTITY: Final = (Event.OP_GROUP_WRONG, Event.OP_TRANSACTION_ID_WRONG)
LATER: Final = "; in a later batch: as a commit or rollback"
"""A settled half's identity is known until the end of the batch that settles it."""


def transitions_block() -> str:
    """Return the Mermaid diagram of what changes a phase, then a table of every transition."""
    return "\n".join(["", *_diagram(), "", *_table(), ""])


def with_block(document: str) -> str:
    """Return the document with the current block between its markers.

    Raises:
        ValueError: the document has no such markers.
    """
    before, _, rest = document.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"The document has no {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n{transitions_block()}\n{END}{after}"


def _diagram() -> list[str]:
    """Draw what leads from one phase to another; absent is where everything begins and ends."""
    arrows: dict[tuple[Phase, Phase], list[str]] = defaultdict(list)
    for (phase, event), transition in TRANSITIONS.items():
        if transition.phase != phase:
            arrows[phase, transition.phase].append(_words(event))
    lines = [
        f"    {_node(start)} --> {_node(end)}: {', '.join(events)}"
        for (start, end), events in arrows.items()
    ]
    return ["```mermaid", "stateDiagram-v2", *lines, "```"]


def _table() -> list[str]:
    phases = list(Phase)
    head = "| event | " + " | ".join(_words(phase) for phase in phases) + " |"
    rows = [
        f"| {_words(event)} | " + " | ".join(_cell(phase, event) for phase in phases) + " |"
        for event in Event
    ]
    return [head, "|---" * (len(phases) + 1) + "|", *rows]


def _cell(phase: Phase, event: Event) -> str:
    transition = TRANSITIONS.get((phase, event))
    if transition is None:
        return ""
    changes = f" → {_words(transition.phase)}" if transition.phase != phase else ""
    limit = LATER if phase in SETTLED and event in WRONG_IDENTITY else ""
    return _what_follows(transition) + changes + limit


def _what_follows(transition: Transition) -> str:
    if transition.reason is not None:
        return f"refuse: `{transition.reason.name}`"
    return transition.does


def _words(member: Phase | Event) -> str:
    return member.name.lower().replace("_", " ")


def _node(phase: Phase) -> str:
    return _START if phase == Phase.ABSENT else phase.name


if __name__ == "__main__":
    sys.stdout.write(with_block(sys.stdin.read()))
