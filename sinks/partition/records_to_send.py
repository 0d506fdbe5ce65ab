"""Makes the records that one try of one batch writes, from outcomes and the halves they name."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from checkback.metrics.log_lines import facts
from checkback.protocol.errors import BrokerError, CheckbackError
from checkback.protocol.properties import PGROUP, UNIQ_KEY, first_value, text_value
from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.records import DISCARDED_CHECK_LIMIT, DISCARDED_EXPIRED
from checkback.protocol.refusals import (
    ID_BYTES_MAX,
    VERDICT_REASONS,
    RecordOrigin,
    RefusedReason,
    refusal_text,
)
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster.topic_directory import (
    LIBRDKAFKA_BATCH_BYTES,
    KnownTopic,
    TopicDirectory,
)
from checkback.sinks.kafka.read.record_reader import RecordSource
from checkback.sinks.lookups import Lookup, half_lookups, op_lookups
from checkback.sinks.native.finals import NativeFinals
from checkback.sinks.partition.rejections import KnownRejections
from checkback.sinks.records.router import Refusal, Router, as_target, group_of
from checkback.sinks.records.sink_record import NOW, SinkRecord
from checkback.sinks.records.source_record import SourceRecord
from checkback.sinks.report import BatchReport
from checkback.sinks.settings import SinkSettings
from checkback.state import Action, Outcome, mark_key, pack_settled
from checkback.state.formats.identity import identity_words
from checkback.state.formats.outcome import REST_UNKNOWN
from checkback.state.steps.shares import GROUPS_AT_ONCE

_log = logging.getLogger(__name__)

COMMIT: Final = int(Action.COMMIT)
CHECK: Final = int(Action.CHECK)
"""Plain numbers: every message is compared with them, and an enum's member is slow."""
DISCARD_WHYS: Final = {
    int(Action.DISCARD_CHECK_LIMIT): "check_limit",
    int(Action.DISCARD_EXPIRED): "expired",
}
"""Names that a report counts discards by."""

REFUSED_BYTES_OF_GROUP_MAX: Final = 16_000_000
"""Bytes of one group's refused records, headers included, that a state partition copies in one
batch. Beyond it, only origin and reason are written: a flood is not written twice. All groups
together have GROUPS_AT_ONCE times as many: names of groups cost nothing."""
GROUP_CHARACTERS_MAX: Final = 255

Words = tuple[int, int]
"""An identity, as state/formats/identity.py has it."""


@dataclass(slots=True)
class OpenRecordBatch:
    """The record batch that waits to be sent to a topic; it must not grow beyond a limit."""

    bytes_max: int
    waiting_bytes: int = 0


@dataclass(slots=True)
class BatchOutputs:
    """Makes the outputs of one try; what it does is counted in the report.

    Args:
        flush: sends what is queued; called where a topic's limit cuts a batch.
        forwarding: sends the finals of plain halves; without it every final is made here.
    """

    settings: SinkSettings
    halves: RecordSource
    ops: RecordSource
    directory: TopicDirectory
    known: KnownRejections
    flush: Callable[[], None]
    report: BatchReport
    now_ms: int
    forwarding: NativeFinals | None = None
    _names: TopicNames = field(init=False)
    _router: Router = field(init=False)
    _topics: dict[str, KnownTopic] = field(default_factory=dict)
    _open_batches: dict[str, OpenRecordBatch] = field(default_factory=dict)
    _copied_of_group: Counter[str] = field(default_factory=Counter)
    _copied_bytes: int = 0

    def __post_init__(self) -> None:
        self._names = self.settings.topics
        pipeline = self.settings.pipeline
        self._router = Router(
            self._names,
            self._find,
            self.now_ms,
            pipeline.check_interval_ms,
            pipeline.check_max,
            measures_all=self.known.tracks_each_record,
        )

    def records_for(
        self, outcomes: Sequence[Outcome], batch_id: int, state_partition: int
    ) -> Iterator[SinkRecord]:
        """Yield the outputs: what halves become, refused ops, then a settled mark per page.

        Raises:
            CheckbackError: the brokers do not answer, or refuse what can't be done without.
        """
        checks: list[Lookup] = []
        for every in half_lookups(outcomes):
            lookup = self._forwarded(every)
            is_check = lookup.action == CHECK
            checks.append(lookup.only(is_check))
            yield from self._of_halves(lookup.only(~is_check))
        for lookup in checks:
            yield from self._of_halves(lookup)
        for lookup in op_lookups(outcomes):
            found = self.ops.read(lookup.partition, lookup.offset)
            for (offset, op), (_, _, detail) in zip(found, lookup, strict=True):
                origin = RecordOrigin(self._names.op, lookup.partition, offset)
                refusal = Refusal(RefusedReason(detail))
                yield self._flush_before(self._refused(op, origin, refusal))
        for outcome in outcomes:
            if len(outcome.action):
                yield self._settled_mark(outcome, batch_id, state_partition)

    def _of_halves(self, lookup: Lookup) -> Iterator[SinkRecord]:
        found = self.halves.read(lookup.partition, lookup.offset)
        decided = map(tuple, lookup.identity.tolist())
        for (offset, half), (_, action, detail), words in zip(found, lookup, decided, strict=True):
            if half is None and action == CHECK:
                # There is nothing to ask about. The verdict or the discard refuses it, once; and
                # it comes soon, since the check counts.
                self.report.counts["halves_lost"] += 1
                continue
            origin = RecordOrigin(self._names.half, lookup.partition, offset)
            yield self._flush_before(self._of_half(half, origin, action, detail, words))

    def _forwarded(self, lookup: Lookup) -> Lookup:
        """Send the finals of plain halves on, and return what is left to do."""
        is_left = lookup.action != COMMIT
        if self.forwarding is None or is_left.all():
            return lookup
        left = self.forwarding.forward(lookup.only(~is_left), self._find_plain)
        self.report.counts["finals"] += len(left) - int(left.sum())
        is_left[~is_left] = left
        return lookup.only(is_left)

    def _find_plain(self, topic: str) -> KnownTopic | None:
        known = self._find(topic)
        if known is None or known.is_system or topic in self._open_batches:
            return None
        return None if known.transaction_end_bounds or known.shortage else known

    def _of_half(
        self,
        half: SourceRecord | None,
        origin: RecordOrigin,
        action: int,
        detail: int,
        decided: Words,
    ) -> SinkRecord:
        """Return the output for a half; a refused record where the half can't be used."""
        try:
            made = self._made(half, origin, action, detail, decided)
            if self.known and isinstance(made, SinkRecord):
                made = self.known.refusal(made) or made
        except (CheckbackError, MemoryError):
            raise
        except Exception as error:
            # RECORD_NOT_MADE says that the half was committed: it may be sent again.
            is_discard = action in DISCARD_WHYS
            reasons = (RefusedReason.RECORD_NOT_MADE, RefusedReason.DISCARD_REJECTED)
            made = Refusal(reasons[is_discard], f"{type(error).__name__}: {error}")
        if action == CHECK and half is not None:
            return self._check_or_feedback(made, half, origin, detail)
        if isinstance(made, Refusal):
            self.report.counts["finals_refused"] += action == COMMIT and half is not None
            return self._refused(half, origin, made)
        self.report.counts["finals"] += action == COMMIT
        why = DISCARD_WHYS.get(action)
        if why is not None:
            self.report.discarded[why] += 1
        return made

    def _made(
        self,
        half: SourceRecord | None,
        origin: RecordOrigin,
        action: int,
        detail: int,
        decided: Words,
    ) -> SinkRecord | Refusal:
        if half is None:
            self.report.counts["halves_lost"] += 1
            return Refusal(RefusedReason.HALF_LOST, Action(action).name.lower())
        if not _is_decided(half, decided):
            return Refusal(RefusedReason.HALF_REPLACED, Action(action).name.lower())
        if action == COMMIT:
            return self._final(half, origin)
        if action == CHECK:
            return self._router.check_request(half, origin, detail)
        if action == Action.REFUSE_HALF:
            return Refusal(RefusedReason(detail))
        expired = action == Action.DISCARD_EXPIRED
        why = DISCARDED_EXPIRED if expired else DISCARDED_CHECK_LIMIT
        return self._router.discarded(half, origin, detail, why)

    def _final(self, half: SourceRecord, origin: RecordOrigin) -> SinkRecord | Refusal:
        made = self._router.final(half, origin)
        if isinstance(made, Refusal) and made.reason == RefusedReason.REAL_TOPIC_MISSING:
            is_new = self.directory.find_new(made.detail) is not None
            return self._router.final(half, origin) if is_new else made
        return made

    def _check_or_feedback(
        self, made: SinkRecord | Refusal, half: SourceRecord, origin: RecordOrigin, check_times: int
    ) -> SinkRecord:
        group = group_of(half)
        if isinstance(made, SinkRecord):
            self.report.asked_groups[group] += 1
            return made
        self.report.undelivered_groups[group] += 1
        return self._router.undelivered_check(origin, check_times)

    def _refused(
        self, record: SourceRecord | None, origin: RecordOrigin, refusal: Refusal
    ) -> SinkRecord:
        self.report.refused[refusal.reason.name] += 1
        if record is not None:
            self.report.refused_groups[group_of(record)[:GROUP_CHARACTERS_MAX]] += 1
        if _log.isEnabledFor(logging.INFO):
            _log_refusal(record, origin, refusal)
        without_content = origin in self.known.without_content or self._is_over_its_share(
            record, refusal
        )
        return self._router.refused(record, origin, refusal, without_content=without_content)

    def _is_over_its_share(self, record: SourceRecord | None, refusal: Refusal) -> bool:
        """Return whether its group has had enough bytes of refused records copied in this batch.

        A record that is refused with a verdict is always copied: an operator may resend it from
        there.
        """
        if record is None or refusal.reason in VERDICT_REASONS:
            return False
        group, most = group_of(record)[:GROUP_CHARACTERS_MAX], REFUSED_BYTES_OF_GROUP_MAX
        size = record_bytes_max(record.key(), record.value(), record.headers() or [])
        in_all = self._copied_bytes + size
        if self._copied_of_group[group] + size > most or in_all > GROUPS_AT_ONCE * most:
            return True
        self._copied_of_group[group] += size
        self._copied_bytes = in_all
        return False

    def _find(self, topic: str) -> KnownTopic | None:
        """Look a topic up; once in a try, since it is asked for every message."""
        known = self._topics.get(topic)
        if known is not None:
            return known
        known = self.directory.find(topic)
        if known is None:
            return None
        if known.shortage and topic in (self._names.refused, self._names.discarded):
            raise _unavailable_error(topic, known.shortage)
        known = as_target(topic, known, self._names, self.settings.pipeline.record_bytes_max)
        self._topics[topic] = known
        bytes_max = known.record_batch_bytes_max
        cut_bytes = min(known.batch_cut_bytes or bytes_max, bytes_max)
        if cut_bytes < LIBRDKAFKA_BATCH_BYTES or topic in self.known.alone:
            self._open_batches[topic] = OpenRecordBatch(cut_bytes)
        return known

    def _flush_before(self, output: SinkRecord) -> SinkRecord:
        """Flush if this output must not share a record batch with the queued ones."""
        batch = self._open_batches.get(output.topic) if self._open_batches else None
        if batch is None:
            return output
        size = record_bytes_max(output.key, output.value, output.headers)
        is_alone = output.origin in self.known.alone.get(output.topic, ())
        is_full = batch.waiting_bytes + size > batch.bytes_max
        if batch.waiting_bytes and (is_alone or is_full):
            self.flush()
            batch.waiting_bytes = 0
        batch.waiting_bytes = batch.bytes_max if is_alone else batch.waiting_bytes + size
        return output

    def _settled_mark(self, outcome: Outcome, batch_id: int, state_partition: int) -> SinkRecord:
        key = mark_key(outcome.partition, outcome.page)
        mark = pack_settled(outcome, batch_id)
        return SinkRecord(self._names.settled, state_partition, key, mark, [], NOW)


def _unavailable_error(topic: str, shortage: str) -> BrokerError:
    return BrokerError(
        f"{topic} takes no records: {shortage}.",
        remedy="Bring its brokers back; the next start goes on from there.",
        topic=topic,
    )


def _log_refusal(record: SourceRecord | None, origin: RecordOrigin, refusal: Refusal) -> None:
    headers = None if record is None else record.headers()
    known = facts(
        transaction_id=(text_value(headers or [], UNIQ_KEY) or "")[:ID_BYTES_MAX],
        reason=refusal.reason.name,
        **origin._asdict(),
    )
    _log.info("Refused, %s", refusal_text(refusal.reason, refusal.detail), extra=known)


def _is_decided(half: SourceRecord, decided: Words) -> bool:
    """Return whether this is the half that was decided, and not another one at its offset.

    A topic that was deleted and created again, or lost its end when brokers failed, has other
    halves at offsets that the state knows. A half that can't be read passes here; the sink refuses
    it later.
    """
    headers = half.headers()
    if decided[1] == REST_UNKNOWN or headers is None:
        return True
    group, transaction_id = (first_value(headers, name) for name in (PGROUP, UNIQ_KEY))
    if group is None or transaction_id is None:
        return False
    return identity_words(group, transaction_id) == decided
