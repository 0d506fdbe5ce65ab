"""One bad record costs one record: the sink against a real broker, without Spark."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.integration.bad_records import bodies, make_topic, refused, send, send_raw, set_config
from tests.integration.running import left_open
from tests.integration.sinking import World, commits, outcome

from checkback.protocol.refusals import RefusedReason
from checkback.sinks.partition import records_to_send as outputs
from checkback.sinks.report import BatchReport
from checkback.state import Action

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("config", "body", "keyed"),
    [
        ({"max_message_bytes": "2000"}, bytes(3_000), True),
        ({"cleanup_policy": "compact"}, b"keyless", False),
    ],
)
@pytest.mark.parametrize("changed_later", [False, True])
def test_a_check_that_its_topic_rejects_is_undelivered(
    either: World, config: dict[str, str], body: bytes, *, keyed: bool, changed_later: bool
) -> None:
    check_topic = either.names.check("g")
    writer = either.writer()
    either.halves([b"a"])
    either.halves([body], keyed=keyed)
    either.halves([b"c"])
    if changed_later:
        writer.directory.find(check_topic)
    set_config(either, check_topic, **config)

    decided = outcome(*((Action.CHECK, offset, 3) for offset in range(3)))
    report = writer.write([decided], 0)

    assert report.undelivered_groups == {"g": 1}
    assert report.asked_groups == {"g": 2}
    assert bodies(either, check_topic) == [b"a", b"c"]
    assert [value for _, value, _ in either.read(either.names.feedback)] == [b"1"]


def test_a_tombstone_comes_out_without_a_value(either: World) -> None:
    either.halves([b"a", None])

    report = either.writer().write([commits(0, 1)], 0)

    assert report.counts["finals"] == 2
    assert {key: value for key, value, _ in either.read(either.real)} == {b"k0": b"a", b"k1": None}


@pytest.mark.parametrize(
    ("bound", "age_ms"),
    [
        ({"message_timestamp_before_max_ms": str(DAY_MS)}, 2 * DAY_MS),
        ({"message_timestamp_after_max_ms": "60000"}, -DAY_MS // 48),
    ],
    ids=["too old", "of a broker whose clock was ahead"],
)
def test_many_records_whose_time_their_topic_does_not_take_are_refused_alone(
    either: World, monkeypatch: pytest.MonkeyPatch, bound: dict[str, str], age_ms: int
) -> None:
    aged = make_topic(either, "aged", 1, **bound)
    now_ms = int(time.time() * 1_000)
    ages = [age_ms if number % 5 else 0 for number in range(250)]
    producer = Producer(dict(either.settings.connection))
    for number, age in enumerate(ages):
        sent: Any = [("PGROUP", b"g"), ("REAL_TOPIC", aged.encode())]
        body, key = b"%d" % number, b"%d" % (number % 9)
        producer.produce(either.names.half, body, key, 0, headers=sent, timestamp=now_ms - age)
    producer.flush()
    writer = either.writer()
    tries: list[int] = []
    honest = type(writer)._try

    def counted(*given: Any) -> BatchReport:
        tries.append(1)
        return honest(*given)

    monkeypatch.setattr(type(writer), "_try", counted)
    report = writer.write([commits(*range(250))], 0)

    # Three, or some more where batches end before a record that is taken: only by such a neighbour
    # do the brokers' answers tell which ones are to blame.
    assert len(tries) <= 8
    assert report.counts["finals"] == 50
    assert report.counts["finals_refused"] == 200
    assert sorted(map(int, bodies(either, aged))) == list(range(0, 250, 5))
    assert {facts["reason"] for _, facts in refused(either)} == {"FINAL_REJECTED"}


def test_headers_larger_than_the_topic_takes_cost_no_neighbour(either: World) -> None:
    wide = make_topic(either, "wide", max_message_bytes="200000")
    for number in range(6):
        headers = [("REAL_TOPIC", wide.encode()), ("w", b"w" * (300_000 if number % 2 else 3))]
        producer = Producer({**either.settings.connection, "message.max.bytes": 4_000_000})
        sent: Any = [("PGROUP", b"g"), *headers]
        producer.produce(either.names.half, b"%d" % number, b"k", 0, headers=sent)
        producer.flush()

    report = either.writer().write([commits(*range(6))], 0)

    assert report.counts["finals_refused"] == 3
    assert bodies(either, wide) == [b"0", b"2", b"4"]
    assert {facts["reason"] for _, facts in refused(either)} == {"FINAL_TOO_LARGE"}


def test_a_half_of_zeros_that_was_compressed_is_refused_without_its_body(either: World) -> None:
    gzip = {"compression.type": "gzip"}
    for _ in range(2):
        send(either, bytes(9_000_000), [], **gzip)
    either.halves([b"after"])
    decided = outcome((Action.COMMIT, 0, 0), (Action.DISCARD_EXPIRED, 1, 1), (Action.COMMIT, 2, 0))

    either.writer().write([decided], 0)

    assert bodies(either, either.real) == [b"after"]
    [(body, facts), (other_body, other)] = refused(either)
    assert (body, other_body) == (None, None)
    assert (facts["reason"], other["reason"]) == ("FINAL_TOO_LARGE", "DISCARD_REJECTED")
    assert facts["cut"] == other["cut"] == "value"
    assert facts["original_value_bytes"] == "9000000"


def test_a_batch_that_unpacks_to_more_than_librdkafka_takes_holds_nothing_up(either: World) -> None:
    either.halves([b"a"])
    send(either, bytes(150_000_000), [], **{"compression.type": "zstd"})
    either.halves([b"c"])
    send(either, bytes(150_000_000), [], **{"compression.type": "zstd"})
    either.halves([b"e"])

    either.writer().write([commits(0, 1, 2, 4)], 0)

    assert bodies(either, either.real) == [b"a", b"c", b"e"]
    [(body, facts)] = refused(either)
    assert body is None
    assert (facts["reason"], facts["offset"]) == ("HALF_UNREADABLE", "1")


def test_a_header_name_that_is_no_text_costs_one_record(either: World) -> None:
    refusal = (Action.REFUSE_HALF, 1, int(RefusedReason.HALF_HEADER_NAME_INVALID))
    either.halves([b"a"])
    send_raw(either, b"\xe9t\xe9", b"x")
    either.halves([b"c"])

    either.writer().write([outcome((Action.COMMIT, 0, 0), refusal, (Action.COMMIT, 2, 0))], 0)

    assert bodies(either, either.real) == [b"a", b"c"]
    [(body, facts)] = refused(either)
    assert body == b"raw"
    assert (facts["reason"], facts["cut"]) == ("HALF_HEADER_NAME_INVALID", "headers")


def test_more_headers_than_librdkafka_reads_are_refused_for_that(either: World) -> None:
    send(either, b"many", [(f"h{number}", b"") for number in range(120_000)])
    send(either, b"nearly", [(f"h{number}", b"") for number in range(99_998)])
    either.halves([b"after"])

    either.writer().write([commits(0, 1, 2)], 0)

    [(body, facts), (other_body, other)] = refused(either)
    assert (body, facts["reason"], facts["cut"]) == (b"many", "HALF_UNREADABLE", "headers")
    assert (other_body, other["reason"]) == (b"nearly", "FINAL_TOO_LARGE")
    assert other["original_headers"] == "100000"
    assert bodies(either, either.real) == [b"after"]


def test_more_properties_than_rocketmq_takes_are_delivered_whole(either: World) -> None:
    """RocketMQ's brokers keep their length in 16 bits; Kafka's headers have no such limit."""
    wide = [(f"p{number}", b"x" * 1_000) for number in range(200)]
    send(either, b"wide", wide)

    report = either.writer().write([commits(0)], 0)

    [(_, body, headers)] = either.read(either.real)
    assert (body, report.counts["finals"]) == (b"wide", 1)
    assert [one for one in headers if one[0].startswith("p")] == wide


def test_a_flood_of_refused_records_is_not_written_twice(
    either: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each group has its share of the refused topic; of the rest it has origin and reason."""
    monkeypatch.setattr(outputs, "REFUSED_BYTES_OF_GROUP_MAX", 3_000)
    either.halves([bytes(1_000)] * 4, group="loud")
    either.halves([b"calm"], group="calm")
    reason = RefusedReason.HALF_WITH_CHECK_TIMES

    report = either.writer().write(
        [outcome(*((Action.REFUSE_HALF, offset, int(reason)) for offset in range(5)))], 0
    )

    told = [
        (body, facts["offset"], facts["reason"], facts["cut"]) for body, facts in refused(either)
    ]
    whole = (reason.name, None)
    assert told[:2] == [(bytes(1_000), str(offset), *whole) for offset in range(2)]
    assert told[2:4] == [(None, offset, reason.name, "value,headers,key") for offset in "23"]
    assert told[4] == (b"calm", "4", *whole)
    assert report.refused_groups == {"loud": 4, "calm": 1}


def test_a_name_that_ends_early_for_c_does_not_redirect_a_half(either: World) -> None:
    """Where decoding let it pass: a topic of ours takes no final, whoever names it."""
    send_raw(either, b"REAL_TOPIC\0x", either.names.settled.encode())

    either.writer().write([commits(0)], 0)

    [(_, facts)] = refused(either)
    assert facts["reason"] == "HALF_FOR_SYSTEM_TOPIC"
    # Only the batch's own mark.
    assert len(either.read(either.names.settled)) == 1


def test_a_half_that_is_gone_before_control_records_only_is_settled_at_once(either: World) -> None:
    for _ in range(2):
        left = left_open(either.settings.connection, f"{either.real}-t", either.names.half)
        left.abort_transaction(30)
    started_s = time.monotonic()

    report = either.writer().write([commits(0, 2)], 0)

    assert report.counts["halves_lost"] == 2
    assert time.monotonic() - started_s < 30


def test_a_half_that_is_gone_is_refused_once_however_often_it_is_asked_about(either: World) -> None:
    either.halves([b"a", b"b"])
    either.delete_halves_before(1)
    asked = [outcome((Action.CHECK, 0, times), (Action.CHECK, 1, times)) for times in (1, 2)]
    writer = either.writer()
    for batch, decided in enumerate([*asked, outcome((Action.DISCARD_CHECK_LIMIT, 0, 2))]):
        writer.write([decided], batch)

    [(body, facts)] = refused(either)
    assert (body, facts["reason"], facts["offset"]) == (None, "HALF_LOST", "0")
    assert bodies(either, either.names.check("g")) == [b"b", b"b"]
    assert either.read(either.names.feedback) == []
