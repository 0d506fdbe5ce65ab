"""Batches of large records are small: the driver looks ahead, and lowers Spark's limit."""

from __future__ import annotations

import socket
import time
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from tests.integration.bad_records import RawName
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.checkpoints.local_files import LocalCheckpoint
from checkback.protocol.errors import BrokerError
from checkback.streaming.records_ahead import RECORDS_EACH, RecordsAhead

LARGE = 500_000
BOUND = 8 * 1_048_576
SMALL_HALVES, LARGE_HALVES = 200, 150


def looking_at(topics: Topics) -> RecordsAhead:
    own = {"group.id": "watch", **topics.connection}
    return RecordsAhead(own, 4_000_000, AdminClient(topics.connection))


def test_sizes_are_those_of_the_records_at_the_offsets(topics: Topics) -> None:
    topics.create()
    half, op = topics.names.half, topics.names.op
    producer = Producer({**topics.connection, "linger.ms": 1_000})
    for size in (10, 10, 5_000, 200, *[200] * 20):
        producer.produce(half, b"v" * size, headers=[("name", b"12345678")], partition=1)
    assert producer.flush(10) == 0
    topics.send_raw(op, None, [], 0, b"key")
    ahead = looking_at(topics)

    assert ahead.unread({half: {0: 0, 1: 0}, op: {0: 0}}) == {(half, 1): 24, (op, 0): 1}
    assert ahead.unread({half: {1: 23}}) == {(half, 1): 1}
    found = ahead.sizes([{(half, 1): 3, (op, 0): 0}, {(half, 1): 2}, {(half, 1): 23}])
    ahead.close()

    mixed = 212 + 4_800 / RECORDS_EACH
    assert found == [{(half, 1): 212, (op, 0): 3}, {(half, 1): mixed}, {(half, 1): 212}]


def test_a_header_name_that_is_no_text_has_no_size_and_ends_nothing(topics: Topics) -> None:
    """The process died of it: confluent-kafka hands out half a list of headers, with no error."""
    topics.create()
    half = topics.names.half
    # One batch of eight: only what comes along with the first record is looked at.
    producer = KafkaProducer(bootstrap_servers=topics.bootstrap_servers, linger_ms=60_000)
    odd = [("name", b"1"), (RawName("\xff\xfe"), b"2"), ("other", b"3")]
    for headers in (odd, [("name", b"12345678")]) * 4:
        producer.send(half, b"v" * 100, b"k", headers, 0)
    producer.flush()
    producer.close()
    ahead = looking_at(topics)

    found = ahead.sizes([{(half, 0): 0}])
    ahead.close()

    assert found == [{(half, 0): (101 + 113) / 2}]


def test_an_end_of_a_transaction_with_nothing_behind_it_has_no_size(topics: Topics) -> None:
    topics.create()
    feedback = topics.names.feedback
    producer = Producer({**topics.connection, "transactional.id": topics.prefix})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(feedback, b"12345", partition=0)
    producer.commit_transaction(10)
    ahead = looking_at(topics)

    sizes = ahead.sizes([{(feedback, 0): offset} for offset in (0, 1)])
    ahead.close()

    assert sizes == [{(feedback, 0): 5}, {(feedback, 0): 0}]


def test_a_silent_broker_holds_nobody_up_for_long(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes connections, and answers nothing."""
    monkeypatch.setattr("checkback.streaming.records_ahead.ANSWER_S_MAX", 0.2)
    monkeypatch.setattr("checkback.streaming.records_ahead.SIZES_S_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        connection = {"bootstrap.servers": address, "log_level": 0}
        ahead = RecordsAhead({"group.id": "watch", **connection}, 1, AdminClient(connection))
        begun_s = time.monotonic()

        with pytest.raises(BrokerError):
            ahead.sizes([{(topics.names.half, 0): 0}])
        with pytest.raises(BrokerError):
            ahead.unread({topics.names.half: {0: 0}})
        ahead.close()

    assert time.monotonic() - begun_s < 10


@pytest.mark.nightly  # the tests above hold what the driver looks at and decides by
def test_no_batch_of_a_backlog_of_large_halves_is_larger_than_twice_the_bound(
    bootstrap_servers: str, unique: str, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """All are committed, and older than their retention: nobody may decide before it has read."""
    topics = Topics(bootstrap_servers, unique, half_partitions=1)
    settings = topics.settings(
        tmp_path / "checkpoint",
        batch_bytes_max=BOUND,
        half_retention_ms=2_000,
        check_max=1,
        transaction_timeout_ms=0,
        check_interval_ms=1,
    )
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    sizes = [100] * SMALL_HALVES + [LARGE] * LARGE_HALVES + [100] * SMALL_HALVES
    ids = send_committed(topics, real, sizes)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: told_finals(pipeline) >= len(ids), what="all finals")
        assert pipeline.terminate() == 0

    assert finals(topics, real) == ids
    read = halves_by_batch(tmp_path / "checkpoint", topics.names.half)
    taken = [sum(sizes[begin:end]) for begin, end in read]
    assert max(taken) < 2 * BOUND
    # Not one by one either, and small ones as before.
    assert sum(size > BOUND / 8 for size in taken) <= 8 * LARGE_HALVES * LARGE / BOUND
    assert max(end - begin for begin, end in read) > BOUND // LARGE * 4
    assert topics.bodies(topics.names.discarded) == []
    assert topics.reasons() == []


def send_committed(topics: Topics, real: str, sizes: list[int]) -> list[str]:
    """Store halves of those sizes, then a commit of each, that of the first half last."""
    ids = [f"{number:04}" for number in range(len(sizes))]
    at = [
        topics.send_half(b"v" * size, real, transaction_id=one)
        for one, size in zip(ids, sizes, strict=True)
    ]
    for position, one in reversed(list(zip(at, ids, strict=True))):
        topics.send_op(position, one, COMMIT)
    return ids


def told_finals(pipeline: Pipeline) -> int:
    """Return how many finals a pipeline's progress lines tell of."""
    lines = (line for line in pipeline.drain() if line["event"] == "progress")
    return sum(line["counts"].get("finals", 0) for line in lines)


def finals(topics: Topics, real: str) -> list[str]:
    """Return the transaction ids on a real topic, sorted."""
    headers = (dict(message.headers() or []) for message in topics.read(real))
    return sorted((found["UNIQ_KEY"] or b"").decode() for found in headers)


def halves_by_batch(checkpoint: Path, half: str) -> list[tuple[int, int]]:
    """Return from which offset to which each batch read halves, by what Spark planned."""
    plans = LocalCheckpoint(checkpoint)
    numbers = sorted(plans.batch_times_ms("offsets"))
    ends = [0, *(plans.planned(number).ends[half][0] for number in numbers)]
    return [pair for pair in pairwise(ends) if pair[0] < pair[1]]
