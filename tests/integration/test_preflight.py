"""What the start refuses, each with what to do; on a real broker and a real checkpoint store."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.bad_records import set_topic_config
from tests.integration.running import Topics
from tests.integration.sinking import delete_topic

from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import (
    CheckpointError,
    ConfigurationError,
    OperationalError,
)
from checkback.sinks.kafka.transaction.marker import MarkerStore
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.settings import SinkSettings
from checkback.streaming.job.run import Job
from checkback.streaming.start.preflight import (
    bind_checkpoint,
    look_at_cluster,
    require_markers,
)
from checkback.streaming.start.topic_claim import TopicClaim


@pytest.fixture
def settings(topics: Topics, tmp_path: Path) -> Settings:
    made = topics.settings(tmp_path / "checkpoint")
    topics.create(made)
    return made


@pytest.fixture
def store(spark: SparkSession, settings: Settings) -> CheckpointStore:
    return CheckpointStore.of(spark, settings.checkpoint)


def bind(settings: Settings, store: CheckpointStore) -> None:
    bind_checkpoint(settings, look_at_cluster(settings, settings.connection()), store)


def test_a_start_with_a_clock_that_is_days_ahead_is_refused_and_leaves_nothing(
    settings: Settings,
) -> None:
    """Every pending half would be given up, and a commit that comes then be refused."""
    told: list[str] = []
    days_ahead = Job(
        settings,
        [],
        lambda event, _: told.append(event),
        now_ms=lambda: int((time.time() + 4.5 * 86_400) * 1_000),
    )

    with pytest.raises(
        OperationalError, match=r"This machine's clock is 4d1[12]h ahead"
    ) as refusal:
        days_ahead.run()

    assert refusal.value.exit_code == 3
    assert told == []
    assert not Path(settings.checkpoint).exists()


def test_a_half_topic_that_forgets_too_soon_is_refused(settings: Settings, topics: Topics) -> None:
    long = replace(settings, check_interval_ms=86_400_000, half_retention_ms=10**9)

    with pytest.raises(ConfigurationError, match=r"retention\.ms"):
        look_at_cluster(long, settings.connection())


@pytest.mark.parametrize("topic", ["half", "decided"])
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("cleanup.policy", "compact", "cleanup.policy compact"),
        ("retention.ms", "1000", "keeps records for 1s"),
        ("retention.bytes", "1000", "retention.bytes 1000"),
    ],
)
def test_a_topic_that_would_lose_records_is_refused(
    topics: Topics, topic: str, name: str, value: str, says: str
) -> None:
    settings, full_name = topics.settings(relay=True), getattr(topics.names, topic)
    topics.create(settings)
    look_at_cluster(settings, settings.connection())
    set_topic_config(topics.connection, full_name, **{name.replace(".", "_"): value})

    with pytest.raises(ConfigurationError, match=says) as refusal:
        look_at_cluster(settings, settings.connection())
    assert full_name in str(refusal.value)


def test_a_checkpoint_is_bound_at_first_and_known_again(
    settings: Settings, store: CheckpointStore
) -> None:
    bind(settings, store)
    identity = Path(settings.checkpoint) / "checkback" / "identity.json"
    bound = identity.read_bytes()

    bind(settings, store)

    assert identity.read_bytes() == bound


def test_a_checkpoint_over_recreated_topics_is_refused(
    settings: Settings, store: CheckpointStore, topics: Topics
) -> None:
    bind(settings, store)
    delete_topic(topics.connection, topics.names.half)
    topics.create(settings)

    with pytest.raises(CheckpointError, match="half_topic_id"):
        bind(settings, store)


def test_a_new_checkpoint_over_settled_topics_is_refused(
    settings: Settings, store: CheckpointStore, topics: Topics
) -> None:
    topics.send_raw(topics.names.settled, b"mark", [])

    with pytest.raises(CheckpointError, match="already settled"):
        bind(settings, store)


def test_a_folder_of_something_else_is_refused(settings: Settings, store: CheckpointStore) -> None:
    Path(settings.checkpoint).mkdir()
    (Path(settings.checkpoint) / "something").write_text("else")

    with pytest.raises(CheckpointError, match="not a checkpoint of Checkback"):
        bind(settings, store)


def write_nothing(sink: SinkSettings, batch: int) -> None:
    """Move the marker behind a batch, and wait for it.

    The broker applies a committed transaction a moment later; a start fences, which waits.
    """
    written = MarkedProducer(sink, 0)
    written.begin()
    written.commit(batch, 0)
    written.close()
    markers = MarkerStore(sink)
    assert 0 in markers.read([0])
    markers.close()


def test_a_lost_marker_is_refused_once_a_batch_is_committed(
    settings: Settings, store: CheckpointStore, unique: str
) -> None:
    sink = SinkSettings(settings, unique, settings.connection(), 10_000)
    require_markers(sink, 2, store)
    (Path(settings.checkpoint) / "commits").mkdir(parents=True)
    (Path(settings.checkpoint) / "commits" / "4").write_text("v1\n{}")
    write_nothing(sink, 4)

    with pytest.raises(CheckpointError, match=r"state partitions \[1\] are gone"):
        require_markers(sink, 2, store)


def test_an_older_copy_of_the_checkpoint_is_refused(
    settings: Settings, store: CheckpointStore, unique: str
) -> None:
    """Its next batch would bear the number of one that is written, and be skipped."""
    sink = SinkSettings(settings, unique, settings.connection(), 10_000)
    offsets = Path(settings.checkpoint) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "4").write_text("v1\n{}")
    write_nothing(sink, 4)
    require_markers(sink, 1, store)
    write_nothing(sink, 5)

    with pytest.raises(CheckpointError, match="older copy") as error:
        require_markers(sink, 1, store)

    assert error.value.fields["written"] == {0: 5}


@pytest.fixture
def stores(spark: SparkSession, settings: Settings) -> list[CheckpointStore]:
    return [CheckpointStore.of(spark, f"{settings.checkpoint}-{name}") for name in ("a", "b")]


def claim_topics(settings: Settings, store: CheckpointStore) -> None:
    TopicClaim(settings, settings.connection(), store, "half", None, int).claim()


def test_topics_are_the_first_checkpoints_that_claims_them(
    settings: Settings, stores: list[CheckpointStore]
) -> None:
    first, second = (replace(settings, checkpoint=folder.path) for folder in stores)
    claim_topics(first, stores[0])
    claim_topics(first, stores[0])

    with pytest.raises(CheckpointError, match="already settled") as refusal:
        claim_topics(replace(second, application_id="other"), stores[1])

    assert refusal.value.fields["claimed_by"] == first.checkpoint
    assert look_at_cluster(first, settings.connection()).claim is not None


def test_a_claim_that_a_crash_cut_off_is_made_good(
    settings: Settings, stores: list[CheckpointStore]
) -> None:
    """The claim is on the topic, and the checkpoint does not know that it won."""
    claim_topics(settings, stores[0])
    text = stores[0].read_own("claim.json") or ""
    stores[0].replace_own("claim.json", text.replace("true", "false"))

    claim_topics(settings, stores[0])

    assert stores[0].read_own("claim.json") == text
