"""The relay terms of a batch: which ops relays take in each partition, and what their marks say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkback.protocol.decided import Closed, PartitionNote
from checkback.state import RelayLimits
from checkback.state.formats.relay_limits import NO_FLOOR


@dataclass(frozen=True, slots=True)
class RelaySpan:
    """A span of a partition's ops that relays take (docs/decisions/relay.md).

    Args:
        ops_from: the first op that relays take.
        halves_from: the first half that they may deliver.
        ops_until: the first op that the job takes again; None while relays take the ops.
        closed_record: the offset of the `closed` record in the decided partition; None if it is not
            known, because the job took no op before the next span.
    """

    ops_from: int
    halves_from: int
    ops_until: int | None = None
    closed_record: int | None = None

    def is_read(self, decided: int) -> bool:
        """Return whether the record that ends the span stands in front of an offset."""
        if self.ops_until is None:
            return False
        return self.closed_record is None or decided > self.closed_record

    def is_ahead(self, ops: int, decided: int) -> bool:
        """Return whether a plan has ops behind the span, and not the record that ends it.

        Args:
            ops: where the plan ends in the op partition.
            decided: where it ends in the decided partition.
        """
        is_behind = self.ops_until is not None and ops > self.ops_until
        return is_behind and not self.is_read(decided)

    def closed(self, ops_until: int, closed_record: int | None = None) -> RelaySpan:
        """Return the same span with its end."""
        return RelaySpan(self.ops_from, self.halves_from, ops_until, closed_record)


Spans = Mapping[int, tuple[RelaySpan, ...]]
"""By half partition, the oldest span first."""


def with_note(
    spans: tuple[RelaySpan, ...], note: PartitionNote, offset: int
) -> tuple[RelaySpan, ...]:
    """Return the spans of a partition, and what a record of its decided partition adds to them.

    Args:
        note: a later record; earlier ones may be missing.
    """
    last = spans[-1] if spans else None
    is_open = last is not None and last.ops_until is None
    if isinstance(note, Closed):
        if last is None:  # the records of the closed span have expired, and its ops
            return (RelaySpan(note.ops_from, note.ops_from).closed(note.ops_from, offset),)
        is_known = last.ops_until == note.ops_from and last.closed_record is not None
        return spans if is_known else (*spans[:-1], last.closed(note.ops_from, offset))
    begun = RelaySpan(note.ops_from, note.halves_from)
    if last is None or not is_open:
        return (*spans, begun)
    if (last.ops_from, last.halves_from) == (begun.ops_from, begun.halves_from):
        return spans
    # Its end was not seen: the job took no op between the two spans.
    return (*spans[:-1], last.closed(begun.ops_from), begun)


@dataclass(frozen=True, slots=True)
class RelayTerms:
    """The relay terms of a batch in one partition.

    Args:
        floor: no half at or above this offset is discarded; None once the batch has read that the
            job takes the ops.
        read_until_ms: every op that the brokers had stored until this time is read, as a mark says;
            None before the first mark, and where the job takes the ops.
    """

    spans: tuple[RelaySpan, ...]
    floor: int | None = None
    read_until_ms: int | None = None

    @property
    def is_relayed(self) -> bool:
        """Whether this batch reads the ops as a relay decided them."""
        return self.floor is not None

    @property
    def limits(self) -> RelayLimits:
        """The limits of the partition's pages."""
        taken = tuple((span.ops_from, span.halves_from) for span in self.spans)
        return RelayLimits(taken, NO_FLOOR if self.floor is None else self.floor)

    def to_data(self) -> dict[str, Any]:
        """Return the terms as plain data."""
        spans = [
            [span.ops_from, span.halves_from, span.ops_until, span.closed_record]
            for span in self.spans
        ]
        return {"spans": spans, "floor": self.floor, "read_until_ms": self.read_until_ms}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RelayTerms:
        """Return the terms in plain data.

        Raises:
            ValueError, TypeError, KeyError: the data is damaged.
        """
        spans = tuple(
            RelaySpan(int(ops_from), int(halves_from), _number(until), _number(record))
            for ops_from, halves_from, until, record in data["spans"]
        )
        return cls(spans, _number(data["floor"]), _number(data["read_until_ms"]))


def _number(found: Any) -> int | None:
    return None if found is None else int(found)
