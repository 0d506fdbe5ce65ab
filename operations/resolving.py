"""Manual verdicts: an op like any producer's, marked as a person's, and what became of it.

State is never edited: the pipeline checks the op against its half as it checks every other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import TopicPartition

from checkback.operations.history import (
    PENDING,
    HistoryEvent,
    TransactionHistory,
    final_event,
    half_position,
    mark_event,
    refused_event,
)
from checkback.operations.positions import Position
from checkback.operations.scanning import FoundRecord, TopicScanner
from checkback.operations.writing import append
from checkback.protocol import properties as names
from checkback.protocol.errors import NotFoundError, UsageError
from checkback.protocol.records import Op
from checkback.protocol.topics import TopicNames

STATES: Final = {
    "commit": names.TRANSACTION_COMMIT_TYPE,
    "rollback": names.TRANSACTION_ROLLBACK_TYPE,
}


def pending_one(histories: Sequence[TransactionHistory]) -> TransactionHistory | None:
    """Return the one that waits for a verdict, None where all have theirs.

    Args:
        histories: of the transactions that bear one id.

    Raises:
        UsageError: several wait; the id does not say which is meant.
        NotFoundError: it waits, but its half is gone, so nobody can say whose it is.
    """
    pending = [one for one in histories if one.verdict == PENDING]
    if len(pending) > 1:
        places = ", ".join(str(one.half_at) for one in pending)
        raise UsageError(
            f"{len(pending)} pending transactions bear this id.",
            remedy=f"Name one by the position of its half: {places}.",
            positions=[str(one.half_at) for one in pending],
        )
    if pending and not pending[0].of_kind("half"):
        raise NotFoundError(
            f"There is no half message at {pending[0].half_at}.",
            remedy="Check the position; an op needs the group and id that the half has.",
        )
    return pending[0] if pending else None


def manual_op(history: TransactionHistory, verdict: str, *, operator: str, reason: str) -> Op:
    """Return the op that says the verdict.

    Args:
        history: of the transaction.
        verdict: commit or rollback.
        operator: who says it.
        reason: why.
    """
    return Op(
        history.half_at.partition,
        history.half_at.offset,
        history.group,
        history.transaction_id,
        STATES[verdict],
        remark=reason,
        operator=operator,
    )


@dataclass(slots=True)
class Aftermath:
    """What became of an op, as the records after it tell.

    Args:
        topics: the names of the topics.
        half_at: the half that the op names.
        op_at: the op.
    """

    topics: TopicNames
    half_at: Position
    op_at: Position
    verdict: str = PENDING
    final: HistoryEvent | None = None
    final_refused: HistoryEvent | None = None
    op_refused: HistoryEvent | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is to come."""
        if self.op_refused is not None:
            return True
        if self.verdict == "commit":
            return self.final is not None or self.final_refused is not None
        return self.verdict != PENDING

    def take(self, record: FoundRecord) -> None:
        """Take a record in; most speak of others."""
        if record.topic == self.topics.settled:
            mark = mark_event(record, self.half_at)
            if mark is not None and mark.facts["verdict"]:
                self.verdict = mark.facts["verdict"]
        elif record.topic == self.topics.refused:
            self._take_refused(refused_event(record))
        elif half_position(record) == self.half_at:
            self.final = final_event(record)

    def _take_refused(self, event: HistoryEvent) -> None:
        facts = event.facts
        origin = Position(facts["origin_partition"], facts["origin_offset"])
        if (facts["origin_topic"], origin) == (self.topics.op, self.op_at):
            self.op_refused = event
        elif (facts["origin_topic"], origin) == (self.topics.half, self.half_at):
            self.final_refused = event

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        told = {"final": self.final, "final_refused": self.final_refused}
        told["op_refused"] = self.op_refused
        return {
            "verdict": self.verdict,
            **{name: None if event is None else event.as_data() for name, event in told.items()},
        }


@dataclass(slots=True)
class Resolver:
    """Appends a manual op and follows it.

    Args:
        scanner: reads topics.
        connection: librdkafka settings that reach the brokers.
        topics: the names of the topics.
        real_topic: of the transaction.
    """

    scanner: TopicScanner
    connection: dict[str, Any]
    topics: TopicNames
    real_topic: str
    _starts: list[TopicPartition] = field(init=False)

    def __post_init__(self) -> None:
        # Before the op is written, so that nothing that follows from it is missed.
        followed = [self.topics.settled, self.topics.refused, self.real_topic]
        self._starts = self.scanner.ends(dict.fromkeys(followed))

    def resolve(self, op: Op, is_over: Callable[[], bool]) -> Aftermath:
        """Append the op, and return what became of it until all is known or it is over.

        Raises:
            BrokerError: the op is not certainly stored, or the brokers do not answer.
        """
        half_at = Position(op.half_partition, op.half_offset)
        op_at = append(
            self.connection, self.topics.op, half_at.partition, op.key(), op.value(), op.headers()
        )
        aftermath = Aftermath(self.topics, half_at, op_at)
        for record in self.scanner.follow(self._starts, lambda: aftermath.is_complete or is_over()):
            aftermath.take(record)
        return aftermath
