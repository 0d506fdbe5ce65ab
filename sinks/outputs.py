"""From outcomes and the records they speak of to what is written, for one try of one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Message

from checkback.protocol.records import DISCARDED_CHECK_LIMIT, DISCARDED_EXPIRED
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.sinks import routing
from checkback.sinks.forwarding import Forwarding
from checkback.sinks.lessons import Lessons, Position
from checkback.sinks.lookup import RecordSource
from checkback.sinks.plan import Lookup, half_lookups, op_lookups
from checkback.sinks.real_topics import KnownTopic, TopicDirectory
from checkback.sinks.report import BatchReport
from checkback.sinks.transaction import Output
from checkback.state import Action, Outcome, pack_settled

COMMIT: Final = int(Action.COMMIT)
"""Compared with for every message, for which an enum's member is slow."""
LIBRDKAFKA_BATCH_BYTES: Final = 1_000_000
"""librdkafka's batch.size: a topic that takes less needs its batches cut by flushing."""


@dataclass(slots=True)
class BatchOutputs:
    """Makes the outputs of one try; what it does is counted in the report.

    Args:
        names: the names of the topics.
        halves: reads the half topic.
        ops: reads the op topic.
        directory: what is known of topics.
        lessons: of the tries before.
        flush: sends what is queued; called where a topic's limit cuts a batch.
        report: takes the counts.
        forwarding: sends the finals of plain halves; without it every final is made here.
    """

    names: TopicNames
    halves: RecordSource
    ops: RecordSource
    directory: TopicDirectory
    lessons: Lessons
    flush: Callable[[], None]
    report: BatchReport
    last_finals: dict[str, Position] = field(default_factory=dict)
    forwarding: Forwarding | None = None
    _refused: str = field(init=False)
    _known: dict[str, KnownTopic] = field(default_factory=dict)
    _narrow: dict[str, int] = field(default_factory=dict)
    _unflushed_bytes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._refused = self.names.refused  # put together anew each time it is asked for

    def of(
        self, outcomes: Sequence[Outcome], batch_id: int, state_partition: int
    ) -> Iterator[Output]:
        """Yield the outputs: what halves become, refused ops, then one settled mark per page."""
        for every in half_lookups(outcomes):
            lookup = self._forwarded(every)
            found = self.halves.read(lookup.partition, lookup.offset)
            for (offset, half), (_, action, detail) in zip(found, lookup, strict=True):
                position = (lookup.partition, offset)
                if action == COMMIT and half is not None:
                    yield self._final(half, position)
                else:
                    yield self._other(half, position, action, detail)
        for lookup in op_lookups(outcomes):
            found = self.ops.read(lookup.partition, lookup.offset)
            for (offset, op), (_, _, detail) in zip(found, lookup, strict=True):
                reason, topic = RefusedReason(detail), self.names.op
                yield routing.refused(op, topic, lookup.partition, offset, reason, self.names)
        for outcome in outcomes:
            if len(outcome.action):
                yield self._settled_mark(outcome, batch_id, state_partition)

    def _forwarded(self, lookup: Lookup) -> Lookup:
        """Send the finals of plain halves on, and return what is left to do."""
        is_left = lookup.action != COMMIT
        if self.forwarding is None or is_left.all():
            return lookup
        offsets = lookup.offset[~is_left]
        left = self.forwarding.forward(lookup.partition, offsets, self._find_plain)
        self.report.counts["finals"] += len(left) - int(left.sum())
        is_left[~is_left] = left
        return lookup.only(is_left)

    def _find_plain(self, topic: str) -> KnownTopic | None:
        known = self._find(topic)
        return None if topic in self._narrow or topic == self._refused else known

    def _final(self, half: Message, position: Position) -> Output:
        output = routing.final_or_refused(half, *position, self._find, self.names)
        topic = output.topic
        if topic != self._refused and self.lessons:
            reason = self.lessons.refusal(topic, position)
            if reason is not None:
                names = self.names
                output = routing.refused(half, names.half, *position, reason, names, topic)
        counts = self.report.counts
        if output.topic == self._refused:
            counts["finals_refused"] += 1
            return output
        counts["finals"] += 1
        if topic in self._narrow:
            self._make_room(output)
        self.last_finals[topic] = position
        return output

    def _other(self, half: Message | None, position: Position, action: int, detail: int) -> Output:
        names = self.names
        if half is None:
            self.report.counts["halves_lost"] += 1
            wanted = Action(action).name.lower()
            return routing.refused(
                None, names.half, *position, RefusedReason.HALF_LOST, names, wanted
            )
        match action:
            case Action.CHECK:
                return self._check(half, position, detail)
            case Action.REFUSE_HALF:
                return routing.refused(half, names.half, *position, RefusedReason(detail), names)
            case _:
                expired = action == Action.DISCARD_EXPIRED
                why = DISCARDED_EXPIRED if expired else DISCARDED_CHECK_LIMIT
                return routing.discarded(half, *position, detail, why, names)

    def _check(self, half: Message, position: Position, check_times: int) -> Output:
        output = routing.check_request(half, *position, check_times, self.names)
        group = output.topic.removeprefix(self.names.check(""))
        closed = output.topic in self.lessons.closed_topics
        if not closed and self.directory.find(output.topic) is not None:
            self.report.asked_groups[group] += 1
            return output
        self.report.undelivered_groups[group] += 1
        return routing.undelivered_check(*position, check_times, self.names)

    def _find(self, topic: str) -> KnownTopic | None:
        """Look a final's topic up; once in a try, since it is asked for every message."""
        known = self._known.get(topic)
        if known is not None:
            return known
        known = self.directory.find(topic)
        if known is None:
            return None
        self._known[topic] = known
        one_by_one = topic in self.lessons.one_by_one
        if one_by_one or known.record_batch_bytes_max < LIBRDKAFKA_BATCH_BYTES:
            self._narrow[topic] = 0 if one_by_one else known.record_batch_bytes_max
        return known

    def _make_room(self, output: Output) -> None:
        """Flush where one batch of several records would be more than the topic takes."""
        size = routing.record_bytes_max(output.key, output.value, output.headers)
        waiting = self._unflushed_bytes.get(output.topic, 0)
        if waiting and waiting + size > self._narrow[output.topic]:
            self.flush()
            waiting = 0
        self._unflushed_bytes[output.topic] = waiting + size

    def _settled_mark(self, outcome: Outcome, batch_id: int, state_partition: int) -> Output:
        key = b"%d:%d" % (outcome.partition, outcome.page)
        mark = pack_settled(outcome, batch_id)
        return Output(self.names.settled, state_partition, key, mark, [], routing.NOW)
