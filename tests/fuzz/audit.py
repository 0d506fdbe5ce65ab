"""Compares what was seen of each record with what had to become of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.fuzz.records import Expected
from tests.fuzz.witness import Origin, Sight, Witness


class Written(NamedTuple):
    """A record that stands on its topic."""

    kind: str
    expected: Expected
    at_s: float


def faults(written: Mapping[Origin, Written], witness: Witness) -> list[str]:
    """Return a line for each record that is lost, twice, in the wrong place, or of nobody."""
    wrong = [
        f"{record.kind} at {origin}: {[(one.fate, one.reason) for one in sights]}"
        for origin, record in written.items()
        if not is_accounted(record.expected, sights := witness.seen.get(origin, []))
    ]
    return [*wrong, *(f"nobody wrote {one}" for one in witness.seen if one not in written)]


def is_accounted(expected: Expected, sights: list[Sight]) -> bool:
    """Tell whether a record was seen as it had to be: once, or nowhere where that is allowed."""
    if not sights:
        return not expected.must_show
    return len(sights) == 1 and expected.allows(sights[0].fate, sights[0].reason)
