"""What a rebuild asks of the brokers: who wrote before, how far the marks reach, what is open."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.integration.running import Topics, wait_until
from tests.unit.state.building import COMMIT, Story, half, op

from checkback.operations.rebuild.predecessors import (
    Predecessor,
    end_predecessors,
    find_predecessors,
    require_silence,
)
from checkback.operations.rebuild.topic_spans import Span, TopicSpans, find_spans
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError, FencedError
from checkback.sinks.kafka.read.list_offsets import ends_without_transactions
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.records.sink_record import SinkRecord
from checkback.sinks.settings import SinkSettings
from checkback.state import mark_key, pack_settled

PARTITIONS = 2


@pytest.fixture
def topics(bootstrap_servers: str, unique: str, tmp_path: Path) -> Topics:
    made = Topics(bootstrap_servers, unique, half_partitions=1)
    made.create(made.settings(tmp_path))
    return made


def sink(topics: Topics, application_id: str = "app") -> SinkSettings:
    connection = {"bootstrap.servers": topics.bootstrap_servers}
    query_id = str(uuid.uuid4())
    pipeline = Settings(application_id=application_id, topic_prefix=topics.prefix)
    return SinkSettings(pipeline, query_id, connection, 20_000)


def write_batch(settings: SinkSettings, state_partition: int, batch_id: int) -> None:
    producer = MarkedProducer(settings, state_partition)
    producer.begin()
    producer.commit(batch_id, 1_000)
    producer.close()


def positions(topics: Topics) -> TopicSpans:
    names = topics.names
    partitions = {
        names.half: 1,
        names.op: 1,
        names.feedback: 1,
        names.settled: PARTITIONS,
        names.refused: 1,
    }
    return find_spans({"bootstrap.servers": topics.bootstrap_servers}, names, partitions)


def test_queries_are_found_by_their_markers_whatever_the_application(topics: Topics) -> None:
    own, before, other = sink(topics), sink(topics), sink(topics, "an-other")
    write_batch(own, 0, 0)
    write_batch(before, 1, 5)
    write_batch(other, 0, 7)

    def found() -> dict[str, Predecessor]:
        return {query.query_id: query for query in find_predecessors(own, PARTITIONS)}

    # The brokers show an offset a moment after they have taken the commit of its transaction.
    wait_until(lambda: len(found()) == 2, what="both markers")
    found_now = found()
    assert found_now.keys() == {before.query_id, other.query_id}
    assert found_now[other.query_id].settings.pipeline.application_id == "an-other"
    assert found_now[before.query_id].markers[1].next_batch == 6


def test_an_ended_query_can_t_write_and_is_not_found_again(topics: Topics) -> None:
    before = sink(topics)
    write_batch(before, 0, 5)

    end_predecessors(find_predecessors(sink(topics), PARTITIONS))

    assert find_predecessors(sink(topics), PARTITIONS) == []
    with pytest.raises(FencedError):
        write_batch(before, 0, 6)


def test_a_query_that_writes_is_not_rebuilt_under(topics: Topics) -> None:
    alive = sink(topics)
    write_batch(alive, 0, 5)
    found = find_predecessors(sink(topics), PARTITIONS)
    require_silence(found, PARTITIONS, 0.0)
    write_batch(alive, 0, 6)

    with pytest.raises(CheckpointError, match=alive.query_id):
        require_silence(found, PARTITIONS, 0.0)


def test_a_transaction_that_a_dead_job_left_open_is_waited_for_or_ended(topics: Topics) -> None:
    dead = sink(topics)
    write_batch(dead, 0, 5)
    producer = MarkedProducer(dead, 0)
    producer.begin()
    producer.send(SinkRecord(topics.names.settled, 0, None, b"mark", [], 0))
    producer.flush()

    def wait() -> None:
        ends_without_transactions(dict(dead.connection), topics.names.settled, PARTITIONS, 0.5)

    with pytest.raises(CheckpointError, match=r"Partitions \[0\]"):
        wait()
    end_predecessors(find_predecessors(sink(topics), PARTITIONS))
    wait()
    assert topics.read(topics.names.settled) == []


def test_marks_that_retention_took_are_noticed(topics: Topics) -> None:
    names, story = topics.names, Story()
    for now_ms, record in ((1_000, half(0)), (2_000, op(0, COMMIT)), (3_000, half(1))):
        story.batch(now_ms, record)
        topics.send_raw(names.settled, pack_settled(story.outcome, 0), None, key=mark_key(0, 0))
        topics.send_raw(names.settled, b"hello", None, key=None)  # a stranger's, with any time
    topics.send_raw(names.half, b"body", None)
    assert positions(topics).marks_from_ms == 0
    admin = AdminClient({"bootstrap.servers": topics.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(names.settled, 0, 1)]).values():
        future.result()

    found = positions(topics)

    assert found.marks_from_ms == 2_000
    assert found.spans[names.settled] == {0: Span(1, 6), 1: Span(0, 0)}
    assert found.ends([names.half]) == {names.half: {"0": 1}}
