"""Resumes discarded halves: each is sent once as a new half.

The new half and a note on the discarded topic are one Kafka transaction, so that a second
resumption sees the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from checkback.operations.discarded import DiscardedHalf, discarded_halves
from checkback.operations.operator_producer import TIMEOUT_S, abort, explained, open_producer
from checkback.operations.positions import Position
from checkback.operations.record_filter import RecordFilter
from checkback.operations.refused import untaken_halves
from checkback.operations.scanning import TopicScanner
from checkback.operations.signing import operator_signer
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, PrerequisiteError
from checkback.protocol.records import OperatorFacts, note_headers, resumed_half_headers
from checkback.protocol.signed_content import is_in_time
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.errors import FENCED_CODES, PURGED_CODES, UNQUEUED_CODES, cause_of
from checkback.sinks.kafka.sink_record import BY_KEY, sent_headers

HALVES_PER_TRANSACTION: Final = 100
CLOCKS_APART_MS: Final = 600_000
"""More than an operator's clock may be wrong, whose time a note may have."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A discarded half that was resumed.

    Args:
        half: the discarded half.
        to: the position of the new half.
    """

    half: DiscardedHalf
    to: Position


class Resumer:
    """Writes new halves. Creating a Resumer aborts a resumption that another one has begun.

    Args:
        settings: topic names, sizes and the deployment's name.
        connection: librdkafka's settings for the connection.
        half_partitions: number of partitions of the half topic.

    Raises:
        BrokerError: the brokers do not answer, or do not allow this.
        ConfigurationError: access control is on, and no account is set.
    """

    def __init__(
        self, settings: Settings, connection: dict[str, Any], half_partitions: int
    ) -> None:
        self._topics = settings.topics
        self._signer = operator_signer(settings)
        self._half_partitions = half_partitions
        self._is_untimely = False
        self._open: Callable[[], Producer] = lambda: open_producer(settings, connection, "resume")
        self._producer = self._open()
        self.rejected: dict[Position, str] = {}
        """What the brokers said of halves that they did not take, by their discarded record."""

    def resume(self, halves: Sequence[DiscardedHalf], facts: OperatorFacts) -> list[Resumed]:
        """Write a new half and a note for each record, all of them or none.

        When the brokers reject one of several, each is tried by itself.

        Args:
            halves: the records to resume, at most HALVES_PER_TRANSACTION.
            facts: who, why and when.

        Raises:
            FencedError: another operator resumes at the same time; none of these was resumed.
            BrokerError: Kafka refused, or did not confirm in time. The next Resumer ends the
                transaction, and then the notes show whether it was committed.
            PrerequisiteError: the pipeline would refuse what the clock of this machine has signed.
        """
        rejections: list[str] = []
        try:
            self._producer.begin_transaction()
            resumed = self._write(halves, facts, rejections)
            if not rejections:
                self._producer.commit_transaction(TIMEOUT_S)
                return resumed
        except KafkaException as error:
            if not rejections:
                abort(self._producer)
                raise explained(error, "resume") from error
        except PrerequisiteError:
            abort(self._producer)
            raise
        # A producer that was rejected can't be used again: the next one ends its transaction.
        self._producer.purge()
        self._producer = self._open()
        if len(halves) == 1:
            self.rejected[halves[0].record.at] = rejections[0]
            return []
        return [one for half in halves for one in self.resume([half], facts)]

    def _write(
        self, halves: Sequence[DiscardedHalf], facts: OperatorFacts, rejections: list[str]
    ) -> list[Resumed]:
        stored: dict[int, Position] = {}
        for number, half in enumerate(halves):
            self._produce_half(half, facts, number, stored, rejections)
        self._producer.flush(TIMEOUT_S)
        if rejections:
            return []
        if len(stored) < len(halves):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "not all halves were stored"))
        if self._is_untimely:
            raise PrerequisiteError(
                "The clock of this machine is more than 5 minutes from the brokers', and the"
                " pipeline would refuse what it has signed. Nothing was resumed.",
                remedy="Set the clock by NTP.",
            )
        resumed = [Resumed(half, stored[number]) for number, half in enumerate(halves)]
        for one in resumed:
            self._produce_note(one, facts)
        return resumed

    def _produce_half(
        self,
        half: DiscardedHalf,
        facts: OperatorFacts,
        number: int,
        stored: dict[int, Position],
        rejections: list[str],
    ) -> None:
        headers = resumed_half_headers(half.record.headers, str(half.record.at), facts)
        key, value = half.record.key, half.record.value
        signed_at_ms = None
        if self._signer is not None:
            signed_at_ms = self._signer.now_ms()
            headers = self._signer.half(self._topics.half, key, value, headers)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                stored[number] = Position(message.partition() or 0, message.offset() or 0)
                kind, stored_at_ms = message.timestamp()
                if signed_at_ms is not None and kind == TIMESTAMP_LOG_APPEND_TIME:
                    self._is_untimely |= not is_in_time(signed_at_ms, stored_at_ms)
            elif error.code() not in PURGED_CODES | FENCED_CODES:
                rejections.append(error.str())

        origin = half.half_at
        known = origin is not None and origin.partition < self._half_partitions
        try:
            self._producer.produce(
                self._topics.half,
                value,
                key,
                origin.partition if origin is not None and known else BY_KEY,
                headers=sent_headers(headers),
                on_delivery=delivered,
            )
        except KafkaException as error:
            if cause_of(error).code() not in UNQUEUED_CODES:
                raise
            rejections.append(cause_of(error).str())

    def _produce_note(self, resumed: Resumed, facts: OperatorFacts) -> None:
        record = resumed.half.record
        source, target = str(record.at), str(resumed.to)
        headers = note_headers(record.headers, names.RESUME, source, target, facts)
        self._producer.produce(
            self._topics.discarded,
            None,
            record.key,
            record.at.partition,
            headers=sent_headers(headers),
        )


def chosen_halves(
    scanner: TopicScanner, topics: TopicNames, wanted: RecordFilter
) -> list[DiscardedHalf]:
    """Return the discarded halves that a filter chooses, oldest first.

    One whose new half was refused was not resumed: its account is no admin, or new transactions
    are rejected. It can be resumed once more.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    found = [one for one in discarded_halves(scanner.scan(topics.discarded)) if wanted.takes(one)]
    resumed_at_ms = [one.resumed_at_ms for one in found if one.resumed_to]
    if not resumed_at_ms:
        return found
    refused = scanner.scan(topics.refused, from_ms=min(resumed_at_ms) - CLOCKS_APART_MS)
    untaken = untaken_halves(refused, topics.half)
    return [replace(one, resumed_to="") if one.resumed_to in untaken else one for one in found]


def resume_chosen(
    scanner: TopicScanner, settings: Settings, wanted: RecordFilter, facts: OperatorFacts
) -> tuple[list[DiscardedHalf], list[Resumed]]:
    """Resume the discarded halves that a filter chooses and that were not resumed yet.

    Args:
        scanner: reads topics.
        settings: brokers, topic names, sizes and the deployment's name.
        wanted: chooses the records.
        facts: who, why and when.

    Returns:
        The chosen records as they were before, and what was resumed.

    Raises:
        FencedError: another operator resumes at the same time.
        BrokerError: Kafka refused, or did not confirm in time.
    """
    connection = settings.connection()
    half_partitions = len(scanner.partitions(settings.topics.half))
    # Before reading the records: this ends a resumption that another operator has begun.
    resumer = Resumer(settings, connection, half_partitions)
    found = chosen_halves(scanner, settings.topics, wanted)
    resumed: list[Resumed] = []
    left = [one for one in found if not one.resumed_to]
    for first in range(0, len(left), HALVES_PER_TRANSACTION):
        resumed += resumer.resume(left[first : first + HALVES_PER_TRANSACTION], facts)
    if resumer.rejected:
        raise _rejected(resumer.rejected, len(resumed))
    return found, resumed


def _rejected(rejected: Mapping[Position, str], others: int) -> BrokerError:
    at, said = next(iter(rejected.items()))
    return BrokerError(
        f"The brokers did not take {len(rejected)} of the halves, first that of {at}: "
        f"{said.rstrip('.')}. The {others} others were resumed.",
        remedy="Raise the half topic's max.message.bytes for one that is too large.",
        rejected=[str(one) for one in rejected],
    )
