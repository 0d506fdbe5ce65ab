"""The audit: reads the topics and compares them with the order service's database.

The database is the truth. The message of a committed order has to be on its real topic once, byte
for byte. No other message may be there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from confluent_kafka import Message

from checkback.demo.fates import REAL_TOPICS, Ending
from checkback.demo.orders import OrderTruth
from checkback.protocol import properties as names
from checkback.protocol.properties import ERROR_HEADER_PREFIX
from checkback.protocol.topics import TopicNames
from checkback.testing.topics import read_topic


class FindingKind(StrEnum):
    """Kinds of findings."""

    NOT_SENT = "not_sent"
    MISSING = "missing"
    DOUBLED = "doubled"
    WRONGLY_THERE = "wrongly_there"
    BODY_DIFFERS = "body_differs"
    NOT_DISCARDED = "not_discarded"
    WRONGLY_DISCARDED = "wrongly_discarded"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that the audit found wrong."""

    kind: FindingKind
    order_id: str
    text: str


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record on a topic.

    Args:
        order_id: its key as text, empty if it has none.
        note: the reason of a refused record.
    """

    topic: str
    order_id: str
    body: bytes
    note: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All records on the topics, as a reader of committed records sees them."""

    halves: Sequence[SeenRecord] = ()
    finals: Sequence[SeenRecord] = ()
    discarded: Sequence[SeenRecord] = ()
    refused: Sequence[SeenRecord] = ()
    check_requests: Mapping[str, int] = field(default_factory=dict)
    check_answers: Mapping[str, int] = field(default_factory=dict)


def audit(truths: Sequence[OrderTruth], evidence: Evidence) -> list[AuditFinding]:
    """Return everything that is wrong, ordered like the orders; empty if nothing is."""
    found = [_by_order(one) for one in (evidence.halves, evidence.finals, evidence.discarded)]
    findings = [
        AuditFinding(kind, truth.order.order_id, text)
        for truth in truths
        for kind, text in _audited(truth, *(of[truth.order.order_id] for of in found))
    ]
    known = {truth.order.order_id for truth in truths}
    for seen in (*evidence.finals, *evidence.discarded):
        if seen.order_id not in known:
            text = f"on {seen.topic}, but no order has that key"
            findings.append(AuditFinding(FindingKind.WRONGLY_THERE, seen.order_id, text))
    for seen in evidence.refused:
        text = f"on {seen.topic}: {seen.note}"
        findings.append(AuditFinding(FindingKind.REFUSED, seen.order_id, text))
    return findings


def _by_order(records: Iterable[SeenRecord]) -> defaultdict[str, list[SeenRecord]]:
    found: defaultdict[str, list[SeenRecord]] = defaultdict(list)
    for record in records:
        found[record.order_id].append(record)
    return found


def _audited(
    truth: OrderTruth,
    halves: Sequence[SeenRecord],
    finals: Sequence[SeenRecord],
    discarded: Sequence[SeenRecord],
) -> Iterator[tuple[FindingKind, str]]:
    if not halves:
        yield FindingKind.NOT_SENT, "no half message was stored"
    yield from _audited_finals(truth, finals)
    must_be = truth.order.fate.ending is Ending.DISCARDED
    if must_be and not discarded:
        yield FindingKind.NOT_DISCARDED, "its checks had no answer, but it was not discarded"
    elif len(discarded) > must_be:
        text = f"discarded {len(discarded)} times, expected {int(must_be)}"
        yield FindingKind.WRONGLY_DISCARDED, text


def _audited_finals(
    truth: OrderTruth, finals: Sequence[SeenRecord]
) -> Iterator[tuple[FindingKind, str]]:
    order = truth.order
    for seen in finals:
        if not truth.is_committed:
            local = truth.status or "not there"
            yield (
                FindingKind.WRONGLY_THERE,
                f"on {seen.topic}, but its local transaction is {local}",
            )
        elif seen.topic != order.topic:
            yield FindingKind.WRONGLY_THERE, f"on {seen.topic}, but sent to {order.topic}"
        elif seen.body != order.body:
            yield FindingKind.BODY_DIFFERS, f"{seen.body[:80]!r} instead of {order.body[:80]!r}"
    right = sum(seen.topic == order.topic for seen in finals)
    if truth.is_committed and right == 0:
        yield FindingKind.MISSING, f"committed locally, not on {order.topic}"
    elif truth.is_committed and right > 1:
        yield FindingKind.DOUBLED, f"{right} times on {order.topic}"


def collect_evidence(bootstrap_servers: str, topics: TopicNames, groups: Iterable[str]) -> Evidence:
    """Read everything that the audit needs."""
    connection = {"log_level": 0, "bootstrap.servers": bootstrap_servers}

    def seen(topic: str) -> list[SeenRecord]:
        return [_seen(record) for record in read_topic(connection, topic)]

    halves = read_topic(connection, topics.half)
    check_requests = Counter(
        record.order_id for group in groups for record in seen(topics.check(group))
    )
    return Evidence(
        halves=[_seen(record) for record in halves],
        finals=[record for topic in REAL_TOPICS for record in seen(topic)],
        discarded=seen(topics.discarded),
        refused=seen(topics.refused),
        check_requests=check_requests,
        check_answers=_answers(halves, read_topic(connection, topics.op)),
    )


def _seen(record: Message) -> SeenRecord:
    reason = _header(record, f"{ERROR_HEADER_PREFIX}message")
    return SeenRecord(record.topic() or "", _key(record), record.value() or b"", reason)


def _answers(halves: Iterable[Message], ops: Iterable[Message]) -> Counter[str]:
    """Count the ops that answer a check, by order id. An op names its half by transaction id."""
    orders = {_header(half, names.UNIQ_KEY): _key(half) for half in halves}
    transactions = (_header(op, names.UNIQ_KEY) for op in ops if _answers_check(op))
    return Counter(orders[transaction] for transaction in transactions if transaction in orders)


def _answers_check(op: Message) -> bool:
    return _header(op, names.FROM_TRANSACTION_CHECK) == "true"


def _header(record: Message, name: str) -> str:
    return names.text_value(record.headers() or [], name) or ""


def _key(record: Message) -> str:
    return (record.key() or b"").decode("utf-8", "replace")
