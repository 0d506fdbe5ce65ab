"""Makes the relay terms of each batch from the marks of relays (docs/decisions/relay.md).

Where a limit has cut the batch between two marks, the earlier mark counts, which is always safe:
floors and times only grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from checkback.checkpoints.own_files.relay_terms import RelaySpan, RelayTerms, Spans
from checkback.checkpoints.spark_files.logs import Offsets
from checkback.protocol.decided import RelayMark
from checkback.protocol.errors import FencedError
from checkback.protocol.topics import TopicNames

MARK_STEP_MS: Final = 1_000
"""The checkpoint gets a note only for a mark that is younger by this."""
Marks = Mapping[int, RelayMark]


@dataclass(slots=True)
class RelayTermsOfRun:
    """Makes the relay terms of each batch of a run: which ops relays take, what their marks say.

    Args:
        topics: the names of the topics.
        spans: the spans of ops that relays take and took, as the start of the job left them.
        newest_marks: returns the newest mark of each partition in front of an offset.
    """

    topics: TopicNames
    spans: Spans
    newest_marks: Callable[[Mapping[int, int]], Marks]
    _marks_read_to: dict[int, int] = field(default_factory=dict, init=False)

    def of_batch(self, ends: Offsets, last: Mapping[int, RelayTerms]) -> dict[int, RelayTerms]:
        """Return the terms of a batch by half partition.

        Args:
            ends: the ends of its plan.
            last: the terms of the batch before it.
        """
        read = ends.get(self.topics.decided, {})
        new = {
            at: read[at]
            for at in self._relayed(ends) & read.keys()
            if read[at] != self._marks_read_to.get(at)
        }
        self._marks_read_to.update(new)
        return self.next_terms(ends, last, self.newest_marks(new) if new else {})

    def next_terms(
        self, ends: Offsets, last: Mapping[int, RelayTerms], marks: Marks
    ) -> dict[int, RelayTerms]:
        """Return the terms of a batch by half partition, given the marks that it has read.

        Raises:
            FencedError: a replaced job planned ops that the job may not take yet.
        """
        ops, read = (ends.get(name, {}) for name in (self.topics.op, self.topics.decided))
        for at, spans in self.spans.items():
            if spans[-1].is_ahead(ops.get(at, 0), read.get(at, 0)):
                raise FencedError("Another job has planned this batch.")
        relayed = self._relayed(ends)
        return {
            at: _next_terms(spans, last.get(at), marks.get(at))
            if at in relayed
            else RelayTerms(spans)
            for at, spans in self.spans.items()
        }

    def _relayed(self, ends: Offsets) -> set[int]:
        read = ends.get(self.topics.decided, {})
        return {at for at, spans in self.spans.items() if not spans[-1].is_read(read.get(at, 0))}

    def ends_of_job(self, ends: Offsets, relay: Mapping[int, RelayTerms]) -> Offsets:
        """Return the ends of what the job itself reads, without what relays read for it."""
        relayed = {at for at, terms in relay.items() if terms.is_relayed}
        without = {topic: parts for topic, parts in ends.items() if topic != self.topics.decided}
        ops = without.get(self.topics.op)
        if ops is not None:
            without[self.topics.op] = {at: end for at, end in ops.items() if at not in relayed}
        return without


def _next_terms(
    spans: tuple[RelaySpan, ...], last: RelayTerms | None, mark: RelayMark | None
) -> RelayTerms:
    """Return the terms of a partition with ops that relays take.

    Before the first mark, no half that relays may deliver is discarded, and no time is known.
    """
    span = spans[-1]
    terms = RelayTerms(spans, span.halves_from)
    if last is not None and last.is_relayed and _is_same(last.spans, spans):
        terms = replace(last, spans=spans)
    floor, until_ms = terms.floor, terms.read_until_ms
    is_of_span = mark is not None and mark.halves_from == span.halves_from
    if mark is None or not is_of_span or floor is None:
        return terms
    if until_ms is not None and mark.read_until_ms < until_ms + MARK_STEP_MS:
        return terms
    return replace(
        terms, floor=max(floor, mark.floor), read_until_ms=mark.read_until_ms or until_ms
    )


def _is_same(before: tuple[RelaySpan, ...], now: tuple[RelaySpan, ...]) -> bool:
    begin = [(span.ops_from, span.halves_from) for span in now]
    return [(span.ops_from, span.halves_from) for span in before] == begin
