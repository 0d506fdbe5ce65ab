"""Opens a checkpoint for reading, with Spark or without, and reads its markers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.local_files import LocalCheckpoint, local_folder
from checkback.checkpoints.own_files.identity import CheckpointIdentity
from checkback.checkpoints.own_files.running import is_pipeline_running
from checkback.checkpoints.spark_internals import hadoop_configuration_of
from checkback.deploy.jars import store_jars
from checkback.deploy.java import find_java
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError, NotFoundError
from checkback.sinks.kafka.transaction.marker import markers_of
from checkback.sinks.settings import SinkSettings
from checkback.streaming.start.sink_choices import sink_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkback.checkpoints.store import CheckpointStore


@contextmanager
def open_files(settings: Settings) -> Iterator[ReadableCheckpoint]:
    """Yield the checkpoint in the settings for reading, without a Spark session.

    One on this machine's disks needs no Java. Elsewhere Hadoop reads it, in a JVM of its own; the
    `spark.*` settings apply, because access to an object store is configured there.

    Raises:
        PrerequisiteError: Java is needed and missing.
    """
    folder = local_folder(settings.checkpoint, settings.spark)
    if folder is not None:
        yield LocalCheckpoint(folder)
        return
    find_java()
    with _open_by_hadoop(settings) as store:
        yield store


@contextmanager
def open_state(settings: Settings) -> Iterator[ReadableCheckpoint]:
    """Yield the checkpoint as `open_files` does, if a pipeline has run over it.

    Raises:
        NotFoundError: no pipeline has run there yet.
    """
    with open_files(settings) as store:
        _require_pipeline(store)
        yield store


@contextmanager
def _open_by_hadoop(settings: Settings) -> Iterator[CheckpointStore]:
    # Imported late: pyspark loads slowly.
    from checkback.checkpoints.store import CheckpointStore
    from checkback.streaming.spark.driver_jvm import launched_jvm, log_path
    from checkback.streaming.spark.session import end_jvm, session_settings

    spark_here = {"spark.driver.memory": "512m", **settings.spark}
    chosen = session_settings(replace(settings, spark=spark_here), store_jars(settings))
    chosen = {key: value for key, value in chosen.items() if value}
    # Spark passes a running JVM's gateway on to later sessions; this JVM ends with the context.
    gateway = launched_jvm(chosen, log_path(settings.log_file))
    try:
        hadoop = hadoop_configuration_of(gateway.jvm, chosen)
        yield CheckpointStore(gateway.jvm, hadoop, settings.checkpoint)
    finally:
        end_jvm(gateway)


@contextmanager
def open_checkpoint(settings: Settings) -> Iterator[tuple[SparkSession, CheckpointStore]]:
    """Yield a small local Spark session, and the checkpoint in the settings opened by it.

    The pipeline's `spark.*` settings apply, because access to an object store is configured there.
    Its master does not apply.

    Raises:
        NotFoundError: no pipeline has run there yet.
    """
    # Imported late: pyspark loads slowly.
    from checkback.checkpoints.store import CheckpointStore
    from checkback.streaming.spark.session import start_session

    folder = local_folder(settings.checkpoint, settings.spark)
    if folder is not None:
        _require_pipeline(LocalCheckpoint(folder))  # before Spark, which takes ten seconds to start
    spark_here = {"spark.driver.memory": "1g", **settings.spark}
    here = replace(settings, master="local[2]", spark=spark_here)
    spark = start_session(here, store_jars(settings))
    try:
        store = CheckpointStore.of(spark, settings.checkpoint)
        _require_pipeline(store)
        yield spark, store
    finally:
        spark.stop()


def _require_pipeline(store: ReadableCheckpoint) -> None:
    if store.query_id() is None:
        raise NotFoundError(
            f"{store.path} is not the checkpoint of a pipeline.",
            remedy="Check the setting; `checkback run` creates the checkpoint.",
            checkpoint=store.path,
        )


def require_not_running(settings: Settings) -> None:
    """Refuse a checkpoint on this machine's disks over which a pipeline runs; needs no Spark.

    Raises:
        CheckpointError: one runs.
    """
    if is_pipeline_running(settings):
        raise still_running(f"it holds the lock of {settings.checkpoint}")


def still_running(sign: str) -> CheckpointError:
    """Return the error that refuses to change a checkpoint while a pipeline runs over it."""
    return CheckpointError(
        f"The pipeline still runs: {sign}.",
        remedy="Stop it with SIGTERM, wait until it has ended, then try again.",
    )


def marker_settings(
    settings: Settings, query_id: str, identity: CheckpointIdentity | None
) -> SinkSettings:
    """Return sink settings that find the markers of the checkpoint and its application."""
    connection = settings.connection()
    if identity is not None:
        settings = replace(settings, application_id=identity.application_id)
    return sink_settings(settings, connection, query_id)


def read_markers(sink: SinkSettings, state_partitions: int) -> dict[int, int]:
    """Return the first batch of which nothing is written, by state partition that has a marker."""
    found = markers_of(sink, state_partitions)
    return {number: marker.untouched_batch for number, marker in found.items()}
