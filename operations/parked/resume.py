"""Resumes discarded halves: each is sent once as a new half."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from checkback.operations.operator_account import operator_signer
from checkback.operations.parked.discarded import DiscardedHalf, discarded_halves
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.noted_transaction import (
    ActionReport,
    NotedTransaction,
    RecordAction,
)
from checkback.operations.parked.refused import undelivered_halves
from checkback.operations.topics.scanner import TopicScanner
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.records import OperatorFacts, resumed_half_headers
from checkback.protocol.topics import TopicNames
from checkback.security.record_signer import RecordSigner
from checkback.sinks.records.sink_record import BY_KEY, SinkRecord

CLOCKS_APART_MS: Final = 600_000
"""A note may have an operator's time; that clock is wrong by less."""


def resume(
    scanner: TopicScanner,
    settings: Settings,
    wanted: RecordFilter,
    facts: OperatorFacts,
    *,
    is_certain: bool,
) -> ActionReport[DiscardedHalf]:
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
    already = [half for half in found if half.resumed_to]
    planned = [RecordAction(half) for half in found if not half.resumed_to]
    if transaction is None:
        return ActionReport(planned, already)
    partitions = len(scanner.partitions(settings.topics.half))
    new = (_with_new_half(one, settings.topics.half, partitions, signer, facts) for one in planned)
    done = transaction.write_all(new, facts)
    return ActionReport(
        [one for one in done if not one.obstacle], already, [one for one in done if one.obstacle]
    )


def chosen_halves(
    scanner: TopicScanner, topics: TopicNames, wanted: RecordFilter
) -> list[DiscardedHalf]:
    """Return the discarded halves that a filter chooses, oldest first.

    If the new half was refused, the old one was not resumed, and can be resumed once more: the
    account is no admin, or new transactions are rejected.
    """
    found = [one for one in discarded_halves(scanner.scan(topics.discarded)) if wanted.takes(one)]
    resumed_at_ms = [one.resumed_at_ms for one in found if one.resumed_to]
    if not resumed_at_ms:
        return found
    refused = scanner.scan(topics.refused, from_ms=min(resumed_at_ms) - CLOCKS_APART_MS)
    undelivered = undelivered_halves(refused, topics.half)
    return [replace(one, resumed_to="") if one.resumed_to in undelivered else one for one in found]


def _with_new_half(
    action: RecordAction[DiscardedHalf],
    topic: str,
    half_partitions: int,
    signer: RecordSigner | None,
    facts: OperatorFacts,
) -> RecordAction[DiscardedHalf]:
    record, origin = action.parked.record, action.parked.half_at
    headers = resumed_half_headers(record.headers, str(record.at), facts)
    signed_at_ms = None
    if signer is not None:
        signed_at_ms = signer.now_ms()
        headers = signer.half(topic, record.key, record.value, headers)
    is_known = origin is not None and origin.partition < half_partitions
    partition = origin.partition if origin is not None and is_known else BY_KEY
    new = SinkRecord(topic, partition, record.key, record.value, headers, timestamp_ms=0)
    return replace(action, successor=new, signed_at_ms=signed_at_ms)
