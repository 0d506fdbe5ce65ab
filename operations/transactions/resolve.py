"""Manual verdicts: appends an op in an operator's name and follows what becomes of it.

Nothing edits the state: the pipeline checks this op against its half like every other op.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from checkback.operations.operator_account import operator_signer
from checkback.operations.topics.append import append
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.finder import TransactionFinder
from checkback.operations.transactions.history import (
    DELIVERED_BY,
    PENDING,
    HistoryEvent,
    TransactionHistory,
    final_event,
    half_position,
    mark_event,
    refused_event,
)
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import NotFoundError, UsageError
from checkback.protocol.records import Op, OperatorFacts
from checkback.protocol.topics import TopicNames

STATES: Final = {
    "commit": names.TRANSACTION_COMMIT_TYPE,
    "rollback": names.TRANSACTION_ROLLBACK_TYPE,
}


def pending_one(histories: Sequence[TransactionHistory]) -> TransactionHistory | None:
    """Return the transaction that waits for a verdict, None if every one has its verdict.

    Raises:
        UsageError: several transactions with this id wait.
        NotFoundError: the transaction waits, but its half is gone, and with it group and id.
    """
    pending = [one for one in histories if one.verdict == PENDING]
    if len(pending) > 1:
        places = ", ".join(str(one.half_at) for one in pending)
        raise UsageError(
            f"{len(pending)} pending transactions have this id.",
            remedy=f"Name one by the position of its half: {places}.",
            positions=[str(one.half_at) for one in pending],
        )
    if pending and not pending[0].of_kind("half"):
        raise NotFoundError(
            f"There is no half message at {pending[0].half_at}.",
            remedy="Check the position; an op needs the half's group and transaction id.",
        )
    return pending[0] if pending else None


def manual_op(history: TransactionHistory, verdict: str, *, operator: str, reason: str) -> Op:
    """Return an op with the verdict."""
    return Op(
        history.half_at.partition,
        history.half_at.offset,
        history.group,
        history.transaction_id,
        STATES[verdict],
        remark=reason,
        operator=operator,
    )


@dataclass(frozen=True, slots=True)
class ManualVerdict:
    """A verdict by hand, planned or made.

    Args:
        found: the transactions with the name; all of them have their verdict if there is no op.
        op: the op that was appended, or would be.
        outcome: what became of it, None if it was not appended.
    """

    found: tuple[TransactionHistory, ...]
    op: Op | None = None
    outcome: OpOutcome | None = None


def decide(
    finder: TransactionFinder,
    settings: Settings,
    name: str,
    verdict: str,
    facts: OperatorFacts,
    *,
    wait_s: float | None,
    stored_from_ms: int | None = None,
) -> ManualVerdict:
    """Append an op for the pending transaction with a name, and wait `wait_s` for the verdict.

    The name is the transaction id or the position of the half. Without `wait_s` only plan the op.

    Raises:
        NotFoundError: there is no such transaction, or its half is gone.
        UsageError: several pending transactions have this id.
        ConfigurationError: access control is on, and no account is set.
        BrokerError: the op may not be stored, or the brokers do not answer.
    """
    signer = operator_signer(settings)
    found = finder.find(name, stored_from_ms=stored_from_ms)
    history = pending_one(found)
    if history is None:
        return ManualVerdict(tuple(found))
    op = manual_op(history, verdict, operator=facts.operator, reason=facts.reason)
    if wait_s is None:
        return ManualVerdict((history,), op)
    topics, half_at, scanner = settings.topics, history.half_at, finder.scanner
    # Before the op is written, so that no record about it is missed.
    starts = scanner.ends(dict.fromkeys([topics.settled, topics.refused, history.real_topic]))
    until_s = time.monotonic() + wait_s
    key, value, headers = op.key(), op.value(), op.headers()
    if signer is not None:
        headers = signer.op(topics.op, half_at.partition, key, value, headers)
    op_at = append(settings.connection(), topics.op, half_at.partition, key, value, headers)
    outcome = OpOutcome(topics, half_at, op_at)
    for record in scanner.follow(starts, lambda: outcome.is_complete or time.monotonic() > until_s):
        outcome.take(record)
    return ManualVerdict((history,), op, outcome)


@dataclass(slots=True)
class OpOutcome:
    """What became of an op, read from the records after it.

    Attributes:
        is_delivered: whether a relay wrote the final message, before the job settled the half; it
            may stand before the op, so the command does not wait for it.
    """

    topics: TopicNames
    half_at: Position
    op_at: Position
    verdict: str = PENDING
    is_delivered: bool = False
    final: HistoryEvent | None = None
    final_refused: HistoryEvent | None = None
    op_refused: HistoryEvent | None = None

    @property
    def is_complete(self) -> bool:
        """Whether no further record will come."""
        if self.op_refused is not None:
            return True
        if self.verdict == "commit":
            return self.is_delivered or self.final is not None or self.final_refused is not None
        return self.verdict != PENDING

    def take(self, record: FoundRecord) -> None:
        """Note what a record says about the op; most records do not concern it."""
        if record.topic == self.topics.settled:
            mark = mark_event(record, self.half_at)
            if mark is not None and mark.facts["verdict"]:
                self.verdict = mark.facts["verdict"]
                self.is_delivered = DELIVERED_BY.get(mark.facts["mark"]) == "relay"
        elif record.topic == self.topics.refused:
            self._take_refused(refused_event(record))
        elif half_position(record) == self.half_at:
            self.final = final_event(record)

    def _take_refused(self, event: HistoryEvent) -> None:
        if event.kind != "refused":
            return
        facts = event.facts
        origin = Position(facts["origin_partition"], facts["origin_offset"])
        if (facts["origin_topic"], origin) == (self.topics.op, self.op_at):
            self.op_refused = event
        elif (facts["origin_topic"], origin) == (self.topics.half, self.half_at):
            self.final_refused = event

    def matches(self, verdict: str) -> bool:
        """Return whether the transaction got that verdict and nothing was refused."""
        return self.is_complete and self.verdict == verdict and self.final_refused is None

    def as_text(self) -> str:
        """Return the outcome as one sentence."""
        if self.op_refused is not None:
            return f"The op was refused: {self.op_refused.facts['says']}."
        if self.final_refused is not None:
            return f"Committed, but not delivered: {self.final_refused.facts['says']}."
        if self.is_delivered:
            return "Committed; a relay delivered the final message."
        if self.final is not None:
            return f"Committed; the final message is {self.final.topic} {self.final.at}."
        if not self.is_complete:
            return (
                f"The op is {self.op_at} on the op topic; there was no verdict in time. Is the "
                "pipeline running?"
            )
        return f"The verdict is {self.verdict}."

    def as_data(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        events = {"final": self.final, "final_refused": self.final_refused}
        events["op_refused"] = self.op_refused
        return {
            "verdict": self.verdict,
            **{name: None if event is None else event.as_data() for name, event in events.items()},
        }
