"""What a try that Kafka rejected shows the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.refusals import RecordOrigin, RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic
from checkback.sinks.kafka.transaction.errors import Rejection
from checkback.sinks.partition import rejections
from checkback.sinks.partition.records_to_send import BatchOutputs
from checkback.sinks.partition.rejections import (
    BYSTANDER,
    TIMEOUTS_MAX,
    TOPIC_TRIES_MAX,
    KnownRejections,
)
from checkback.sinks.records.sink_record import SinkRecord
from checkback.sinks.report import BatchReport
from checkback.sinks.settings import SinkSettings

NAMES = TopicNames("p-")
LATE = Rejection("payments", 0, KafkaError._MSG_TIMED_OUT, "timed out")
UNTRACKED = Rejection("orders", 0, KafkaError.MSG_SIZE_TOO_LARGE, "too large")


class Directory:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.forgot = 0
        self.taught: list[tuple[str, int | None, int | None]] = []

    def forget_all(self) -> None:
        self.forgot += 1

    def learn_limit(
        self, topic: str, *, bytes_max: int | None = None, cut_bytes: int | None = None
    ) -> None:
        self.taught.append((topic, bytes_max, cut_bytes))


def made_of(offset: int, topic: str = "orders", body: bytes = b"x") -> SinkRecord:
    return SinkRecord(topic, 0, b"k", body, [], 0, RecordOrigin(NAMES.half, 0, offset))


def rejected(code: int, *offsets: int, topic: str = "orders") -> list[Rejection]:
    return [Rejection(topic, 0, code, "no", made_of(offset, topic)) for offset in offsets]


def learn(known: KnownRejections, *rejections: Rejection) -> Directory:
    directory: Any = Directory()
    known.learn(rejections, NAMES, directory)
    found: Directory = directory
    return found


def reason(known: KnownRejections, offset: int, topic: str = "orders") -> RefusedReason | None:
    found = known.refusal(made_of(offset, topic))
    return None if found is None else found.reason


def test_after_a_rejection_every_record_is_measured_by_what_is_looked_up_again() -> None:
    known = KnownRejections()

    assert learn(known, UNTRACKED).forgot == 1

    assert known.tracks_each_record
    assert not known


def test_records_that_the_broker_names_are_refused_and_their_neighbours_are_not() -> None:
    known = KnownRejections()

    learn(known, *rejected(BYSTANDER, 1, 2, 4), *rejected(KafkaError.INVALID_RECORD, 3, 5))

    assert [reason(known, offset) for offset in range(1, 6)] == [
        None, None, RefusedReason.FINAL_REJECTED, None, RefusedReason.FINAL_REJECTED,
    ]  # fmt: skip


def rejected_tries(bad: set[int], count: int) -> tuple[set[int], int]:
    """Send records as the sink does, to a broker that names none, until all are taken.

    Returns:
        The records that were refused, and how many tries were rejected.
    """
    known, tries = KnownRejections(tracks_each_record=True), 0
    while True:
        left = [offset for offset in range(count) if reason(known, offset) is None]
        alone = known.alone.get("orders", set())
        together = [offset for offset in left if made_of(offset).origin not in alone]
        batches = [[offset] for offset in left if made_of(offset).origin in alone]
        rejected_batch = next((batch for batch in [*batches, together] if bad & set(batch)), None)
        if rejected_batch is None:
            return set(range(count)) - set(left), tries
        tries += 1
        learn(known, *rejected(KafkaError.POLICY_VIOLATION, *rejected_batch))


def test_a_batch_of_which_the_broker_names_no_record_is_sent_record_by_record() -> None:
    assert rejected_tries({777}, 1_000) == ({777}, 2)


def test_where_too_many_are_bad_the_rest_of_the_topic_is_refused() -> None:
    found, tries = rejected_tries(set(range(0, 200, 2)), 200)

    assert len(found) == 200
    assert tries == TOPIC_TRIES_MAX + 1


def test_a_record_alone_in_its_batch_is_too_large_and_so_is_every_larger_one() -> None:
    known = KnownRejections()

    directory = learn(known, *rejected(KafkaError.MSG_SIZE_TOO_LARGE, 3))

    assert reason(known, 3) is RefusedReason.FINAL_TOO_LARGE
    [(topic, bytes_max, cut)] = directory.taught
    assert (topic, cut) == ("orders", None)
    assert bytes_max == record_bytes_max(b"k", b"x", []) - 1


def test_a_batch_that_is_too_large_is_halved() -> None:
    known = KnownRejections()

    directory = learn(known, *rejected(KafkaError.MSG_SIZE_TOO_LARGE, 3, 4))

    assert not known
    assert directory.taught == [("orders", None, record_bytes_max(b"k", b"x", []))]


@pytest.mark.parametrize("code", sorted(rejections.MISSING_CODES))
def test_a_topic_that_is_missing_is_looked_up_once_more_before_it_is_closed(code: int) -> None:
    known = KnownRejections()

    learn(known, *rejected(code, 1))
    assert reason(known, 1) is None
    learn(known, *rejected(code, 1))

    assert reason(known, 2) is RefusedReason.REAL_TOPIC_MISSING


def test_a_topic_that_is_denied_is_closed_at_once_and_no_other() -> None:
    known = KnownRejections()

    learn(known, *rejected(KafkaError.TOPIC_AUTHORIZATION_FAILED, 1))

    assert reason(known, 2) is RefusedReason.REAL_TOPIC_DENIED
    assert reason(known, 2, "payments") is None


def test_a_discarded_half_that_is_rejected_is_refused() -> None:
    known = KnownRejections()

    learn(known, *rejected(KafkaError.INVALID_RECORD, 1, topic=NAMES.discarded))

    assert reason(known, 1, NAMES.discarded) is RefusedReason.DISCARD_REJECTED


def test_a_refused_record_that_is_rejected_is_written_without_what_it_holds() -> None:
    known = KnownRejections()
    rejection = rejected(KafkaError.INVALID_RECORD, 1, topic=NAMES.refused)

    learn(known, *rejection)
    assert known.without_content == {RecordOrigin(NAMES.half, 0, 1)}

    with pytest.raises(BrokerError, match="does not take records for p-"):
        learn(known, *rejection)


@pytest.mark.parametrize("topic", [NAMES.settled, NAMES.feedback])
@pytest.mark.parametrize(
    "code",
    [
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_RECORD,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    ],
)
def test_a_topic_of_ours_that_rejects_what_no_sender_did_ends_the_batch_and_is_named(
    code: int, topic: str
) -> None:
    """Nothing else may become of it: it was tried again and again, a thousand times."""
    known = KnownRejections()
    rejection = rejected(code, 1, topic=topic)

    if code in rejections.MISSING_CODES:  # it is looked up once more
        learn(known, *rejection)
    with pytest.raises(BrokerError, match=f"does not take records for {topic}"):
        learn(known, *rejection)


def test_a_topic_of_ours_that_finds_the_time_too_late_tells_of_the_clock() -> None:
    rejection = rejected(KafkaError.INVALID_TIMESTAMP, 1, topic=NAMES.settled)

    with pytest.raises(BrokerError, match="Set the clock of the machine that writes"):
        learn(KnownRejections(), *rejection)


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN, KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT])
def test_a_record_over_which_a_broker_fails_is_refused(code: int) -> None:
    known = KnownRejections()

    learn(known, *rejected(code, 1))

    assert reason(known, 1) == RefusedReason.FINAL_REJECTED
    with pytest.raises(BrokerError, match="does not take records for p-"):
        learn(KnownRejections(), *rejected(code, 1, topic=NAMES.settled))


def test_a_cause_that_passes_ends_the_batch_and_refuses_nothing() -> None:
    with pytest.raises(BrokerError, match="does not take records for orders"):
        learn(KnownRejections(), *rejected(KafkaError.NOT_ENOUGH_REPLICAS, 1))


def test_what_ran_out_of_time_behind_a_rejection_shows_nothing() -> None:
    """With one record rejected librdkafka sends no other; those time out, whatever their topics."""
    known = KnownRejections()

    for _ in range(TIMEOUTS_MAX + 1):
        learn(known, LATE, UNTRACKED, LATE)

    assert known.timeouts == 0


def test_records_that_are_late_for_no_reason_end_in_an_error() -> None:
    known = KnownRejections()

    for _ in range(TIMEOUTS_MAX):
        assert learn(known, LATE).forgot == 1
    with pytest.raises(BrokerError, match="does not take records for payments"):
        learn(known, LATE)


def test_many_topics_that_reject_something_are_closed_without_a_search() -> None:
    known = KnownRejections()
    for number in range(rejections.TRIES_MAX + 1):
        learn(known, *rejected(KafkaError.MSG_SIZE_TOO_LARGE, 1, 2, topic=f"t{number}"))

    assert "t0" not in known.closed_topics
    assert f"t{rejections.TRIES_MAX}" in known.closed_topics


def test_a_record_that_goes_alone_shares_no_batch_and_the_others_do() -> None:
    known, unused = KnownRejections(), cast("Any", None)
    flushed: list[int] = []
    learn(known, *rejected(KafkaError.POLICY_VIOLATION, 1, 2))
    directory: Any = SimpleNamespace(find=lambda _: KnownTopic(1, 1_000_000))
    made = BatchOutputs(
        SinkSettings(Settings(), "q", {}, 1_000), unused, unused, directory, known,
        lambda: flushed.append(sent[-1]), BatchReport(0), 0,
    )  # fmt: skip
    made._find("orders")

    sent: list[int] = []
    for offset in (0, 1, 2, 3, 4):
        made._flush_before(made_of(offset))
        sent.append(offset)

    assert flushed == [0, 1, 2]
