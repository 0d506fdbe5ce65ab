"""What operators do from the console: each action is previewed, then confirmed.

An action does what its command does, by the same code of ``operations``: it appends records in the
operator's name, with the reason, and never edits state. A further one is one more class in
`all_actions`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from checkback.console.kafka_facts import KafkaFacts
from checkback.operations.discarded import DiscardedHalf
from checkback.operations.history import TransactionHistory
from checkback.operations.positions import Position
from checkback.operations.record_filter import RecordFilter
from checkback.operations.refused import RefusedRecord
from checkback.operations.resending import Resent, chosen_records, open_resender, resend_records
from checkback.operations.resolving import STATES, Resolver, manual_op, pending_one
from checkback.operations.resuming import chosen_halves, resume_chosen
from checkback.operations.signing import operator_signer
from checkback.operations.transactions import open_finder
from checkback.protocol.errors import NotFoundError, UsageError
from checkback.protocol.records import OperatorFacts

VERDICT_WAIT_S: Final = 15.0
REASON_CHARACTERS_MAX: Final = 500

Facts = Sequence[tuple[str, str]]
"""Names and values, to be shown."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What an operator wants done.

    Args:
        target: position of the half, or of the discarded or refused record.
        choice: one of the action's choices.
        reason: why; the records keep it.
        operator: who; the records keep it.
    """

    target: str
    choice: str
    reason: str
    operator: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action would do.

    Args:
        says: it in one sentence.
        facts: what it is about.
    """

    says: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Deed:
    """What an action did.

    Args:
        is_as_wished: whether the wish came true; else it was refused, or is not yet known.
        says: what happened, in one sentence.
        facts: what it is about.
        transaction: position of the half to look at next.
    """

    is_as_wished: bool
    says: str
    facts: Facts
    transaction: str = ""


class OperatorAction(Protocol):
    """One thing that operators do."""

    title: ClassVar[str]
    choices: ClassVar[Mapping[str, str]]
    back: ClassVar[str]
    """The page to go back to, with {} for the target where the page has it in its address."""

    def preview(self, wish: Wish) -> Preview:
        """Return what would be done, or raise a CheckbackError if it can't be."""
        ...

    def perform(self, wish: Wish) -> Deed:
        """Do it, and return what became of it."""
        ...


@dataclass(frozen=True, slots=True)
class Resolve:
    """Commits or rolls back a pending transaction.

    Args:
        facts: asks Kafka.
        wait_s: how long to wait for the verdict.
    """

    facts: KafkaFacts
    wait_s: float = VERDICT_WAIT_S

    title: ClassVar[str] = "Decide a transaction"
    choices: ClassVar[Mapping[str, str]] = {"commit": "Commit", "rollback": "Roll back"}
    back: ClassVar[str] = "/transactions/{}"

    def preview(self, wish: Wish) -> Preview:
        """Return which op would be appended."""
        with open_finder(self.facts.settings) as finder:
            history = _pending(finder.find(wish.target))
        become = (
            f"Its message is delivered to {history.real_topic}."
            if wish.choice == "commit"
            else f"Its message never reaches {history.real_topic}."
        )
        says = f"Appends an op that says {wish.choice}, in the name of {wish.operator}. {become}"
        return Preview(f"{says} A verdict is final.", _transaction_facts(history))

    def perform(self, wish: Wish) -> Deed:
        """Append the op and wait for the verdict."""
        settings = self.facts.settings
        connection = settings.connection()
        signer = operator_signer(settings)
        with open_finder(settings) as finder:
            history = _pending(finder.find(wish.target))
            op = manual_op(history, wish.choice, operator=wish.operator, reason=wish.reason)
            resolver = Resolver(
                finder.scanner, connection, settings.topics, history.real_topic, signer
            )
            until_s = time.monotonic() + self.wait_s
            aftermath = resolver.resolve(op, lambda: time.monotonic() > until_s)
        return Deed(
            aftermath.is_as_asked(wish.choice),
            aftermath.as_text(),
            [*_transaction_facts(history), ("Op", str(aftermath.op_at))],
            str(history.half_at),
        )


@dataclass(frozen=True, slots=True)
class Resume:
    """Writes a discarded message as a new half.

    Args:
        facts: asks Kafka.
    """

    facts: KafkaFacts

    title: ClassVar[str] = "Resume a discarded message"
    choices: ClassVar[Mapping[str, str]] = {"resume": "Resume"}
    back: ClassVar[str] = "/discarded"

    def preview(self, wish: Wish) -> Preview:
        """Return which record would be resumed."""
        at = _position(wish.target)
        with self.facts.scanner() as scanner:
            found = chosen_halves(scanner, self.facts.settings.topics, RecordFilter(name=str(at)))
        half = _not_resumed(found, wish.target)
        return Preview(
            "Writes the message as a new half whose check requests count from zero. The discarded"
            " record stays, and a note beside it names the new half.",
            _discarded_facts(half),
        )

    def perform(self, wish: Wish) -> Deed:
        """Write the new half and the note."""
        wanted = RecordFilter(name=str(_position(wish.target)))
        told = OperatorFacts(wish.operator, wish.reason, self.facts.now_ms())
        with self.facts.scanner() as scanner:
            before, resumed = resume_chosen(scanner, self.facts.settings, wanted, told)
        if not resumed:
            _not_resumed(before, wish.target)
        [one] = resumed
        says = f"Resumed: the new half is {one.to}."
        return Deed(is_as_wished=True, says=says, facts=_discarded_facts(one.half),
                    transaction=str(one.to))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resend:
    """Sends the final message of a refused record.

    Args:
        facts: asks Kafka.
    """

    facts: KafkaFacts

    title: ClassVar[str] = "Send a refused final message again"
    choices: ClassVar[Mapping[str, str]] = {"resend": "Send"}
    back: ClassVar[str] = "/refused"

    def preview(self, wish: Wish) -> Preview:
        """Return which final would be sent."""
        one = self._resent(wish, is_certain=False)
        return Preview(
            f"Writes the final message to {one.refused.real_topic}, as the pipeline would have. The"
            " refused record stays, and a note beside it names the final.",
            _refused_facts(one.refused),
        )

    def perform(self, wish: Wish) -> Deed:
        """Write the final and the note."""
        one = self._resent(wish, is_certain=True)
        at = one.refused.origin
        return Deed(
            is_as_wished=True,
            says=f"Sent: the final message is {one.to}.",
            facts=_refused_facts(one.refused),
            transaction="" if at is None else f"{at.partition}:{at.offset}",
        )

    def _resent(self, wish: Wish, *, is_certain: bool) -> Resent:
        settings, at = self.facts.settings, _position(wish.target)
        told = OperatorFacts(wish.operator, wish.reason, self.facts.now_ms())
        # Before reading the record: this ends what another operator has begun to send.
        sender = open_resender(settings, is_certain=is_certain)
        with self.facts.scanner() as scanner:
            found = chosen_records(scanner, settings, RecordFilter(name=str(at)))
            record = _not_resent(found, wish.target)
            [one] = resend_records(scanner, settings, [record], told, sender)
        if one.obstacle:
            raise UsageError(f"It can't be sent: {one.obstacle}.", remedy="Mend that first.")
        return one


def all_actions(facts: KafkaFacts) -> dict[str, OperatorAction]:
    """Return the actions by name."""
    return {"resolve": Resolve(facts), "resume": Resume(facts), "resend": Resend(facts)}


def checked_wish(action: OperatorAction, form: Mapping[str, str], operator: str) -> Wish:
    """Return what a form asks for.

    Args:
        action: which action the form is for.
        form: its fields ``target``, ``choice`` and ``reason``.
        operator: who sent it.

    Raises:
        UsageError: a field is missing or wrong.
    """
    target, choice = form.get("target", "").strip(), form.get("choice", "")
    reason = " ".join(form.get("reason", "").split())
    if choice not in action.choices:
        raise UsageError(f"Choose one of: {', '.join(action.choices.values())}.")
    if not target:
        raise UsageError(
            "The form names no transaction and no record.",
            remedy="Begin on the page of the transaction or the record.",
        )
    if not reason or len(reason) > REASON_CHARACTERS_MAX:
        raise UsageError(
            "Give a reason of at most 500 characters.", remedy="The records keep it, for others."
        )
    return Wish(target, choice, reason, operator)


assert set(Resolve.choices) == set(STATES)  # noqa: S101 - one list of verdicts


def _pending(found: Sequence[TransactionHistory]) -> TransactionHistory:
    history = pending_one(found)
    if history is None:
        said = ", ".join(f"{one.half_at}: {one.verdict}" for one in found)
        raise UsageError(f"The transaction has its verdict already ({said}); nothing is appended.")
    return history


def _position(target: str) -> Position:
    at = Position.parse(target)
    if at is None:
        raise UsageError(f"{target!r} is not a position.", remedy="Write partition:offset.")
    return at


def _not_resumed(found: Sequence[DiscardedHalf], name: str) -> DiscardedHalf:
    if not found:
        raise NotFoundError(f"No discarded record {name} was found.", remedy="Look at the list.")
    if found[0].resumed_to:
        raise UsageError(f"It was resumed already: the new half is {found[0].resumed_to}.")
    return found[0]


def _not_resent(found: Sequence[RefusedRecord], name: str) -> RefusedRecord:
    if not found:
        raise NotFoundError(f"No refused record {name} was found.", remedy="Look at the list.")
    if found[0].resent_to:
        raise UsageError(f"It was sent already: the final message is {found[0].resent_to}.")
    return found[0]


def _transaction_facts(history: TransactionHistory) -> Facts:
    return [
        ("Transaction", history.transaction_id),
        ("Half", str(history.half_at)),
        ("Group", history.group),
        ("Real topic", history.real_topic),
        ("Verdict before", history.verdict),
    ]


def _discarded_facts(half: DiscardedHalf) -> Facts:
    told: dict[str, Any] = half.as_data()
    return [
        ("Discarded record", str(half.record.at)),
        ("Transaction", half.transaction_id),
        ("Group", half.group),
        ("Real topic", half.real_topic),
        ("Reason", half.reason),
        ("Check requests", str(told["check_times"])),
    ]


def _refused_facts(record: RefusedRecord) -> Facts:
    return [
        ("Refused record", str(record.record.at)),
        ("Transaction", record.transaction_id),
        ("Group", record.group),
        ("Real topic", record.real_topic),
        ("Reason", record.reason),
    ]
