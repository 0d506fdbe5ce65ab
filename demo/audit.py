"""The audit: reads the topics and compares them with the order service's database.

The database is the truth. The message of a committed order has to be on its real topic once, byte
for byte. No other message may be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from confluent_kafka import Message

from checkback.demo.fates import REAL_TOPICS, Fate, Order
from checkback.demo.orders import OrderTruth
from checkback.protocol import properties as names
from checkback.protocol.properties import ERROR_HEADER_PREFIX
from checkback.protocol.topics import TopicNames
from checkback.testing.topics import read_topic


class FindingKind(StrEnum):
    """Kinds of findings."""

    MISSING = "missing"
    WRONGLY_THERE = "wrongly_there"
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


Place = tuple[str, str]
"""An order's id, and where a record of it stands."""


def audit(truths: Sequence[OrderTruth], evidence: Evidence) -> list[AuditFinding]:
    """Return everything that is wrong, ordered like the orders; empty if nothing is."""
    orders = [truth.order for truth in truths]
    committed = [truth.order for truth in truths if truth.is_committed]
    given_up = [one.order_id for one in orders if one.fate is Fate.NEVER_ANSWERED]
    findings = [
        # A half may be there twice: its producer tries again where it can't know.
        *_differences(_at("a half", _ids(orders)), set(_at("a half", _ids(evidence.halves)))),
        *_differences(map(_final, committed), map(_final, evidence.finals)),
        *_differences(_at("discarded", given_up), _at("discarded", _ids(evidence.discarded))),
        *(
            AuditFinding(FindingKind.REFUSED, seen.order_id, f"on {seen.topic}: {seen.note}")
            for seen in evidence.refused
        ),
    ]
    return sorted(findings, key=lambda one: one.order_id)


def _differences(wanted: Iterable[Place], found: Iterable[Place]) -> Iterator[AuditFinding]:
    right, there = Counter(wanted), Counter(found)
    for (order_id, where), count in (right - there).items():
        yield AuditFinding(FindingKind.MISSING, order_id, f"{count} missing: {where}")
    for (order_id, where), count in (there - right).items():
        yield AuditFinding(FindingKind.WRONGLY_THERE, order_id, f"{count} too many: {where}")


def _ids(all_of: Iterable[Order | SeenRecord]) -> list[str]:
    return [one.order_id for one in all_of]


def _at(where: str, order_ids: Iterable[str]) -> list[Place]:
    return [(one, where) for one in order_ids]


def _final(one: Order | SeenRecord) -> Place:
    return one.order_id, f"on {one.topic}: {one.body!r}"


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
    answers = (op for op in ops if _header(op, names.FROM_TRANSACTION_CHECK) == "true")
    transactions = (_header(op, names.UNIQ_KEY) for op in answers)
    return Counter(orders[transaction] for transaction in transactions if transaction in orders)


def _header(record: Message, name: str) -> str:
    return names.text_value(record.headers() or [], name) or ""


def _key(record: Message) -> str:
    return (record.key() or b"").decode("utf-8", "replace")
