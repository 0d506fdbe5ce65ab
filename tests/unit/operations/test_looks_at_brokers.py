"""What operators look at is asked for again while the brokers rearrange themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tests.deciding import Unnameable, message, plain_half

from checkback.operations.rebuild import predecessors
from checkback.operations.rebuild import topic_spans as positions
from checkback.operations.topics import scanner as scanning
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import TopicScanner
from checkback.operations.transactions.finder import TransactionFinder
from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import TRAN_HALF_QUEUE_ID, TRAN_PREPARED_QUEUE_OFFSET
from checkback.sinks.kafka.cluster import transient_errors as asking_again
from checkback.sinks.kafka.read import list_offsets
from checkback.sinks.kafka.read.list_offsets import LATEST
from checkback.sinks.kafka.read.record_reader import RecordReader
from checkback.state import CLAIM_KEY
from checkback.streaming.start.topic_claim import Claim, _no_marks

QUERY = "00000000-0000-0000-0000-000000000001"
MARKED_MS = 1_700_000_000_000
NOT_LEADER = KafkaError.NOT_LEADER_FOR_PARTITION


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_again, "PAUSE_S", 0)
    monkeypatch.setattr(list_offsets, "PAUSE_S", 0)


def failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


class Groups:
    """Brokers with one marker group; first these errors come from one of them."""

    def __init__(self, *errors: Any) -> None:
        self.errors = list(errors)

    def list_consumer_groups(self, **_: Any) -> Groups:
        return self

    def result(self, _: float) -> Any:
        error = self.errors.pop(0) if self.errors else None
        if isinstance(error, TimeoutError):
            raise error
        known = [SimpleNamespace(group_id=f"app-marker-{QUERY}")]
        return SimpleNamespace(valid=[] if error else known, errors=[error] if error else [])


def marker_groups(monkeypatch: pytest.MonkeyPatch, *errors: Any) -> list[tuple[str, str]]:
    groups = Groups(*errors)
    monkeypatch.setattr(predecessors, "AdminClient", lambda _: groups)
    return predecessors._marker_groups({})


def test_a_broker_that_tells_no_groups_for_a_moment_hides_no_predecessor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loading = KafkaError.COORDINATOR_LOAD_IN_PROGRESS

    found = marker_groups(monkeypatch, failure(loading), KafkaError(loading))

    assert found == [("app", QUERY)]


@pytest.mark.parametrize("error", [TimeoutError(), failure(KafkaError._TIMED_OUT)])
def test_groups_that_a_broker_does_not_tell_end_a_rebuild(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with pytest.raises(BrokerError, match="consumer groups can't be listed"):
        marker_groups(monkeypatch, error)


class Moving:
    """The clients of a scan of one record; each question first finds no leader.

    Args:
        first: offset of the record that a scan begins with.
    """

    def __init__(self, code: int, first: int = 0, end: int = 1) -> None:
        self.code, self.first, self.end = code, first, end
        self.failed: set[str] = set()
        self.left: list[Any] = []

    def fail_once(self, question: str) -> KafkaError | None:
        if question in self.failed:
            return None
        self.failed.add(question)
        return KafkaError(self.code)

    def list_topics(self, *_: float, **__: float) -> Any:
        if error := self.fail_once("topics"):
            raise KafkaException(error)
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: None})})

    def list_offsets(self, places: dict[TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        def result(which: Any) -> Any:
            if error := self.fail_once(str(which)):
                raise KafkaException(error)
            offset = self.end if which is LATEST else self.first
            return SimpleNamespace(offset=offset, leader_epoch=None)

        return {
            place: SimpleNamespace(result=lambda _, which=which: result(which))
            for place, which in places.items()
        }

    def assign(self, places: list[TopicPartition]) -> None:  # noqa: ARG002 - as in its subclass
        self.left = [
            message(topic="t", partition=0, offset=0, value=b"v", headers=[], timestamp=(1, 1))
        ]

    def poll(self, _: float) -> Any:
        return self.left.pop(0) if self.left else None

    def consume(self, *_: object) -> list[Any]:
        return []

    def close(self) -> None: ...


@contextmanager
def scanner_of(monkeypatch: pytest.MonkeyPatch, clients: Moving) -> Iterator[TopicScanner]:
    monkeypatch.setattr(scanning, "Consumer", lambda _: clients)
    monkeypatch.setattr(scanning, "AdminClient", lambda _: clients)
    with scanning.TopicScanner({}) as scanner:
        yield scanner


def scanned(monkeypatch: pytest.MonkeyPatch, code: int) -> list[bytes | None]:
    with scanner_of(monkeypatch, Moving(code)) as scanner:
        return [one.value for one in scanner.scan("t", from_ms=1)]


def test_a_leader_that_changes_hides_no_record_and_ends_no_scan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert scanned(monkeypatch, NOT_LEADER) == [b"v"]


@pytest.mark.parametrize(("newest", "first"), [(None, 2), (3, 6), (100, 2)])
def test_a_scan_of_the_newest_begins_that_much_before_the_end(
    monkeypatch: pytest.MonkeyPatch, newest: int | None, first: int
) -> None:
    begun: list[tuple[int, int]] = []

    class Long(Moving):
        def assign(self, places: list[TopicPartition]) -> None:
            begun.extend((one.partition, one.offset) for one in places)
            self.left = [message(topic="t", partition=0, offset=8, headers=[], timestamp=(1, 1))]

    with scanner_of(monkeypatch, Long(NOT_LEADER, first=2, end=9)) as scanner:
        assert len(list(scanner.scan("t", newest=newest))) == 1
    assert begun == [(0, first)]


def test_a_scan_that_may_not_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerError, match="can't be listed"):
        scanned(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED)


class Settled:
    """A consumer of a settled topic, which hears of these codes, and then has a record or none."""

    def __init__(self, *codes: int, has_record: bool = False) -> None:
        place = {"topic": "t", "partition": 0, "offset": 3, "value": b""}
        self.left = [message(**place, error=KafkaError(code)) for code in codes]
        if has_record:
            marked = {**place, "key": CLAIM_KEY, "value": _no_marks()}
            self.left.append(message(**marked, timestamp=(1, MARKED_MS)))

    def assign(self, _: object) -> None: ...

    def poll(self, _: float) -> Any:
        return self.left.pop(0) if self.left else None


def first_mark_ms(settled: Any) -> int:
    return positions._first_mark_ms(settled, "t", 0, positions.Span(3, 9))


def test_what_a_reader_hears_before_the_first_mark_is_not_taken_for_marks_that_are_gone() -> None:
    told = (KafkaError._TRANSPORT, KafkaError.GROUP_AUTHORIZATION_FAILED)

    assert first_mark_ms(Settled(*told, has_record=True)) == MARKED_MS
    assert first_mark_ms(Settled(*told, KafkaError._PARTITION_EOF)) > MARKED_MS


@pytest.mark.parametrize("codes", [[], [KafkaError.TOPIC_AUTHORIZATION_FAILED]])
def test_marks_that_can_not_be_read_are_not_taken_for_gone(codes: list[int]) -> None:
    with pytest.raises(BrokerError, match="Reading t-0 failed"):
        first_mark_ms(Settled(*codes))


class Misnamed(Moving):
    """A consumer of a record with a header name that is not UTF-8, and of a half after it."""

    def assign(self, places: list[TopicPartition]) -> None:
        headers = plain_half("u", "t")
        of_final = [(TRAN_PREPARED_QUEUE_OFFSET, b"1"), (TRAN_HALF_QUEUE_ID, b"0")]
        place = {"topic": places[0].topic, "partition": 0, "timestamp": (1, 1)}
        plain = message(**place, offset=1, value=b"v", headers=[*headers, *of_final])
        self.left = [Unnameable(message(**place, offset=0, value=b"v")), plain]


def test_a_header_name_that_is_not_utf_8_hides_no_other_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One such record on the half topic, or a real one, ended every search that passed it."""
    topics: Any = SimpleNamespace(half="t")
    with scanner_of(monkeypatch, Misnamed(NOT_LEADER, end=2)) as scanner:
        finder = TransactionFinder(scanner, RecordReader({}, "t"), topics)

        [half] = finder._halves("u", None)
        [final] = finder._final(half.at, half, was_refused=False)

    assert (half.at, final.at) == (Position(0, 1), Position(0, 1))


def test_a_header_name_that_is_not_utf_8_makes_no_claim() -> None:
    record: Any = Unnameable(message(topic="t", partition=0, offset=0, value=b"v"))

    assert Claim.from_record(record) is None
