"""Resuming discarded halves: each begins anew, once.

The new half and a note of it on the discarded topic are one Kafka transaction, so that a second
resumption sees the first. One operator at a time: a second one's start ends the first one's
transaction (one transactional id per deployment), and only after that the notes are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from checkback.operations.discarded import DiscardedHalf
from checkback.operations.positions import Position
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, FencedError
from checkback.protocol.properties import Headers
from checkback.protocol.records import resume_note_headers, resumed_half_headers
from checkback.protocol.topics import HEADER_ROOM_BYTES
from checkback.sinks.kafka_error import cause_of
from checkback.sinks.transaction import FENCED_CODES, SentHeaders

TIMEOUT_S: Final = 60.0
HALVES_PER_TRANSACTION: Final = 100
BY_KEY: Final = -1


@dataclass(frozen=True, slots=True)
class ResumeFacts:
    """Who resumes, why and when: stays on the new half and in the note."""

    operator: str
    reason: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """A discarded half that began anew.

    Args:
        half: the discarded one.
        to: where the new half is.
    """

    half: DiscardedHalf
    to: Position


class Resumer:
    """Writes new halves. Its making ends whatever resumption another one has under way.

    Args:
        settings: names of topics, sizes, name of the deployment.
        connection: librdkafka settings that reach the brokers.
        half_partitions: of the half topic.

    Raises:
        BrokerError: the brokers do not answer, or do not allow it.
    """

    def __init__(
        self, settings: Settings, connection: dict[str, Any], half_partitions: int
    ) -> None:
        self._topics = settings.topics
        self._half_partitions = half_partitions
        self._producer = Producer(
            {
                **connection,
                "partitioner": "murmur2_random",  # as every other of our producers
                "transactional.id": f"{settings.application_id}-resume",
                "message.max.bytes": settings.max_message_bytes + 3 * HEADER_ROOM_BYTES,
                "log_level": 2,
            }
        )
        try:
            self._producer.init_transactions(TIMEOUT_S)
        except KafkaException as error:
            raise _explained(error) from error

    def resume(self, halves: Sequence[DiscardedHalf], facts: ResumeFacts) -> list[Resumed]:
        """Write a new half and a note for each, all of them or none.

        Args:
            halves: at most HALVES_PER_TRANSACTION.
            facts: for the audit.

        Raises:
            FencedError: somebody else resumes at the same time; nothing of these is resumed.
            BrokerError: Kafka did not take them, or did not say so in time; the next Resumer
                ends the transaction, and the notes then tell which way.
        """
        try:
            self._producer.begin_transaction()
            resumed = self._write(halves, facts)
            self._producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            self._abort()
            raise _explained(error) from error
        return resumed

    def _write(self, halves: Sequence[DiscardedHalf], facts: ResumeFacts) -> list[Resumed]:
        stored: dict[int, Position] = {}
        for number, half in enumerate(halves):
            self._produce_half(half, facts, number, stored)
        self._producer.flush(TIMEOUT_S)
        if len(stored) < len(halves):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "not all halves were stored"))
        resumed = [Resumed(half, stored[number]) for number, half in enumerate(halves)]
        for one in resumed:
            self._produce_note(one, facts)
        return resumed

    def _produce_half(
        self, half: DiscardedHalf, facts: ResumeFacts, number: int, stored: dict[int, Position]
    ) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                stored[number] = Position(message.partition() or 0, message.offset() or 0)

        headers = resumed_half_headers(
            half.record.headers,
            resumed_from=str(half.record.at),
            operator=facts.operator,
            reason=facts.reason,
            now_ms=facts.now_ms,
        )
        origin = half.half_at
        known = origin is not None and origin.partition < self._half_partitions
        self._producer.produce(
            self._topics.half,
            half.record.value,
            half.record.key,
            origin.partition if origin is not None and known else BY_KEY,
            headers=_sent(headers),
            on_delivery=delivered,
        )

    def _produce_note(self, resumed: Resumed, facts: ResumeFacts) -> None:
        record = resumed.half.record
        headers = resume_note_headers(
            record.headers,
            resumed_from=str(record.at),
            resumed_to=str(resumed.to),
            operator=facts.operator,
            reason=facts.reason,
            now_ms=facts.now_ms,
        )
        self._producer.produce(
            self._topics.discarded, None, record.key, record.at.partition, headers=_sent(headers)
        )

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(TIMEOUT_S)
        except KafkaException:
            return  # fenced, or unreachable: the broker ends the transaction itself


def _sent(headers: Headers) -> SentHeaders:
    return cast("SentHeaders", headers)


def _explained(error: KafkaException) -> BrokerError | FencedError:
    cause = cause_of(error)
    if cause.code() in FENCED_CODES:
        return FencedError(
            "Somebody else began to resume discarded messages.",
            remedy="See `checkback discarded list` for what was resumed, then try again.",
        )
    return BrokerError(
        f"Kafka did not take the resumed messages: {cause.str()}.",
        remedy="Check the brokers and that this user may write to the half and discarded topics"
        " with this deployment's transactional ids.",
        code=cause.name(),
    )
