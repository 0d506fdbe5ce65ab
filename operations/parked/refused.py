"""The records of the refused topic, and which of them were sent again. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.protocol import properties as names
from checkback.protocol.properties import Headers, text_value
from checkback.protocol.refusals import (
    COMMITTED_REASONS,
    ID_BYTES_MAX,
    VERDICT_REASONS,
    RecordOrigin,
    RefusalFacts,
    refusal_facts,
)

_TAKEN: Final = frozenset(one.name for one in VERDICT_REASONS)
COMMITTED: Final = frozenset(reason.name for reason in COMMITTED_REASONS)


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record of the refused topic.

    Args:
        record: the record itself; its timestamp is when it was refused.
        resent_to: topic:partition:offset of the final, "" if the record was not sent again.
    """

    record: FoundRecord
    notes: RefusalFacts
    resent_to: str = ""

    @property
    def original(self) -> Headers:
        """The headers that it had before it was refused."""
        return self.notes.original

    def own(self, name: str) -> str:
        """Return the text of an original header, cut to the length that a half may have."""
        return (text_value(self.original, name) or "")[:ID_BYTES_MAX]

    @property
    def transaction_id(self) -> str:
        """UNIQ_KEY."""
        return self.own(names.UNIQ_KEY)

    @property
    def group(self) -> str:
        """The producer group that the record names."""
        return self.own(names.PGROUP)

    @property
    def real_topic(self) -> str:
        """The real topic that the record names."""
        return self.own(names.REAL_TOPIC)

    @property
    def reason(self) -> str:
        """The reason code's name."""
        return self.notes.facts.get("reason", "")

    @property
    def is_cut(self) -> bool:
        """Whether parts of the record were left out."""
        return "cut" in self.notes.facts

    @property
    def origin(self) -> RecordOrigin | None:
        """The topic and position of the record that was refused."""
        facts = self.notes.facts
        at = Position.parse(f"{facts.get('partition')}:{facts.get('offset')}")
        return None if at is None else RecordOrigin(facts.get("topic", ""), *at)

    def obstacle(self, half_topic: str) -> str:
        """Return why this can never be sent again, "" if it may be."""
        origin = self.origin
        if origin is None:
            return "where it came from is not known"
        if origin.topic != half_topic:
            return "it is no half message"
        if self.reason not in COMMITTED:
            return f"{self.reason} does not say that it was committed and has a final message"
        return ""

    def as_data(self) -> dict[str, Any]:
        """Return the record as plain data, without the body."""
        origin = self.origin
        return {
            "partition": self.record.at.partition,
            "offset": self.record.at.offset,
            "refused_at_ms": self.record.time_ms,
            "reason": self.reason,
            "says": self.notes.facts.get("message", ""),
            "origin_topic": self.notes.facts.get("topic", ""),
            "origin_partition": None if origin is None else origin.partition,
            "origin_offset": None if origin is None else origin.offset,
            "transaction_id": self.transaction_id,
            "group": self.group,
            "real_topic": self.real_topic,
            "cut": self.notes.facts.get("cut", ""),
            "body_bytes": len(self.record.value or b""),
            "resent_to": self.resent_to,
        }


def refused_records(records: Iterable[FoundRecord]) -> list[RefusedRecord]:
    """Return the refused records, the oldest refusal first, each with its final if it was sent."""
    found, resent = [], {}
    for record in records:
        notes = refusal_facts(record.headers)
        # A refused record may bring a note's headers along, but a note never has a reason code.
        if not notes.facts and record.text(names.RESEND.target):
            resent[record.text(names.RESEND.source)] = record.text(names.RESEND.target)
        else:
            found.append((record, notes))
    found.sort(key=lambda one: (one[0].time_ms, one[0].at))
    return [RefusedRecord(record, notes, resent.get(str(record.at), "")) for record, notes in found]


def undelivered_halves(records: Iterable[FoundRecord], half_topic: str) -> frozenset[str]:
    """Return where halves stand that the pipeline did not take: they never were pending."""
    found = refused_records(records)
    return frozenset(
        f"{one.origin.partition}:{one.origin.offset}"
        for one in found
        if one.origin is not None and one.origin.topic == half_topic and one.reason not in _TAKEN
    )
