"""Resumes discarded halves: each is sent once as a new half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from checkback.operations.operator_account import operator_signer
from checkback.operations.parked.discarded import DiscardedHalf, discarded_halves
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.noted_transaction import (
    RECORDS_PER_TRANSACTION,
    NotedTransaction,
    Successor,
    Written,
)
from checkback.operations.parked.refused import untaken_halves
from checkback.operations.topics.scanner import TopicScanner
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.records import OperatorFacts, resumed_half_headers
from checkback.protocol.topics import TopicNames
from checkback.security.record_signer import RecordSigner
from checkback.sinks.records.sink_record import BY_KEY, SinkRecord

CLOCKS_APART_MS: Final = 600_000
"""More than an operator's clock may be wrong, whose time a note may have."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A discarded half, and what became of it.

    Args:
        half: the discarded half as it was before.
        to: partition:offset of the new half, "" if it was only planned.
    """

    half: DiscardedHalf
    to: str = ""


@dataclass(frozen=True, slots=True)
class Resumption:
    """What was resumed, or would be.

    Args:
        resumed: the halves.
        already: those that had been resumed before.
    """

    resumed: tuple[Resumed, ...]
    already: tuple[DiscardedHalf, ...]


def resume(
    scanner: TopicScanner,
    settings: Settings,
    wanted: RecordFilter,
    facts: OperatorFacts,
    *,
    is_certain: bool,
) -> Resumption:
    """Resume the discarded halves that a filter chooses and that were not resumed yet.

    Without `is_certain` only return what would be resumed.

    Raises:
        NotFoundError: the filter names a record that is not there.
        FencedError: another operator resumes at the same time.
        BrokerError: Kafka refused, or did not confirm in time.
        ConfigurationError: access control is on, and no account is set.
        PrerequisiteError: the pipeline would refuse what the clock of this machine has signed.
    """
    signer = operator_signer(settings) if is_certain else None
    # Before reading the records: this ends a resumption that another operator has begun.
    transaction = NotedTransaction(settings, names.RESUME, "resume") if is_certain else None
    found = chosen_halves(scanner, settings.topics, wanted)
    wanted.require_found(settings.topics.discarded, "discarded", found)
    already = tuple(half for half in found if half.resumed_to)
    left = [half for half in found if not half.resumed_to]
    if transaction is None:
        return Resumption(tuple(map(Resumed, left)), already)
    topic = settings.topics.half
    partitions = len(scanner.partitions(topic))
    written: list[Written] = []
    for first in range(0, len(left), RECORDS_PER_TRANSACTION):
        some = left[first : first + RECORDS_PER_TRANSACTION]
        new = [_new_half(half, topic, partitions, signer, facts) for half in some]
        written += transaction.write(new, facts)
    _require_all(written)
    to = {one.successor.parked.at: one.to for one in written}
    return Resumption(tuple(Resumed(half, to[half.record.at]) for half in left), already)


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


def _new_half(
    half: DiscardedHalf,
    topic: str,
    half_partitions: int,
    signer: RecordSigner | None,
    facts: OperatorFacts,
) -> Successor:
    record, origin = half.record, half.half_at
    headers = resumed_half_headers(record.headers, str(record.at), facts)
    signed_at_ms = None
    if signer is not None:
        signed_at_ms = signer.now_ms()
        headers = signer.half(topic, record.key, record.value, headers)
    is_known = origin is not None and origin.partition < half_partitions
    partition = origin.partition if origin is not None and is_known else BY_KEY
    new = SinkRecord(topic, partition, record.key, record.value, headers, timestamp_ms=0)
    return Successor(record, record.headers, new, signed_at_ms)


def _require_all(written: Sequence[Written]) -> None:
    rejected = [one for one in written if not one.to]
    if not rejected:
        return
    first = rejected[0]
    raise BrokerError(
        f"The brokers did not take {len(rejected)} of the halves, first that of "
        f"{first.successor.parked.at}: {first.rejection.rstrip('.')}. "
        f"The {len(written) - len(rejected)} others were resumed.",
        remedy="Raise the half topic's max.message.bytes for one that is too large.",
        rejected=[str(one.successor.parked.at) for one in rejected],
    )
