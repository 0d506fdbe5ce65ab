"""Hands the ops over to relays at a start of the job, or takes them back (rule 9).

docs/decisions/relay.md has the rules. Both ways begin with a plan without records that this start
creates itself. A replaced job can't plan another batch after it, because Spark's offset log never
overwrites a plan. So the job's own reading of the ops ends where this plan ends, whatever the
replaced job does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka.admin import AdminClient

from checkback.checkpoints.own_files.batch_terms import newest_terms
from checkback.checkpoints.own_files.decided_topic import (
    FILE,
    KnownDecidedTopic,
    read_known_decided_topic,
)
from checkback.checkpoints.own_files.relay_terms import RelaySpan, Spans, with_note
from checkback.checkpoints.spark_files.logs import Offsets
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.configuration import Settings
from checkback.protocol.decided import Taken
from checkback.protocol.errors import BrokerError, CheckpointError, ConfigurationError
from checkback.sinks.kafka.cluster.described_topics import describe_topics
from checkback.streaming.relay.decided_topic import DecidedTopic, Notes
from checkback.streaming.start.planned_run import PlannedRun, create_plan

Run = Callable[[PlannedRun], bool]


@dataclass(slots=True)
class RelaySwitch:
    """Reads who takes the ops, and changes it as the settings say, at one start of the job.

    Args:
        settings: the job's.
        store: the checkpoint; no query runs over it.
        open_topic: returns the decided topic, given the number of half partitions; fences earlier
            starts that write there.
        tick: writes a record, so that Spark makes a batch of a new checkpoint.
        now_ms: the wall clock.
    """

    settings: Settings
    store: CheckpointStore
    open_topic: Callable[[int], DecidedTopic]
    tick: Callable[[], object]
    now_ms: Callable[[], int]
    spans: Spans = field(default_factory=dict, init=False)
    """The spans of ops that relays take and took; empty if there never was a relay."""
    is_known: bool = field(default=False, init=False)
    """Whether the query reads the decided topic."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the query reads."""
        names = self.settings.topics
        return names.read_with_relay if self.is_known else names.read

    def prepare(self, run: Run) -> bool:
        """Let relays take the ops, or take them back, as the settings say.

        Args:
            run: runs a batch that is planned and not finished; returns whether it finished it.

        Returns:
            False if a batch was not finished, because the job is to stop.

        Raises:
            CheckpointError: a relay is alive where it is switched off; the decided topic is not
                what it was.
            ConfigurationError: the decided topic does not fit.
            BrokerError: the brokers do not answer, or refuse.
            FencedError: a newer job took over.
        """
        newest, found = newest_terms(self.store), read_known_decided_topic(self.store)
        self.spans = {} if found is None else found.spans
        if newest is not None and newest.relay:
            self.spans = {at: terms.spans for at, terms in newest.relay.items()}
        is_planned = self.settings.topics.decided in self._planned_ends()
        if not (self.settings.relay or self.spans or is_planned or found is not None):
            return True
        topic = self.open_topic(self._bind_decided_topic())
        notes = topic.notes(self.spans, self._planned_ends().get(self.settings.topics.decided, {}))
        self._learn(notes)
        self.is_known = bool(self.spans) or is_planned
        if not self.settings.relay and not self.is_known:
            return True
        self._close_behind_plan(topic)
        if self.settings.relay:
            silent = [at for at, found in notes.items() if not found]
            return self._hand_over(topic, silent, run)
        return self._take_back(topic, run)

    def _close_behind_plan(self, topic: DecidedTopic) -> None:
        """Close again behind the last plan, if it has ops behind `closed` but not `closed` itself.

        Only a replaced job makes such a plan, and no job runs it (terms.py). Its ops are passed
        on, too, and dropped from the plan's batch.
        """
        ends = self._planned_ends()
        ops, read = (ends.get(name, {}) for name in (self.settings.topics.op, topic.name))
        ahead = {
            at: spans[-1].ops_until or 0
            for at, spans in self.spans.items()
            if spans[-1].is_ahead(ops.get(at, 0), read.get(at, 0))
        }
        if ahead:
            topic.close_relays({at: ops[at] for at in ahead}, ahead)
            self._learn(topic.notes(self.spans, {}))

    def _learn(self, notes: Notes) -> None:
        spans = dict(self.spans)
        for at, found in notes.items():
            for note, offset in found:
                spans[at] = with_note(spans.get(at, ()), note, offset)
        self.spans = spans

    def _hand_over(self, topic: DecidedTopic, silent: list[int], run: Run) -> bool:
        left = [at for at in range(topic.partitions) if not self._is_open(at)]
        # Where the plan lacks the topic, a start died behind `taken`, and `checkpoint repartition`
        # dropped the plan that this start had created.
        if not left and topic.name in self._planned_ends():
            self._repeat(topic, silent)
            return self._finished_first(run)
        ends = self._own_plan(topic, run)
        if ends is None:
            return False
        ops = ends.get(self.settings.topics.op, {})
        # Asked for only now: the last plan of the job without relays is known.
        halves = topic.half_ends()
        taken = {at: Taken(self._ops_from(at, ops.get(at, 0)), halves[at]) for at in left}
        if taken:
            topic.take(taken)
        begun = {at: RelaySpan(note.ops_from, note.halves_from) for at, note in taken.items()}
        self.spans = {
            **self.spans,
            **{at: (*self.spans.get(at, ()), span) for at, span in begun.items()},
        }
        return self._finished_first(run)

    def _take_back(self, topic: DecidedTopic, run: Run) -> bool:
        taken = {at: spans[-1] for at, spans in self.spans.items() if self._is_open(at)}
        if taken:
            topic.require_no_relay()
            ends = self._own_plan(topic, run)
            if ends is None:
                return False
            ops = ends.get(self.settings.topics.op, {})
            topic.close_relays(
                {at: ops.get(at, 0) for at in taken},
                {at: span.ops_from for at, span in taken.items()},
            )
            self._learn(topic.notes(self.spans, {}))
        return self._read_to_the_end(run) and self._finished_first(run)

    def _read_to_the_end(self, run: Run) -> bool:
        """Read up to where the job takes the ops again, before it reads one of them itself."""
        name = self.settings.topics.decided
        wanted = {
            at: spans[-1].closed_record + 1
            for at, spans in self.spans.items()
            if spans[-1].closed_record is not None
        }
        while True:
            batch = self.store.last_batch("offsets") or 0
            ends = self.store.planned(batch).ends
            read = ends.get(name, {})
            left = {at: end for at, end in wanted.items() if read.get(at, 0) < end}
            if not left:
                return True
            if self.store.last_batch("commits") != batch:
                if not run(self._planned_run(batch)):
                    return False
                continue
            step = max(1, self.settings.batch_events_max // len(left))
            next_ends = {at: min(end, read.get(at, 0) + step) for at, end in left.items()}
            own = {**ends, name: {**read, **next_ends}}
            create_plan(self.store, batch, own, self.now_ms())

    def _own_plan(self, topic: DecidedTopic, run: Run) -> Offsets | None:
        """Create the next plan, without records; return its ends, None if the job is to stop."""
        name = self.settings.topics.decided
        while True:
            # Looked up once a round: the job that is replaced may plan meanwhile.
            batch = self.store.last_batch("offsets")
            if batch is None:
                self.tick()
                if not run(PlannedRun(self.settings.topics.read, drops_topic=False, batch=0)):
                    return None
            elif self.store.last_batch("commits") != batch:
                if not run(self._planned_run(batch)):
                    return None
            else:
                ends = self.store.planned(batch).ends
                own = {**ends, name: {**topic.begins(), **ends.get(name, {})}}
                if create_plan(self.store, batch, own, self.now_ms()):
                    self.is_known = True
                    return own

    def _unfinished(self) -> int | None:
        """Return the batch that is planned and not finished, None where there is none."""
        planned = self.store.last_batch("offsets")
        return None if planned == self.store.last_batch("commits") else planned

    def _finished_first(self, run: Run) -> bool:
        """Run the first plan with the decided topic, if it is there and not finished."""
        batch = self._unfinished()
        if batch is None:
            return True
        how = self._planned_run(batch)
        return not how.drops_topic or run(how)

    def _planned_run(self, batch: int) -> PlannedRun:
        """Return how to run a plan; if its decided topic is new, first records may be missing."""
        names, now = self.settings.topics, self.store.planned(batch).ends
        if names.decided not in now:
            return PlannedRun(names.read, drops_topic=False, batch=batch)
        before = self.store.planned(batch - 1).ends if batch > 0 else {}
        # Spark reports lost data for a new partition that begins behind offset 0.
        is_new = now[names.decided].keys() != before.get(names.decided, {}).keys()
        return PlannedRun(names.read_with_relay, drops_topic=is_new, batch=batch)

    def _planned_ends(self) -> Offsets:
        batch = self.store.last_batch("offsets")
        return {} if batch is None else self.store.planned(batch).ends

    def _is_open(self, at: int) -> bool:
        spans = self.spans.get(at, ())
        return bool(spans) and spans[-1].ops_until is None

    def _ops_from(self, at: int, read: int) -> int:
        """Return where relays begin: behind the ops that the job has read or was given."""
        return max([read, *(span.ops_until or 0 for span in self.spans.get(at, ()))])

    def _repeat(self, topic: DecidedTopic, silent: list[int]) -> None:
        """Write again that relays take the ops, where the last such record has expired."""
        spans = {at: self.spans[at][-1] for at in silent if self._is_open(at)}
        if spans:
            topic.take({at: Taken(span.ops_from, span.halves_from) for at, span in spans.items()})

    def _bind_decided_topic(self) -> int:
        """Return the number of half partitions; require as many decided ones, and the known topic.

        Raises:
            CheckpointError: the decided topic is gone, or another one than before.
            ConfigurationError: it has another number of partitions.
        """
        names = self.settings.topics
        known = read_known_decided_topic(self.store)
        admin = AdminClient(self.settings.connection())
        try:
            found = describe_topics(admin, [names.half, names.decided])
        except BrokerError as error:
            if known is None or error.fields.get("missing") != [names.decided]:
                raise
            raise CheckpointError(
                f"{names.decided} is gone, and with it what relays had delivered.",
                remedy="Run `checkback topics create --set relay=true`, then `checkback checkpoint"
                " rebuild`; see `checkback docs recovering`.",
                topic=names.decided,
            ) from error
        half, decided = found[names.half], found[names.decided]
        if half.partitions != decided.partitions:
            raise ConfigurationError(
                f"{names.half} has {half.partitions} partitions and {names.decided} has "
                f"{decided.partitions}: they must be equal.",
                remedy="Give the smaller one more partitions.",
            )
        if known is None:
            self.store.create_own(FILE, KnownDecidedTopic(decided.topic_id).to_json())
        elif known.topic_id != decided.topic_id:
            raise CheckpointError(
                f"{names.decided} was deleted and made again: what relays had delivered is gone.",
                remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
                topic=names.decided,
            )
        return half.partitions
