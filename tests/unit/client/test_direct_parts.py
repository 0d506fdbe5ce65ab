"""Direct delivery, the parts that need neither Kafka nor threads."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from tests.unit.client.direct_playing import MINE, Kafka, failed, half_of

from checkback.client.counters import ClientEvent, Counters
from checkback.client.direct.direct_half import DirectHalf, DirectRecord, HalfState
from checkback.client.direct.final_record import BY_KEY, DeliveredOps, direct_final
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.direct.session import SLOW_COMMIT_S, NotDelivered, Session
from checkback.client.direct.topic_pauses import TopicPauses
from checkback.client.options import ProducerOptions
from checkback.protocol import properties as names
from checkback.protocol.errors import ConfigurationError
from checkback.protocol.records import Op, half_headers
from checkback.protocol.refusals import RecordOrigin
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.real_topics import KnownTopic
from checkback.sinks.kafka.routing import Router
from checkback.sinks.kafka.sink_record import SinkRecord


class Half:
    """A half as the half topic has it."""

    def __init__(self, headers: names.Headers, key: bytes | None) -> None:
        self._headers, self._key = headers, key

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes:
        return b"\x00body"

    def headers(self) -> names.Headers:
        return list(self._headers)

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_700_000_000_123


@pytest.mark.parametrize("key", [None, b"", b"k"])
@pytest.mark.parametrize("queue_id", [None, 0, 3, 4, 999])
@pytest.mark.parametrize(
    "properties",
    [
        {},
        {
            "a": "b", "KEYS": "k1 k2", "TAGS": "t", "CHECK_IMMUNITY_TIME_IN_SECONDS": "9",
            "TIMER_DELAY_SEC": "1", "ü": "ö", "": "",
        },
    ],
)  # fmt: skip
def test_a_direct_final_is_the_sinks(
    key: bytes | None, queue_id: int | None, properties: dict[str, str]
) -> None:
    headers = half_headers(
        producer_group="g", transaction_id="u", real_topic="paid", properties=properties,
        real_queue_id=queue_id, direct_id=MINE,
    )  # fmt: skip
    half = Half(headers, key)

    ours = direct_final(
        headers, key, half.value(), place=(2, 77), timestamp_ms=half.timestamp()[1], partitions=4
    )

    router = Router(TopicNames("p-"), lambda _: KnownTopic(4, 1_000_000))
    theirs = router.final(half, RecordOrigin("half", 2, 77))
    assert isinstance(theirs, SinkRecord)
    assert tuple(ours) == tuple(theirs)[:6]
    assert names.DIRECT_ID not in dict(ours.headers)
    assert ours.partition == (queue_id if queue_id in (0, 3) else BY_KEY)


def test_a_delivered_op_names_its_half_as_any_op() -> None:
    op = DeliveredOps("direct-op", "g").op("u", (2, 77))

    assert (op.topic, op.partition, op.key, op.value) == ("direct-op", 2, b"u", b"77")
    assert op.headers == Op(2, 77, "g", "u", 9).headers()


def test_who_takes_a_half_first_has_it() -> None:
    own = OwnHalves()
    half = half_of(own)

    assert own.queue(half)
    assert own.take(half)
    assert not own.close(half)
    own.end(half, delivered=False)
    assert half.state is HalfState.CLOSED


def test_a_half_that_was_closed_is_never_delivered_directly() -> None:
    own = OwnHalves()
    half = half_of(own)

    assert own.close(half)
    assert not own.queue(half)
    queued = half_of(own, transaction_id="v")
    assert own.queue(queued)
    assert own.close(queued)
    assert not own.take(queued)


def test_a_half_is_known_as_long_as_somebody_works_on_it() -> None:
    own = OwnHalves()
    half = half_of(own)
    own.rename(half, "v")

    assert own.find("u") is None
    assert own.find("v") is half
    del half
    assert own.find("v") is None
    assert own.owns(MINE)


def ready_half() -> DirectHalf:
    half = DirectHalf("u", MINE, 0)
    half.records = (
        DirectRecord("paid", -1, None, b"x", [], 1),
        DeliveredOps("direct-op", "g").op("u", (0, 1)),
    )
    return half


def session_on(kafka: Kafka) -> Session:
    return Session(MINE, lambda _: kafka, lambda: kafka.now_s)


def test_the_commit_follows_the_acknowledgement_of_every_record() -> None:
    kafka = Kafka()
    session = session_on(kafka)

    session.deliver([ready_half(), ready_half()])

    pair = ["produce paid", "produce direct-op"]
    assert kafka.calls == ["begin", *pair, *pair, "flush", "commit"]
    assert not session.is_spent


def test_without_every_acknowledgement_nothing_is_committed() -> None:
    kafka = Kafka(flush=1)

    with pytest.raises(NotDelivered):
        session_on(kafka).deliver([ready_half()])
    assert "commit" not in kafka.calls


def test_a_commit_that_may_have_been_repeated_spends_the_session() -> None:
    kafka = Kafka()
    kafka.took_s["commit"] = SLOW_COMMIT_S + 0.01
    session = session_on(kafka)

    session.deliver([ready_half()])

    assert session.is_spent


@pytest.mark.parametrize(
    ("code", "blames_records", "is_ended"),
    [
        (KafkaError._FENCED, False, True),
        (KafkaError.INVALID_TXN_STATE, False, True),
        (KafkaError._TIMED_OUT, False, False),
        (KafkaError._TRANSPORT, False, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, True, False),
        (KafkaError.INVALID_TIMESTAMP, True, False),
    ],
)
@pytest.mark.parametrize("step", ["begin", "produce paid", "commit"])
def test_what_goes_wrong_says_whom_to_blame(
    step: str, code: int, blames_records: bool, is_ended: bool
) -> None:
    with pytest.raises(NotDelivered) as raised:
        session_on(Kafka(**{step: failed(code)})).deliver([ready_half()])

    assert (raised.value.blames_records, raised.value.is_ended) == (blames_records, is_ended)


def test_what_python_can_not_translate_is_not_delivered() -> None:
    with pytest.raises(NotDelivered):
        session_on(Kafka(**{"produce paid": TypeError("header")})).deliver([ready_half()])


def test_the_topic_to_blame_pauses_longer_and_longer() -> None:
    pauses = TopicPauses()
    pauses.failed(["bad", "good"], 0.0)
    assert pauses.is_paused("good", 0.5)

    pauses.delivered(["good"])
    pauses.failed(["bad"], 10.0)

    assert not pauses.is_paused("good", 10.5)
    assert pauses.is_paused("bad", 11.9)
    assert not pauses.is_paused("bad", 12.1)


def test_direct_delivery_is_refused_with_an_account() -> None:
    with pytest.raises(ConfigurationError, match="direct_delivery and access_key"):
        ProducerOptions(direct_delivery=True, access_key="a", secret_key="s")  # noqa: S106


def test_an_event_can_be_counted_several_times_at_once() -> None:
    heard: list[ClientEvent] = []
    counters = Counters(heard.append)

    counters.add(ClientEvent.DIRECT_DELIVERED, 3)

    assert counters.snapshot()[ClientEvent.DIRECT_DELIVERED] == 3
    assert len(heard) == 3


def test_sessions_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """While Kafka is slow each commit costs a session: a long run must not fill the memory."""
    monkeypatch.setattr("checkback.client.direct.own_halves.SESSIONS_MAX", 2)
    own = OwnHalves()
    for number in range(3):
        own.add_session(str(number))
    assert [own.owns(str(number)) for number in range(3)] == [False, True, True]
