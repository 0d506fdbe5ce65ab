"""Checks of direct halves: who fences, who does not, and what an answer may say."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from tests.unit.client.direct_playing import (
    COMMIT,
    MINE,
    OTHERS,
    ROLLBACK,
    UNKNOW,
    Kafka,
    failed,
    half_of,
)

from checkback.client.counters import ClientEvent, Counters
from checkback.client.direct.direct_checks import COMMITTED, NEVER, DirectChecks
from checkback.client.direct.fences import Fences
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.listener import LocalTransactionState
from checkback.client.message import MessageExt
from checkback.protocol.direct import direct_transactional_id


class Fencing:
    """Opens producers whose init fails as often as told."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.opened: list[str] = []

    def open(self, session_id: str) -> Kafka:
        self.opened.append(session_id)
        return Kafka(init=self.failures.pop(0) if self.failures else None)


def fences_on(fencing: Fencing, counters: Counters | None = None) -> Fences:
    return Fences(fencing.open, "p-", "g", counters or Counters())


def test_a_session_is_fenced_until_it_succeeds_and_once() -> None:
    fencing, counters = Fencing(failed(KafkaError._TIMED_OUT)), Counters()
    fences = fences_on(fencing, counters)

    assert [fences.fence(OTHERS, 1), fences.fence(OTHERS, 1), fences.fence(OTHERS, 1)] == [
        False, True, True,
    ]  # fmt: skip
    assert fencing.opened == [OTHERS] * 2
    assert counters.snapshot()[ClientEvent.FENCED] == 1


def request_of(session_id: str, *, closed: bool = False) -> MessageExt:
    return MessageExt("paid", b"x", transaction_id="u", direct_id=session_id, direct_closed=closed)


def test_an_answer_to_a_plain_half_says_nothing_of_sessions() -> None:
    checks = DirectChecks(OwnHalves(), fences_on(Fencing()), 1)

    assert checks.known_outcome(request_of("")) is None
    assert checks.close(request_of(""), COMMIT) == ""


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
def test_a_verdict_for_another_process_follows_its_fence(state: LocalTransactionState) -> None:
    fencing = Fencing(failed(KafkaError._TIMED_OUT))
    checks = DirectChecks(OwnHalves(), fences_on(fencing), 1)

    assert checks.close(request_of(OTHERS), state) is None  # no verdict without a fence
    assert checks.close(request_of(OTHERS), state) == OTHERS


def test_unknown_for_another_process_fences_nothing() -> None:
    fencing = Fencing()

    assert DirectChecks(OwnHalves(), fences_on(fencing), 1).close(request_of(OTHERS), UNKNOW) == ""
    assert not fencing.opened


def test_what_the_pipeline_knows_to_be_closed_needs_no_fence() -> None:
    fencing = Fencing()
    checks = DirectChecks(OwnHalves(), fences_on(fencing), 1)

    assert checks.close(request_of(OTHERS, closed=True), COMMIT) == OTHERS
    assert not fencing.opened


@pytest.mark.parametrize(
    "session_id",
    ["payments-0", direct_transactional_id("p-", "other", "1" * 32), MINE + "0"],
)
def test_nobody_fences_the_id_of_another_group(session_id: str) -> None:
    fencing = Fencing()
    checks = DirectChecks(OwnHalves(), fences_on(fencing), 1)

    assert checks.known_outcome(request_of(session_id)) is NEVER
    assert checks.close(request_of(session_id), NEVER.state) == ""
    assert not fencing.opened


def owner() -> tuple[OwnHalves, DirectChecks, Fencing]:
    own, fencing = OwnHalves(), Fencing()
    return own, DirectChecks(own, fences_on(fencing), 1), fencing


def test_the_owner_takes_a_waiting_half_off_the_queue() -> None:
    own, checks, fencing = owner()
    half = half_of(own)
    own.queue(half)

    assert checks.known_outcome(request_of(MINE)) == COMMITTED
    assert checks.close(request_of(MINE), COMMIT) == MINE
    assert not own.take(half)
    assert not fencing.opened


def test_the_owner_waits_for_a_half_in_a_transaction() -> None:
    own, checks, _ = owner()
    half = half_of(own)
    own.queue(half)
    own.take(half)

    assert checks.known_outcome(request_of(MINE)) == COMMITTED
    assert checks.close(request_of(MINE), COMMIT) is None
    own.end(half, delivered=False)
    assert checks.close(request_of(MINE), COMMIT) == MINE


def test_unknown_of_a_running_local_transaction_leaves_direct_delivery_open() -> None:
    own, checks, _ = owner()
    half = half_of(own)

    assert checks.known_outcome(request_of(MINE)) is None
    assert checks.close(request_of(MINE), UNKNOW) == ""
    assert own.queue(half)


def test_a_verdict_on_a_running_local_transaction_closes_its_half() -> None:
    own, checks, fencing = owner()
    half = half_of(own)

    assert checks.close(request_of(MINE), COMMIT) == MINE
    assert not own.queue(half)
    assert not fencing.opened


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK, UNKNOW])
def test_a_half_that_nobody_works_on_is_closed(state: LocalTransactionState) -> None:
    own, checks, fencing = owner()
    own.add_session(MINE)

    assert checks.known_outcome(request_of(MINE)) is None
    assert checks.close(request_of(MINE), state) == MINE
    assert not fencing.opened
