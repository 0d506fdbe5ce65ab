"""What the start refuses, each with what to do; on a real broker and a real checkpoint folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from tests.integration.running import Topics

from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.rules import record_rules
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import (
    BrokerError,
    CheckpointError,
    ConfigurationError,
    PrerequisiteError,
)
from checkback.sinks.settings import SinkSettings
from checkback.sinks.transaction import MarkedProducer
from checkback.state import Rules
from checkback.streaming.preflight import (
    bind_checkpoint,
    look_at_cluster,
    require_markers,
    require_settings,
)


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique)


@pytest.fixture
def settings(topics: Topics, tmp_path: Path) -> Settings:
    made = topics.settings(tmp_path / "checkpoint")
    topics.create(made)
    return made


@pytest.fixture
def folder(spark: SparkSession, settings: Settings) -> CheckpointFolder:
    return CheckpointFolder(spark, settings.checkpoint)


def connection(settings: Settings) -> dict[str, str]:
    return {"bootstrap.servers": settings.bootstrap_servers, "log_level": "0"}


def bind(settings: Settings, folder: CheckpointFolder) -> None:
    bind_checkpoint(settings, look_at_cluster(settings, connection(settings)), folder)


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


def test_more_state_partitions_than_settled_partitions_are_refused(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="2 partitions, 3 state partitions"):
        look_at_cluster(replace(settings, state_partitions=3), connection(settings))


def test_a_half_topic_that_forgets_too_soon_is_refused(settings: Settings, topics: Topics) -> None:
    long = replace(settings, check_interval_ms=86_400_000, half_retention_ms=10**9)

    with pytest.raises(ConfigurationError, match=r"retention\.ms"):
        look_at_cluster(long, connection(settings))


def test_a_checkpoint_is_bound_at_first_and_known_again(
    settings: Settings, folder: CheckpointFolder
) -> None:
    bind(settings, folder)

    bind(settings, folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"application_id": "other"}, "application_id"),
        ({"page_size": 7}, "page_size"),
        ({"state_partitions": 1}, "state_partitions"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(
    settings: Settings, folder: CheckpointFolder, changes: dict[str, Any], said: str
) -> None:
    bind(settings, folder)

    with pytest.raises(CheckpointError, match=said):
        bind(replace(settings, **changes), folder)


def test_a_checkpoint_over_recreated_topics_is_refused(
    settings: Settings, folder: CheckpointFolder, topics: Topics
) -> None:
    bind(settings, folder)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.delete_topics([topics.names.half])[topics.names.half].result()
    topics.create(settings)

    with pytest.raises(CheckpointError, match="half_topic_id"):
        bind(settings, folder)


def test_a_new_checkpoint_over_settled_topics_is_refused(
    settings: Settings, folder: CheckpointFolder, topics: Topics
) -> None:
    topics.send_raw(topics.names.settled, b"mark", [])

    with pytest.raises(CheckpointError, match="already settled"):
        bind(settings, folder)


def test_a_folder_of_something_else_is_refused(
    settings: Settings, folder: CheckpointFolder
) -> None:
    Path(settings.checkpoint).mkdir()
    (Path(settings.checkpoint) / "something").write_text("else")

    with pytest.raises(CheckpointError, match="not a checkpoint of Checkback"):
        bind(settings, folder)


def test_a_folder_that_can_t_be_written_is_told(settings: Settings, spark: SparkSession) -> None:
    nowhere = replace(settings, checkpoint="/dev/null/checkpoint")

    with pytest.raises(PrerequisiteError, match=r"/dev/null/checkpoint can't be written"):
        bind(nowhere, CheckpointFolder(spark, nowhere.checkpoint))


def test_a_damaged_identity_is_refused(settings: Settings, folder: CheckpointFolder) -> None:
    bind(settings, folder)
    folder.write("identity.json", '{"format": 1')

    with pytest.raises(CheckpointError, match=r"identity\.json"):
        bind(settings, folder)


def test_a_lost_marker_is_refused_once_a_batch_is_committed(
    settings: Settings, folder: CheckpointFolder, unique: str
) -> None:
    sink = SinkSettings("app", unique, unique, connection(settings), 10_000, 1_000_000)
    require_markers(sink, 2, folder)
    (Path(settings.checkpoint) / "commits").mkdir(parents=True)
    (Path(settings.checkpoint) / "commits" / "4").write_text("v1\n{}")
    written = MarkedProducer(sink, 0)
    written.begin()
    written.commit(4, 0)
    written.close()

    with pytest.raises(CheckpointError, match=r"state partitions \[1\] are gone"):
        require_markers(sink, 2, folder)


def test_an_older_copy_of_the_checkpoint_is_refused(
    settings: Settings, folder: CheckpointFolder, unique: str
) -> None:
    """Its next batch would bear the number of one that is written, and be skipped."""
    sink = SinkSettings("app", unique, unique, connection(settings), 10_000, 1_000_000)
    offsets = Path(settings.checkpoint) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "4").write_text("v1\n{}")
    written = MarkedProducer(sink, 0)
    written.begin()
    written.commit(4, 0)
    require_markers(sink, 2, folder)
    written.begin()
    written.commit(5, 0)
    written.close()

    with pytest.raises(CheckpointError, match="older copy") as error:
        require_markers(sink, 2, folder)

    assert error.value.fields["written"] == {0: 5}


def test_rules_are_recorded_from_when_they_hold(
    settings: Settings, folder: CheckpointFolder
) -> None:
    first, second = (Rules.from_settings(replace(settings, check_max=number)) for number in (3, 9))
    record_rules(folder, 1_000, first)
    record_rules(folder, 1_500, first)

    history = record_rules(folder, 2_000, second)

    assert history.at(1_999) == first
    assert history.at(2_000) == second
    assert len(history.entries) == 2


def test_rules_recorded_after_the_clock_was_set_back_spare_the_planned_batch(
    settings: Settings, folder: CheckpointFolder
) -> None:
    """It may have been written in part, and is replayed with the time it was planned at."""
    first, second = (Rules.from_settings(replace(settings, check_max=number)) for number in (3, 9))
    record_rules(folder, 1_000, first)
    planned_ms = 5_000_000
    offsets = Path(settings.checkpoint) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "7").write_text(f'v1\n{{"batchTimestampMs":{planned_ms},"conf":{{}}}}\n-')

    history = record_rules(folder, planned_ms - 3_600_000, second)

    assert history.at(planned_ms) == first
    assert history.at(planned_ms + 1) == second
