"""Why a transaction is pending, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.unit.console.console_stage import half, pending_history

from checkback.console.facts import KafkaFacts
from checkback.console.pending_view import PendingView
from checkback.console.words import waiting
from checkback.operations.doctor.judgements import GroupFacts
from checkback.operations.transactions.history import TransactionHistory
from checkback.protocol.configuration import Settings

ANSWERED = pending_history(half(4))


def without(history: TransactionHistory, *kinds: str) -> TransactionHistory:
    return replace(history, events=tuple(one for one in history.events if one.kind not in kinds))


def group(members: int | None, *, has_check_topic: bool = True) -> GroupFacts:
    return GroupFacts("order-service", 0, 0, has_check_topic, members)


@pytest.mark.parametrize(
    ("history", "facts", "says", "remedy"),
    [
        (without(ANSWERED, "op"), group(0),
         "Asked 1 of 15 times; no answer came. order-service has no live member.",
         "Start a producer of order-service"),
        (without(ANSWERED, "op", "check request", "mark"), group(0, has_check_topic=False),
         "has not asked about it yet. order-service has no check topic",
         "Start a producer of order-service"),
        (ANSWERED, group(2), "the last answer was unknown. order-service has 2 live members.",
         "decide by hand"),
        (without(ANSWERED, "op"), group(1), "no answer came. order-service has 1 live member.", ""),
        (without(ANSWERED, "op"), group(None), "is not known", ""),
    ],
)  # fmt: skip
def test_it_says_what_was_asked_who_could_answer_and_what_to_do(
    history: TransactionHistory, facts: GroupFacts, says: str, remedy: str
) -> None:
    found = waiting(history, facts, 15)

    assert says in found.says
    assert remedy in found.remedy
    assert bool(remedy) == bool(found.remedy)


def test_an_op_that_nobody_read_yet_points_to_the_pipeline() -> None:
    [op] = ANSWERED.of_kind("op")
    committing = replace(op, facts={**op.facts, "says": "commit"})
    history = replace(ANSWERED, events=(*ANSWERED.events, committing))

    found = waiting(history, group(0), 15)

    assert found.says == "An op says commit; the pipeline did not take it yet."
    assert "whether the pipeline runs" in found.remedy


def test_brokers_that_do_not_name_members_take_no_history_away() -> None:
    class Silent:
        def list_topics(self, **_: object) -> object:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    settings = Settings(bootstrap_servers="localhost:1")
    facts = KafkaFacts(settings, PendingView(settings), lambda: 0, Silent())

    assert facts.group("order-service").members is None
