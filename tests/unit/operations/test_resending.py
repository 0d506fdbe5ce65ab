"""Which final a refused record becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.deciding import message
from tests.unit.operations.records import NAMES, half, record

from checkback.operations.parked.noted_transaction import explained
from checkback.operations.parked.refused import RefusedRecord, refused_records
from checkback.operations.parked.resend import FinalPlanner
from checkback.operations.topics.position import Position
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, FencedError
from checkback.protocol.records import OperatorFacts
from checkback.protocol.refusals import RecordOrigin, RecordParts, RefusedReason, refused_parts
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic
from checkback.sinks.records.router import Router

AT = Position(1, 7)
FACTS = OperatorFacts("ann", "made it", 42)


def stored(transaction_id: str = "u") -> Any:
    """The half as its topic has it; it was stored at 500."""
    found = half(transaction_id, at=AT)
    return message(key=found.key, value=found.value, headers=found.headers, timestamp=(1, 500))


class Halves:
    def __init__(self, found: Any) -> None:
        self.found = found

    def read(self, partition: int, offsets: np.ndarray[Any, Any]) -> Any:  # noqa: ARG002
        return [(int(offsets[0]), self.found)]

    def close(self) -> None:
        """Nothing is open."""


class Directory:
    def __init__(self, known: KnownTopic | None) -> None:
        self.known = known

    def find(self, _: str) -> KnownTopic | None:
        return self.known


def refused(bytes_max: int | None = None, *brought: tuple[str, bytes]) -> RefusedRecord:
    given = half("u", at=AT)
    parts = refused_parts(
        RecordParts(given.key, given.value, [*given.headers, *brought]),
        RefusedReason.REAL_TOPIC_MISSING,
        RecordOrigin(NAMES.half, *AT),
        "orders",
        bytes_max,
    )
    found = record(NAMES.refused, parts.headers, value=parts.value, time_ms=900)
    [one] = refused_records([found])
    return one


def planner(found: Any, known: KnownTopic | None = None) -> FinalPlanner:
    settings = Settings(topic_prefix=NAMES.prefix)
    ends = {1: 8 if found is not None else 0}
    made = FinalPlanner(settings, {"bootstrap.servers": "none"}, Halves(found), ends, FACTS)
    made._directory = Directory(known or KnownTopic(1, 1_000_000))  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(("found", "time_ms"), [(stored(), 500), (None, 900), (stored("v"), 900)])
def test_the_half_itself_is_sent_or_what_was_kept_of_it(found: Any, time_ms: int) -> None:
    planned = planner(found).plan(refused())

    assert planned.obstacle == ""
    assert planned.successor is not None
    assert (planned.successor.topic, planned.successor.value) == ("orders", b"body")
    assert planned.successor.timestamp_ms == time_ms
    headers = dict(planned.successor.headers)
    assert headers["a"] == b"b"
    assert headers["__checkback.resend.from"] == b"0:0"
    assert not any(name.startswith("__checkback.errors.") for name in headers)


def test_what_was_cut_is_sent_only_while_the_half_is_there() -> None:
    cut = refused(1_200, ("large", bytes(2_000)))
    assert (cut.is_cut, cut.transaction_id) == (True, "u")

    assert planner(stored()).plan(cut).obstacle == ""
    assert "not found" in planner(None).plan(cut).obstacle


def test_a_topic_that_is_still_too_small_is_an_obstacle() -> None:
    assert "takes 100 bytes" in planner(stored(), KnownTopic(1, 100)).plan(refused()).obstacle
    # The final would fit without the headers that say who sent it.
    narrow = planner(stored(), KnownTopic(1, 330)).plan(refused())
    assert narrow.obstacle != ""


def test_a_final_that_still_can_not_be_made_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(Router, "final", fails)

    assert planner(stored()).plan(refused()).obstacle == "ZeroDivisionError: a defect"


def test_a_system_topic_never_gets_a_final() -> None:
    known = KnownTopic(1, 1_000_000, is_system=True)
    given = half("u", at=AT, topic=NAMES.settled)
    parts = refused_parts(
        RecordParts(None, b"b", given.headers),
        RefusedReason.REAL_TOPIC_MISSING,
        RecordOrigin(NAMES.half, *AT),
    )
    [one] = refused_records([record(NAMES.refused, parts.headers)])

    assert "HALF_FOR_SYSTEM_TOPIC" in planner(None, known).plan(one).obstacle


def test_an_operator_is_told_of_another_one() -> None:
    fenced = KafkaException(KafkaError(KafkaError._FENCED))
    other = KafkaException(KafkaError(KafkaError._TIMED_OUT))

    assert isinstance(explained(fenced, "resend"), FencedError)
    assert isinstance(explained(other, "resend"), BrokerError)
