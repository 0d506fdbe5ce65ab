"""What the start refuses, each with what to do; on a real broker and a real checkpoint store."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from pyspark.sql import SparkSession
from tests.integration.running import Topics, wait_until

from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import (
    BrokerError,
    CheckpointError,
    ConfigurationError,
    OperationalError,
    PrerequisiteError,
)
from checkback.sinks.kafka.transaction.marker import MarkerStore
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.settings import SinkSettings
from checkback.streaming.job.run import Job
from checkback.streaming.start.preflight import (
    bind_checkpoint,
    look_at_cluster,
    require_markers,
    require_settings,
)


@pytest.fixture
def settings(topics: Topics, tmp_path: Path) -> Settings:
    made = topics.settings(tmp_path / "checkpoint")
    topics.create(made)
    return made


@pytest.fixture
def store(spark: SparkSession, settings: Settings) -> CheckpointStore:
    return CheckpointStore.of(spark, settings.checkpoint)


def connection(settings: Settings) -> dict[str, str]:
    return {"bootstrap.servers": settings.bootstrap_servers, "log_level": "0"}


def bind(settings: Settings, store: CheckpointStore) -> None:
    bind_checkpoint(settings, look_at_cluster(settings, connection(settings)), store)


@pytest.mark.parametrize("key", ["bootstrap_servers", "checkpoint"])
def test_what_can_t_be_guessed_has_to_be_set(key: str) -> None:
    given: dict[str, Any] = {"bootstrap_servers": "h:1", "checkpoint": "c", key: ""}

    with pytest.raises(ConfigurationError, match=f"{key} is not set"):
        require_settings(Settings(**given))


def test_brokers_that_do_not_answer_are_named(tmp_path: Path) -> None:
    settings = Settings(bootstrap_servers="127.0.0.1:1", checkpoint=str(tmp_path))

    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
        look_at_cluster(settings, connection(settings))


def test_missing_topics_are_named(topics: Topics, tmp_path: Path) -> None:
    settings = topics.settings(tmp_path)

    with pytest.raises(BrokerError, match="checkback topics create") as refusal:
        look_at_cluster(settings, connection(settings))

    assert topics.names.half in str(refusal.value)


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


def test_more_state_partitions_than_settled_partitions_are_refused(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="2 partitions, 3 state partitions"):
        look_at_cluster(replace(settings, state_partitions=3), connection(settings))


def test_a_half_topic_that_forgets_too_soon_is_refused(settings: Settings, topics: Topics) -> None:
    long = replace(settings, check_interval_ms=86_400_000, half_retention_ms=10**9)

    with pytest.raises(ConfigurationError, match=r"retention\.ms"):
        look_at_cluster(long, connection(settings))


LOSING = {"retention.bytes": "1000000", "cleanup.policy": "compact,delete"}
BELIEVING = {"message.timestamp.type": "CreateTime"}


@pytest.mark.parametrize(
    ("topic", "name", "value"),
    [
        *((topic, *one) for topic in ("half", "op", "feedback") for one in BELIEVING.items()),
        *(
            (topic, *one)
            for topic in ("half", "op", "feedback", "settled")
            for one in LOSING.items()
        ),
    ],
)
def test_a_topic_that_loses_records_or_believes_senders_is_refused(
    settings: Settings, topics: Topics, topic: str, name: str, value: str
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, getattr(topics.names, topic))
    resource.add_incremental_config(
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    )
    admin = AdminClient(connection(settings))
    admin.incremental_alter_configs([resource])[resource].result(30)

    def is_refused() -> bool:  # brokers learn of a change a moment later
        try:
            look_at_cluster(settings, connection(settings))
        except ConfigurationError as error:
            return name in str(error)
        return False

    wait_until(is_refused, 20, "a refusal")


def test_a_checkpoint_is_bound_at_first_and_known_again(
    settings: Settings, store: CheckpointStore
) -> None:
    bind(settings, store)
    identity = Path(settings.checkpoint) / "checkback" / "identity.json"
    bound = identity.read_bytes()

    bind(settings, store)

    assert identity.read_bytes() == bound


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"application_id": "other"}, "application_id"),
        ({"page_size": 7}, "page_size"),
        ({"state_partitions": 1}, "state_partitions"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(
    settings: Settings, store: CheckpointStore, changes: dict[str, Any], said: str
) -> None:
    bind(settings, store)

    with pytest.raises(CheckpointError, match=said):
        bind(replace(settings, **changes), store)


def test_a_checkpoint_over_recreated_topics_is_refused(
    settings: Settings, store: CheckpointStore, topics: Topics
) -> None:
    bind(settings, store)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.delete_topics([topics.names.half])[topics.names.half].result()
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


def test_a_folder_that_can_t_be_written_is_told(settings: Settings, spark: SparkSession) -> None:
    nowhere = replace(settings, checkpoint="/dev/null/checkpoint")

    with pytest.raises(PrerequisiteError, match=r"/dev/null/checkpoint can't be written"):
        bind(nowhere, CheckpointStore.of(spark, nowhere.checkpoint))


def test_a_damaged_identity_is_refused(settings: Settings, store: CheckpointStore) -> None:
    bind(settings, store)
    store.replace_own("identity.json", '{"format": 1')

    with pytest.raises(CheckpointError, match=r"identity\.json"):
        bind(settings, store)


def wait_for_the_marker(sink: SinkSettings) -> None:
    """The broker applies a committed transaction a moment later; a start fences, which waits."""
    markers = MarkerStore(sink)
    assert 0 in markers.read([0])
    markers.close()


def test_a_lost_marker_is_refused_once_a_batch_is_committed(
    settings: Settings, store: CheckpointStore, unique: str
) -> None:
    sink = SinkSettings(settings, unique, connection(settings), 10_000)
    require_markers(sink, 2, store)
    (Path(settings.checkpoint) / "commits").mkdir(parents=True)
    (Path(settings.checkpoint) / "commits" / "4").write_text("v1\n{}")
    written = MarkedProducer(sink, 0)
    written.begin()
    written.commit(4, 0)
    wait_for_the_marker(sink)
    written.close()

    with pytest.raises(CheckpointError, match=r"state partitions \[1\] are gone"):
        require_markers(sink, 2, store)


def test_an_older_copy_of_the_checkpoint_is_refused(
    settings: Settings, store: CheckpointStore, unique: str
) -> None:
    """Its next batch would bear the number of one that is written, and be skipped."""
    sink = SinkSettings(settings, unique, connection(settings), 10_000)
    offsets = Path(settings.checkpoint) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "4").write_text("v1\n{}")
    written = MarkedProducer(sink, 0)
    written.begin()
    written.commit(4, 0)
    wait_for_the_marker(sink)
    require_markers(sink, 1, store)
    written.begin()
    written.commit(5, 0)
    written.close()
    wait_for_the_marker(sink)

    with pytest.raises(CheckpointError, match="older copy") as error:
        require_markers(sink, 1, store)

    assert error.value.fields["written"] == {0: 5}
