"""Looks a transaction up on the topics: first its half, then only the records that can name it.

Each step narrows the next. The settled marks show whether the group was asked and what the verdict
is, so a busy real topic is read only for committed transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice

import numpy as np
from confluent_kafka import Message

from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import (
    CLOCK_MARGIN_MS,
    Advance,
    FoundRecord,
    TopicScanner,
    Wanted,
)
from checkback.operations.transactions.history import (
    HistoryEvent,
    TransactionHistory,
    assemble,
    check_event,
    discarded_event,
    final_event,
    half_position,
    mark_event,
    op_event,
    refused_event,
)
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import NotFoundError
from checkback.protocol.properties import first_value
from checkback.protocol.refusals import refusal_facts
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.read.record_reader import RecordReader
from checkback.sinks.records.source_record import readable_headers
from checkback.state import marks_of


@dataclass(slots=True)
class TransactionFinder:
    """Looks transactions up."""

    scanner: TopicScanner
    halves: RecordReader
    topics: TopicNames

    def find(self, name: str, *, stored_from_ms: int | None = None) -> list[TransactionHistory]:
        """Return the history of a transaction, or of all transactions with the same id.

        A resumed half keeps its transaction id, so an id finds both halves.

        Args:
            name: partition:offset of the half, or the transaction id. An id is searched for in
                the half topic.

        Raises:
            NotFoundError: there is no such half, and no mark for one.
            BrokerError: the brokers do not answer, or refuse.
        """
        at = Position.parse(name)
        if at is None:
            found = [self.history(half.at, half) for half in self._halves(name, stored_from_ms)]
        else:
            found = [self.history(at, record_at(self.scanner, self.halves, at))]
        known = [one for one in found if one.events]
        if not known:
            raise NotFoundError(
                f"No half message {name} was found on {self.topics.half}.",
                remedy="Check the id and topic_prefix; retention may have deleted the half.",
                transaction=name,
            )
        return known

    def history(self, at: Position, half: FoundRecord | None) -> TransactionHistory:
        """Return the history of the half at that position."""
        from_ms = None if half is None else half.time_ms - CLOCK_MARGIN_MS
        events = list(self._marks(at, half, from_ms))
        events += self._ops(at, from_ms)
        events += self._refused(at, half, from_ms)
        marks = {event.facts["mark"] for event in events if event.kind == "mark"}
        if half is not None and "asked" in marks:
            events += self._checks(at, half, from_ms)
        verdicts = {event.facts["verdict"] for event in events if event.kind == "mark"}
        if half is not None and "commit" in verdicts:
            half_topic = self.topics.half
            refused = any(one.facts.get("origin_topic") == half_topic for one in events)
            events += self._final(at, half, was_refused=refused)
        if "discard" in verdicts:
            events += self._discarded(at, None if half is None else half.time_ms)
        return assemble(at, half, events)

    def _halves(self, transaction_id: str, from_ms: int | None) -> list[FoundRecord]:
        wanted = transaction_id.encode()

        def is_it(message: Message) -> bool:
            return first_value(readable_headers(message), names.UNIQ_KEY) == wanted

        return list(self.scanner.scan(self.topics.half, is_it, from_ms=from_ms))

    def _marks(
        self, at: Position, half: FoundRecord | None, from_ms: int | None
    ) -> Iterator[HistoryEvent]:
        key = b"%d:" % at.partition

        def speaks_of_it(message: Message) -> bool:
            if not (message.key() or b"").startswith(key):
                return False
            marks = marks_of(message.key(), message.value())
            return marks is not None and bool((marks.offset == at.offset).any())

        for record in self.scanner.scan(self.topics.settled, speaks_of_it, from_ms=from_ms):
            event = mark_event(record, at, half)
            if event is not None:
                yield event
                if event.facts["verdict"]:
                    return

    def _ops(self, at: Position, from_ms: int | None) -> list[HistoryEvent]:
        offset = b"%d" % at.offset
        return [
            op_event(record)
            for topic in self.topics.read[1:]
            for record in self.scanner.scan(
                topic,
                lambda message: message.value() == offset,
                partitions=[at.partition],
                from_ms=from_ms,
            )
        ]

    def _refused(
        self, at: Position, half: FoundRecord | None, from_ms: int | None
    ) -> list[HistoryEvent]:
        transaction_id = half.text(names.UNIQ_KEY) if half else ""
        offset = b"%d" % at.offset

        def may_concern_it(message: Message) -> bool:
            record = FoundRecord.of(message)
            refusal = refusal_facts(record.headers).facts
            if not refusal:
                return bool(record.text(names.RESEND.target))
            if refusal.get("partition") != str(at.partition):
                return False
            if refusal.get("topic") == self.topics.half:
                return refusal.get("offset") == str(at.offset)
            names_it = bool(transaction_id) and record.text(names.UNIQ_KEY) == transaction_id
            return record.value == offset or names_it

        found = list(self.scanner.scan(self.topics.refused, may_concern_it, from_ms=from_ms))
        events = [(record, refused_event(record)) for record in found]
        places = {str(record.at) for record, event in events if event.kind == "refused"}
        return [
            event
            for record, event in events
            if event.kind == "refused" or record.text(names.RESEND.source) in places
        ]

    def _checks(self, at: Position, half: FoundRecord, from_ms: int | None) -> list[HistoryEvent]:
        topic = self.topics.check(half.text(names.PGROUP))
        found = self.scanner.scan(topic, _comes_from(at), from_ms=from_ms)
        return [check_event(record) for record in found]

    def _final(self, at: Position, half: FoundRecord, *, was_refused: bool) -> list[HistoryEvent]:
        found = self.scanner.scan(
            half.text(names.REAL_TOPIC),
            _comes_from(at),
            # A final has its half's timestamp. There is only one, so the search ends with it.
            from_ms=half.time_ms,
            # Kafka does not tell a user without rights on a topic whether it exists.
            may_be_hidden=was_refused,
        )
        return [final_event(record) for record in islice(found, 1)]

    def _discarded(self, at: Position, from_ms: int | None) -> list[HistoryEvent]:
        found = list(self.scanner.scan(self.topics.discarded, from_ms=from_ms))
        own = [record for record in found if half_position(record) == at]
        places = {str(record.at) for record in own}
        notes = [record for record in found if record.text(names.RESUME.source) in places]
        notes = [record for record in notes if record.text(names.RESUME.target)]
        return [discarded_event(record) for record in [*own, *notes]]


def record_at(scanner: TopicScanner, reader: RecordReader, at: Position) -> FoundRecord | None:
    """Return the record at a position, None if it is gone or there never was one."""
    ends = {one.partition: one.offset for one in scanner.ends([reader.topic])}
    # A reader that seeks to after the end would start again at the first record.
    if at.offset >= ends.get(at.partition, 0):
        return None
    found = dict(reader.read(at.partition, np.array([at.offset], np.int64)))
    message = found[at.offset]
    return None if message is None else FoundRecord.of(message)


@contextmanager
def open_finder(
    settings: Settings, advance: Advance = lambda *_: None
) -> Iterator[TransactionFinder]:
    """Yield a finder of transactions."""
    connection = settings.connection()
    halves = closing(RecordReader(connection, settings.topics.half))
    with halves as reader, TopicScanner(connection, advance) as scanner:
        yield TransactionFinder(scanner, reader, settings.topics)


def _comes_from(at: Position) -> Wanted:
    partition, offset = b"%d" % at.partition, b"%d" % at.offset

    def does(message: Message) -> bool:
        headers = readable_headers(message)
        return (
            first_value(headers, names.TRAN_PREPARED_QUEUE_OFFSET) == offset
            and first_value(headers, names.TRAN_HALF_QUEUE_ID) == partition
        )

    return does
