"""A job of this version starts from what each release left: its checkpoint and its topics.

What tests/upgrade/store_release.py stored is put back: topics with the same records at the same
offsets, markers, checkpoint. Cluster and topic ids can't be put back, brokers choose them; they are
replaced in the checkpoint's identity, which would otherwise refuse the topics as recreated.
"""

from __future__ import annotations

import base64
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.integration.running import COMMIT, ROLLBACK, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm
from tests.upgrade.store_release import RELEASES, check_counts, settings_of

from checkback.deploy.broker import EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.sinks.kafka.errors import cause_of
from checkback.sinks.kafka.marker import UNREAD

PATIENCE_S = 240.0
STORED = sorted(path.name for path in RELEASES.iterdir())


def restore(stored: dict[str, Any], release: Path, topics: Topics, settings: Settings) -> None:
    """Put a release's topics, markers and checkpoint back."""
    topics.create(settings, [stored["real_topic"]], [stored["group"]])
    names = topics.names
    for topic, key in ((names.half, "half"), (names.op, "op")):
        for record in stored["records"][key]:
            place = topics.send_raw(topic, *contents(record))
            assert place == (record["partition"], record["offset"])
    for record in stored["records"]["settled"]:
        topics.send_raw(names.settled, *contents(record))
    restore_markers(stored["markers"], settings)
    checkpoint = Path(settings.checkpoint)
    with zipfile.ZipFile(release / "checkpoint.zip") as archive:
        archive.extractall(checkpoint)
    rebind(checkpoint / "checkback" / "identity.json", settings)
    fill_up(names.feedback, checkpoint, topics)


def fill_up(topic: str, checkpoint: Path, topics: Topics) -> None:
    """Write as many records as the release has read; read before, they decide nothing again.

    Without them the new job's first tick would stand where the release had read, and wake no page.
    """
    newest = max((checkpoint / "offsets").iterdir(), key=lambda one: int(one.name))
    read_up_to = json.loads(newest.read_text().splitlines()[-1])[topic]
    for partition, offset in read_up_to.items():
        for _ in range(offset):
            topics.send_raw(topic, b"", [], int(partition), None)


def contents(record: dict[str, Any]) -> tuple[Any, ...]:
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


@pytest.mark.nightly  # tests/unit/state/test_page.py reads older pages
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", STORED)
def test_a_release_is_taken_over_with_all_it_remembers(
    version: str, broker: EmbeddedBroker, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    release = RELEASES / version
    stored = json.loads((release / "topics.json").read_text())
    name, group, real = (stored[key] for key in ("application_id", "group", "real_topic"))
    topics = Topics(broker.bootstrap_servers, f"{name}-")
    plain = settings_of(topics, tmp_path / "checkpoint", name)
    settings = replace(plain, check_interval_ms=3_600_000)
    restore(stored, release, topics, settings)
    pending: dict[str, int] = stored["expected"]["pending"]
    waiting = stored["expected"]["waiting_op"]
    at = {one["transaction_id"]: one["at"] for one in halves(stored)}

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started", PATIENCE_S)
        # Everything it had left pending is asked again, with the count after its last one.
        wait_until(
            lambda: check_counts(topics, group).keys() == {*pending}, PATIENCE_S, what="the checks"
        )
        # A half whose op the release took in before it is final at once.
        half = topics.send_half(
            waiting["transaction_id"].encode(), real, partition=waiting["at"][0], group=group
        )
        first, second, *_ = pending
        topics.send_op(at[first], first, COMMIT, group=group)
        topics.send_op(at[second], second, ROLLBACK, group=group)
        # What it had settled stays so: another verdict is refused, the same is nothing new.
        for settled, state in (("committed", ROLLBACK), ("rolled-back", ROLLBACK)):
            topics.send_op(at[settled], settled, state, group=group)
        finals = sorted([first, waiting["transaction_id"]])
        wait_until(lambda: topics.bodies(real) == finals, PATIENCE_S, what="the finals")
        wait_until(topics.reasons, PATIENCE_S, what="the refused verdict")
        assert pipeline.terminate(PATIENCE_S) == 0, pipeline.errors()

    assert list(half) == waiting["at"]
    for asked, counts in check_counts(topics, group).items():
        # The batch that the release had planned runs under its own, shorter, intervals.
        assert counts == list(range(pending[asked] + 1, pending[asked] + 1 + len(counts)))
    assert topics.bodies(real) == finals
    assert topics.reasons() == ["ROLLBACK_AFTER_COMMIT"]


def halves(stored: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "transaction_id": (decoded(one["value"]) or b"").decode(),
            "at": (one["partition"], one["offset"]),
        }
        for one in stored["records"]["half"]
    ]
