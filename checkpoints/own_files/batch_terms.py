"""The terms of a batch, noted in the checkpoint so that a replay decides the same.

A file ``terms/<batch>.json`` holds the terms of that batch, and of every later one up to the next
file: a job writes one before a batch with other terms than the batch before, and before the first
batch of every run. A note names the plan that it was written for by the plan's time: a
plan that was dropped may have left a note under the number of its successor.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from checkback.checkpoints.files import (
    NOT_AS_WRITTEN,
    OUR_FOLDER,
    ReadableCheckpoint,
    damaged_file,
)
from checkback.checkpoints.own_files.relay_terms import RelayTerms
from checkback.state import Rules

if TYPE_CHECKING:  # the console reads checkpoints where Spark is not installed
    from checkback.checkpoints.store import CheckpointStore

FOLDER: Final = "terms"
FORMAT: Final = 1
NOTES_KEPT: Final = 10
"""The newest ones. Only the one batch that is planned and not committed is replayed; the others are
for people who inspect a checkpoint."""
OFF: Final = ""
"""The version of the rules of access where access control is off."""
READ_TO_END: Final = 2**63 - 1
_HASH_BYTES: Final = 12


class OpRange(NamedTuple):
    """Offsets of a partition of the half topic: the first one, and the one after the last."""

    first: int
    end: int


class LeaderEpoch(NamedTuple):
    """What was seen of a partition's leader.

    Args:
        number: Kafka's leader epoch.
        read_to: up to which offset was read while it was; READ_TO_END for all that the batch reads.
    """

    number: int
    read_to: int


@dataclass(frozen=True, slots=True)
class AccessVersion:
    """The version of the access rules, named without anything of their secrets.

    Args:
        name: a slow, salted hash of the rules' own version; OFF where access control is off.
    """

    name: str = OFF
    salt: str = ""

    @classmethod
    def of(cls, version: str, salt: str) -> AccessVersion:
        """Return the name of rules with that own version, which comes from text and secrets."""
        if version == OFF:
            return cls()
        cost = {"n": 2**14, "r": 8, "p": 1, "dklen": _HASH_BYTES}
        return cls(hashlib.scrypt(version.encode(), salt=salt.encode(), **cost).hex(), salt)

    def is_of(self, version: str) -> bool:
        """Return whether the rules of that version are these."""
        return self == AccessVersion.of(version, self.salt)


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """The terms of a batch.

    Args:
        hidden: half partitions of which the batch did not read all that had been stored: it
            concludes nothing from silence there.
        op_ranges: by half partition, which halves an op may name; any where one is missing.
        clock_ahead_ms: how far this machine's clock is ahead of the brokers', 0 if it is behind.
        leader_epochs: by topic and partition, the leader when the batch was planned, or when the
            brokers last told it. It decides nothing: it shows whether Kafka has what was read.
        relay: by half partition, which ops relays take; empty where none ever did.
    """

    rules: Rules
    access: AccessVersion = field(default_factory=AccessVersion)
    hidden: frozenset[int] = frozenset()
    op_ranges: Mapping[int, OpRange] = field(default_factory=dict)
    clock_ahead_ms: int = 0
    leader_epochs: Mapping[tuple[str, int], LeaderEpoch] = field(default_factory=dict)
    relay: Mapping[int, RelayTerms] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TermsNote:
    """The terms of a batch as a checkpoint holds them.

    Args:
        planned_ms: the time in the plan of the batch, milliseconds since 1970.
    """

    planned_ms: int
    terms: BatchTerms

    def to_json(self) -> str:
        """Return the note as a JSON document."""
        terms = self.terms
        document: dict[str, Any] = {
            "format": FORMAT,
            "planned_ms": self.planned_ms,
            "rules": asdict(terms.rules),
            "access": asdict(terms.access),
            "hidden": sorted(terms.hidden),
            "op_ranges": terms.op_ranges,
            "clock_ahead_ms": terms.clock_ahead_ms,
            "leader_epochs": [[*place, *epoch] for place, epoch in terms.leader_epochs.items()],
        }
        if terms.relay:
            document["relay"] = {number: one.to_data() for number, one in terms.relay.items()}
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> TermsNote:
        """Return the note of a document that `to_json` wrote.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: it is damaged, or newer.
        """
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}; this version reads {FORMAT}")
        # A note of an earlier version has none.
        access, epochs = document["access"], document.get("leader_epochs", ())
        terms = BatchTerms(
            Rules.from_stored(document["rules"]),
            AccessVersion(str(access["name"]), str(access["salt"])),
            frozenset(int(number) for number in document["hidden"]),
            op_ranges_of(document["op_ranges"]),
            int(document["clock_ahead_ms"]),
            {(str(at), int(number)): LeaderEpoch(*map(int, rest)) for at, number, *rest in epochs},
            {
                int(number): RelayTerms.from_data(data)
                for number, data in document.get("relay", {}).items()
            },
        )
        return cls(int(document["planned_ms"]), terms)


def op_ranges_of(document: Mapping[str, Any]) -> dict[int, OpRange]:
    """Return ranges by partition, from JSON's form of them."""
    return {int(number): OpRange(int(first), int(end)) for number, (first, end) in document.items()}


def noted_of_plan(store: CheckpointStore, batch: int, planned_ms: int) -> BatchTerms | None:
    """Return the terms that a note holds for this plan of a batch, None where there is none."""
    note = _read(store, batch)
    return note.terms if note is not None and note.planned_ms == planned_ms else None


def noted_before(store: CheckpointStore, batch: int) -> BatchTerms | None:
    """Return the terms of the newest note for an earlier batch, None where there is none."""
    return _newest(store, [number for number in store.own_numbers(FOLDER) if number < batch])


def newest_terms(store: CheckpointStore) -> BatchTerms | None:
    """Return the terms of the newest note, None where there is none."""
    return _newest(store, store.own_numbers(FOLDER))


def note_terms(
    store: CheckpointStore, batch: int, planned_ms: int, terms: BatchTerms, *, is_first: bool
) -> BatchTerms:
    """Note the terms of a batch before anything of it is written; return those that count.

    Args:
        is_first: whether it is the first batch of a run. Then this start has fenced every older
            job, and what is noted of later batches belongs to dropped plans.

    Returns:
        The terms; where another job noted this plan first, that job's, unless it has other rules
        of access: those are in the query.

    Raises:
        CheckpointError: the note that is there can't be read.
        PrerequisiteError: it can't be written.
    """
    text = TermsNote(planned_ms, terms).to_json()
    if not store.create_own(_file(batch), text):
        noted = noted_of_plan(store, batch, planned_ms)
        if noted is not None and noted.access == terms.access:
            return noted
        store.replace_own(_file(batch), text)
    numbers = store.own_numbers(FOLDER)
    dropped = [number for number in numbers if number > batch] if is_first else []
    old = [number for number in numbers if number <= batch][:-NOTES_KEPT]
    for number in (*dropped, *old):
        store.delete_own(_file(number))
    return terms


def all_notes(checkpoint: ReadableCheckpoint) -> list[TermsNote]:
    """Return every note that is kept, the oldest first; also of a checkpoint read without Spark."""
    start = f"{OUR_FOLDER}/{FOLDER}/"
    stems = (
        name.removeprefix(start).removesuffix(".json")
        for name in checkpoint.sizes()
        if name.startswith(start)
    )
    files = [_file(batch) for batch in sorted(int(stem) for stem in stems if stem.isdecimal())]
    found = ((checkpoint.read_own(name), name) for name in files)
    return [parse_note(text, name) for text, name in found if text is not None]


def parse_note(text: str, name: str) -> TermsNote:
    """Return the note in a file.

    Raises:
        CheckpointError: it can't be read; names the file.
    """
    try:
        return TermsNote.from_json(text)
    except NOT_AS_WRITTEN as error:
        raise damaged_file(name, error) from error


def _newest(store: CheckpointStore, batches: list[int]) -> BatchTerms | None:
    note = _read(store, batches[-1]) if batches else None
    return None if note is None else note.terms


def _read(store: CheckpointStore, batch: int) -> TermsNote | None:
    text = store.read_own(_file(batch))
    return None if text is None else parse_note(text, _file(batch))


def _file(batch: int) -> str:
    return f"{FOLDER}/{batch}.json"
