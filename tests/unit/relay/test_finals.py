"""A relay's finals are the sink's, and topics that can't take one are left to the job."""

from __future__ import annotations

from tests.unit.relay.test_partition import Record

from checkback.protocol.errors import BrokerError
from checkback.protocol.records import half_headers
from checkback.protocol.refusals import RecordOrigin
from checkback.protocol.topics import TopicNames
from checkback.relay.finals import LEFT_TO_JOB_S, Finals
from checkback.relay.memory import HeldHalf
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic
from checkback.sinks.records.router import Router

NAMES = TopicNames()
TOPICS = {
    "paid": KnownTopic(3, 2_000_000),
    "narrow": KnownTopic(3, 1_000),
    "short": KnownTopic(3, 2_000_000, shortage="partition 0 has no leader"),
    "compacted": KnownTopic(3, 2_000_000, needs_key=True),
}


class Directory:
    asked = 0

    def allow_refresh(self) -> None: ...

    def find(self, topic: str) -> KnownTopic | None:
        self.asked += 1
        if topic == "silent":
            raise BrokerError("no answer")
        return TOPICS.get(topic)


def half(topic: str, key: bytes | None = None) -> HeldHalf:
    properties = {"KEYS": "k", "user": "x", "Signature": "gone"}
    headers = half_headers(
        producer_group="g", transaction_id="u", real_topic=topic, properties=properties,
        real_queue_id=1,
    )  # fmt: skip
    return HeldHalf(Record(headers, record_key=key), (b"g", b"u"), 0.0)


def test_a_final_is_the_sink_s() -> None:
    finals = Finals(NAMES, Directory(), 4_000_000)  # type: ignore[arg-type]
    held = half("paid", b"k")
    sinks = Router(NAMES, TOPICS.get).final(held.record, RecordOrigin(NAMES.half, 2, 77))

    assert finals.make(held, 2, 77) == sinks


def test_what_a_topic_may_not_take_is_the_job_s() -> None:
    finals = Finals(NAMES, Directory(), 4_000_000)  # type: ignore[arg-type]
    topics = ("missing", "silent", "narrow", "short", "compacted", NAMES.half)

    assert [finals.make(half(topic), 2, 77) for topic in topics] == [None] * len(topics)


def test_a_topic_that_rejected_a_record_is_left_to_the_job_for_a_while() -> None:
    now_s, directory = [100.0], Directory()
    finals = Finals(NAMES, directory, 4_000_000, lambda: now_s[0])  # type: ignore[arg-type]
    finals.leave_to_job("paid")
    assert finals.make(half("paid"), 2, 77) is None
    now_s[0] += LEFT_TO_JOB_S
    finals.refresh()
    assert finals.make(half("paid"), 2, 77) is not None
    finals.make(half("paid"), 2, 78)
    assert directory.asked == 1
