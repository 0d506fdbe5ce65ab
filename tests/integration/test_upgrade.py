"""A job of this version goes on from what earlier ones left: their checkpoints and their topics.

What tests/upgrade/store_release.py stored is put back: topics with the same records at the same
offsets, markers, checkpoint. Cluster and topic ids can't be put back, brokers choose them; they are
replaced in the checkpoint's identity, which would otherwise refuse the topics as recreated.
"""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.integration.running import COMMIT, ROLLBACK, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm
from tests.integration.sinking import delete_topic
from tests.upgrade.store_release import RELEASES, check_counts, settings_of

from checkback.deploy.broker import EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.sinks.kafka.transaction.errors import cause_of
from checkback.sinks.kafka.transaction.marker import UNREAD
from checkback.testing.topics import create_plain_topics

PATIENCE_S = 240.0
STORED = sorted(path.name for path in RELEASES.iterdir())


def restore(stored: Mapping[str, Any], release: Path, topics: Topics, settings: Settings) -> None:
    """Put a release's topics, markers and checkpoint back."""
    topics.create(settings, [], [stored["group"]])
    create_plain_topics(settings, stored["records"])
    exact = {topics.names.half, topics.names.op, topics.names.feedback, topics.names.direct_op}
    for topic, records in stored["records"].items():
        send_again(topics, topic, records, is_exact=topic in exact)
    restore_markers(stored["markers"], settings)
    checkpoint = Path(settings.checkpoint)
    with zipfile.ZipFile(release / "checkpoint.zip") as archive:
        archive.extractall(checkpoint)
    rebind(checkpoint / "checkback" / "identity.json", settings)


def send_again(
    topics: Topics, topic: str, records: Iterable[Mapping[str, Any]], *, is_exact: bool
) -> None:
    """Write a topic's records; exact: at their offsets, where the ends of transactions count."""
    producer = Producer({**topics.connection, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    reader = Consumer({**topics.connection, "group.id": "ends"})

    def end_of(partition: int) -> int:
        return int(reader.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_S)[1])

    for record in records:
        value, headers, partition, key = contents(record)
        if is_exact and record["next"] > record["offset"] + 1:
            producer.begin_transaction()
            producer.produce(topic, value, key, partition, headers=headers)
            producer.commit_transaction(PATIENCE_S)
            # The brokers write its end after they have answered.
            wait_until(lambda: end_of(partition) == record["next"], what="a transaction's end")  # noqa: B023
        else:
            place = topics.send_raw(topic, value, headers, partition, key)
            assert not is_exact or place == (record["partition"], record["offset"])
    reader.close()


def contents(record: Mapping[str, Any]) -> tuple[Any, ...]:
    headers = [(name, decoded(value)) for name, value in record["headers"]]
    return decoded(record["value"]), headers, record["partition"], decoded(record["key"])


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def restore_markers(markers: dict[str, Any], settings: Settings) -> None:
    consumer = Consumer(
        {"bootstrap.servers": settings.bootstrap_servers, "group.id": markers["group"]}
    )
    offsets = [
        TopicPartition(settings.topics.settled, int(number), offset, metadata)
        for number, (offset, metadata) in markers["offsets"].items()
    ]
    wait_until(lambda: is_committed(consumer, offsets), PATIENCE_S, what="the markers")
    consumer.close()


def is_committed(consumer: Consumer, offsets: list[TopicPartition]) -> bool:
    """Commit them; False where the broker has not found the group's coordinator yet."""
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        if cause_of(error).code() in UNREAD:
            return False
        raise
    return True


def rebind(identity: Path, settings: Settings) -> None:
    admin: Any = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    names = settings.topics
    described = admin.describe_topics(TopicCollection([names.half, names.op, names.settled]))
    now = {
        "cluster_id": admin.describe_cluster().result(20).cluster_id,
        "half_topic_id": str(described[names.half].result(20).topic_id),
        "op_topic_id": str(described[names.op].result(20).topic_id),
        "settled_topic_id": str(described[names.settled].result(20).topic_id),
    }
    identity.write_text(json.dumps({**json.loads(identity.read_text()), **now}))


class Answers:
    """Sends verdicts about the stored halves as their group would."""

    def __init__(self, topics: Topics, stored: Mapping[str, Any]) -> None:
        self.topics = topics
        self.group: str = stored["group"]
        self.halves = {
            (decoded(record["value"]) or b"").decode(): record
            for record in stored["records"][topics.names.half]
        }

    def send(self, name: str, state: int) -> None:
        half = self.halves[name]
        at = half["partition"], half["offset"]
        self.topics.send_op(at, name, state, group=self.group)


@pytest.mark.nightly  # tests/unit/state/test_page.py reads older pages
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", STORED)
def test_a_release_is_taken_over_with_all_it_remembers(
    version: str, broker: EmbeddedBroker, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    release = RELEASES / version
    stored = json.loads((release / "topics.json").read_text())
    expected, group, real = stored["expected"], stored["group"], stored["real_topic"]
    topics = Topics(broker.bootstrap_servers, stored["prefix"])
    settings = settings_of(topics, tmp_path / "checkpoint", stored["application_id"])
    restore(stored, release, topics, settings)
    answers = Answers(topics, stored)
    pending: dict[str, int] = expected["pending"]
    waiting = expected["waiting_op"]
    finals = {*expected["finals_before"], *expected["finals_of_records"]}
    committed, rolled_back, *others = sorted(pending)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started", PATIENCE_S)
        # Nothing but what it had left pending is asked, and what its records say becomes final.
        wait_until(
            lambda: check_counts(topics, group).keys() == {*pending}, PATIENCE_S, what="the checks"
        )
        wait_until(lambda: topics.bodies(real) == sorted(finals), PATIENCE_S, what="the finals")
        # A half whose op it took in before is final at once.
        name, (partition, offset) = waiting["name"], waiting["at"]
        half = topics.send_half(name.encode(), real, partition=partition, group=group)
        assert half == (partition, offset)
        for verdict, names in ((COMMIT, [committed, *others]), (ROLLBACK, [rolled_back])):
            for pending_name in names:
                answers.send(pending_name, verdict)
        # What was settled stays so: the same verdict is nothing new, another is refused.
        for settled in finals:
            answers.send(settled, COMMIT)
        for settled in expected["rolled_back"]:
            answers.send(settled, ROLLBACK)
        answers.send("committed", ROLLBACK)
        finals |= {name, committed, *others}
        wait_until(lambda: topics.bodies(real) == sorted(finals), PATIENCE_S, what="the answers")
        wait_until(topics.reasons, PATIENCE_S, what="the refused verdict")
        assert pipeline.terminate(PATIENCE_S) == 0, pipeline.errors()

    # The checkpoint does not know the former direct op topic any more: it may go.
    delete_topic(topics.connection, topics.names.direct_op)
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        last = topics.send_half(b"last", real, group=group)
        topics.send_op(last, "last", COMMIT, group=group)
        finals |= {"last"}
        wait_until(lambda: topics.bodies(real) == sorted(finals), PATIENCE_S, what="the last one")
        assert pipeline.terminate(PATIENCE_S) == 0, pipeline.errors()

    for asked, counts in check_counts(topics, group).items():
        first = pending[asked] + (asked != expected["given_back"])
        assert counts == list(range(first, first + len(counts))), asked
    assert topics.bodies(real) == sorted(finals)
    assert topics.reasons() == ["ROLLBACK_AFTER_COMMIT"]
    assert topics.bodies(topics.names.discarded) == []
