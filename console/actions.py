"""What operators do from the console: each action is previewed, then confirmed.

An action does what its command does, by the same code of ``operations``: it appends records in the
operator's name, with the reason, and never edits state. A further one is one more class in
`all_actions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from checkback.console.facts import KafkaFacts
from checkback.operations.parked.discarded import DiscardedHalf
from checkback.operations.parked.filter import ParkedRecord, RecordFilter
from checkback.operations.parked.noted_transaction import ActionReport, Parked, RecordAction
from checkback.operations.parked.refused import RefusedRecord
from checkback.operations.parked.resend import resend
from checkback.operations.parked.resume import resume
from checkback.operations.topics.position import Position
from checkback.operations.transactions.finder import open_finder
from checkback.operations.transactions.history import TransactionHistory
from checkback.operations.transactions.resolve import STATES, ManualVerdict, decide
from checkback.protocol.errors import UsageError
from checkback.protocol.records import OperatorFacts

VERDICT_WAIT_S: Final = 15.0
REASON_CHARACTERS_MAX: Final = 500

Facts = Sequence[tuple[str, str]]
"""Names and values, to be shown."""


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An operator's form: what to do with which record, and why."""

    target: str
    choice: str
    reason: str
    operator: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action would do."""

    says: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What an action did.

    Args:
        is_as_asked: whether what was asked came true; else it was refused, or is not yet known.
        transaction: position of the half to look at next.
    """

    is_as_asked: bool
    says: str
    facts: Facts
    transaction: str = ""


class OperatorAction(Protocol):
    """An action that operators perform from the console."""

    title: ClassVar[str]
    choices: ClassVar[Mapping[str, str]]
    back: ClassVar[str]
    """The page to go back to, with {} for the target where the page has it in its address."""

    def preview(self, asked: ActionRequest) -> Preview:
        """Return what would be done, or raise a CheckbackError if it can't be."""
        ...

    def perform(self, asked: ActionRequest) -> ActionResult:
        """Perform the action; return its result."""
        ...


@dataclass(frozen=True, slots=True)
class Resolve:
    """Commits or rolls back a pending transaction."""

    facts: KafkaFacts
    wait_s: float = VERDICT_WAIT_S

    title: ClassVar[str] = "Decide a transaction"
    choices: ClassVar[Mapping[str, str]] = {"commit": "Commit", "rollback": "Roll back"}
    back: ClassVar[str] = "/transactions/{}"

    def preview(self, asked: ActionRequest) -> Preview:
        """Return which op would be appended."""
        history = self._decided(asked, None).found[0]
        become = (
            f"Its message is delivered to {history.real_topic}."
            if asked.choice == "commit"
            else f"Its message never reaches {history.real_topic}."
        )
        says = f"Appends an op that says {asked.choice}, in the name of {asked.operator}. {become}"
        return Preview(f"{says} A verdict is final.", _transaction_facts(history))

    def perform(self, asked: ActionRequest) -> ActionResult:
        """Append the op and wait for the verdict."""
        done = self._decided(asked, self.wait_s)
        outcome, [history] = done.outcome, done.found
        assert outcome is not None  # noqa: S101 - it was waited for
        return ActionResult(
            outcome.matches(asked.choice),
            outcome.as_text(),
            [*_transaction_facts(history), ("Op", str(outcome.op_at))],
            str(history.half_at),
        )

    def _decided(self, asked: ActionRequest, wait_s: float | None) -> ManualVerdict:
        settings = self.facts.settings
        who = OperatorFacts(asked.operator, asked.reason, self.facts.now_ms())
        with open_finder(settings) as finder:
            done = decide(finder, settings, asked.target, asked.choice, who, wait_s=wait_s)
        if done.op is None:
            said = ", ".join(f"{one.half_at}: {one.verdict}" for one in done.found)
            raise UsageError(
                f"The transaction has its verdict already ({said}); nothing is appended."
            )
        return done


@dataclass(frozen=True, slots=True)
class Resume:
    """Writes a discarded message as a new half."""

    facts: KafkaFacts

    title: ClassVar[str] = "Resume a discarded message"
    choices: ClassVar[Mapping[str, str]] = {"resume": "Resume"}
    back: ClassVar[str] = "/discarded"

    def preview(self, asked: ActionRequest) -> Preview:
        """Return which record would be resumed."""
        half = self._resumed(asked, is_certain=False).parked
        says = (
            "Writes the message as a new half, with check requests counted from zero. The"
            " discarded record stays, and a note beside it names the new half."
        )
        return Preview(says, _discarded_facts(half))

    def perform(self, asked: ActionRequest) -> ActionResult:
        """Write the new half and the note."""
        one = self._resumed(asked, is_certain=True)
        says = f"Resumed: the new half is {one.to}."
        return ActionResult(True, says, _discarded_facts(one.parked), transaction=one.to)

    def _resumed(self, asked: ActionRequest, *, is_certain: bool) -> RecordAction[DiscardedHalf]:
        with self.facts.scanner() as scanner:
            settings, chosen = self.facts.settings, _chosen(asked, self.facts)
            done = resume(scanner, settings, *chosen, is_certain=is_certain)
        return _only(done, "resumed", lambda half: f"the new half is {half.resumed_to}")


@dataclass(frozen=True, slots=True)
class Resend:
    """Sends the final message of a refused record."""

    facts: KafkaFacts

    title: ClassVar[str] = "Send a refused final message again"
    choices: ClassVar[Mapping[str, str]] = {"resend": "Send"}
    back: ClassVar[str] = "/refused"

    def preview(self, asked: ActionRequest) -> Preview:
        """Return which final would be sent."""
        refused = self._resent(asked, is_certain=False).parked
        says = (
            f"Writes the final message to {refused.real_topic}, as the pipeline would have. The"
            " refused record stays, and a note beside it names the final."
        )
        return Preview(says, _record_facts("Refused record", refused))

    def perform(self, asked: ActionRequest) -> ActionResult:
        """Write the final and the note."""
        one = self._resent(asked, is_certain=True)
        at, says = one.parked.origin, f"Sent: the final message is {one.to}."
        half = "" if at is None else f"{at.partition}:{at.offset}"
        return ActionResult(True, says, _record_facts("Refused record", one.parked), half)

    def _resent(self, asked: ActionRequest, *, is_certain: bool) -> RecordAction[RefusedRecord]:
        with self.facts.scanner() as scanner:
            settings, chosen = self.facts.settings, _chosen(asked, self.facts)
            done = resend(scanner, settings, *chosen, is_certain=is_certain)
        return _only(done, "sent", lambda final: f"the final message is {final.resent_to}")


def _only(
    report: ActionReport[Parked], done: str, outcome: Callable[[Parked], str]
) -> RecordAction[Parked]:
    """Return the one action of a report; refuse one that was done before, or can't be done."""
    if report.already:
        raise UsageError(f"It was {done} already: {outcome(report.already[0])}.")
    if report.stuck:
        obstacle = report.stuck[0].obstacle
        raise UsageError(f"It can't be {done}: {obstacle}.", remedy="Mend that first.")
    return report.done[0]


def all_actions(facts: KafkaFacts) -> dict[str, OperatorAction]:
    """Return the actions by name."""
    return {"resolve": Resolve(facts), "resume": Resume(facts), "resend": Resend(facts)}


def parse_request(action: OperatorAction, form: Mapping[str, str], operator: str) -> ActionRequest:
    """Return what a form asks for.

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
    return ActionRequest(target, choice, reason, operator)


assert set(Resolve.choices) == set(STATES)  # noqa: S101 - one list of verdicts


def _chosen(asked: ActionRequest, facts: KafkaFacts) -> tuple[RecordFilter, OperatorFacts]:
    at = Position.parse(asked.target)
    if at is None:
        raise UsageError(f"{asked.target!r} is not a position.", remedy="Write partition:offset.")
    who = OperatorFacts(asked.operator, asked.reason, facts.now_ms())
    return RecordFilter(name=str(at)), who


def _transaction_facts(history: TransactionHistory) -> Facts:
    return [
        ("Transaction", history.transaction_id),
        ("Half", str(history.half_at)),
        ("Group", history.group),
        ("Real topic", history.real_topic),
        ("Verdict before", history.verdict),
    ]


def _discarded_facts(half: DiscardedHalf) -> Facts:
    checks = str(half.as_data()["check_times"])
    return [*_record_facts("Discarded record", half), ("Check requests", checks)]


def _record_facts(title: str, parked: ParkedRecord) -> Facts:
    return [
        (title, str(parked.record.at)),
        ("Transaction", parked.transaction_id),
        ("Group", parked.group),
        ("Real topic", parked.real_topic),
        ("Reason", parked.reason),
    ]
