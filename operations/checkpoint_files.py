"""Opening a checkpoint's files without a Spark session, and the markers beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from checkback.checkpoints.files import HadoopFiles
from checkback.checkpoints.identity import CheckpointIdentity
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.sinks.marker import MarkerStore
from checkback.sinks.settings import SinkSettings
from checkback.streaming.job import sink_settings
from checkback.streaming.session import end_jvm, session_settings


@contextmanager
def open_files(settings: Settings) -> Iterator[HadoopFiles]:
    """Give the files of the checkpoint in the settings, through a JVM without a session.

    The `spark.*` settings hold, because what reaches an object store is among them.
    """
    spark_here = {"spark.driver.memory": "512m", **settings.spark}
    chosen = session_settings(replace(settings, spark=spark_here), [])
    chosen = {key: value for key, value in chosen.items() if value}
    # Spark hands a running JVM's gateway on to later sessions; this one ends with the context.
    launch: Any = launch_gateway  # untyped in pyspark
    gateway = launch(SparkConf(loadDefaults=False).setAll(list(chosen.items())))
    try:
        jvm = gateway.jvm
        conf = jvm.org.apache.spark.SparkConf(True)
        for key, value in chosen.items():
            conf.set(key, value)
        hadoop = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(conf)
        yield HadoopFiles(jvm, hadoop, settings.checkpoint)
    finally:
        end_jvm(gateway)


def marker_settings(
    settings: Settings, query_id: str, identity: CheckpointIdentity | None
) -> SinkSettings:
    """Return whose markers those of a checkpoint are: of the application that it is bound to."""
    connection = {**confluent_settings(settings.bootstrap_servers, settings.kafka), "log_level": 2}
    if identity is not None:
        settings = replace(settings, application_id=identity.application_id)
    return sink_settings(settings, connection, query_id)


def read_markers(sink: SinkSettings, state_partitions: int) -> dict[int, int]:
    """Return the next batch of those state partitions that have a marker.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    store = MarkerStore(sink)
    try:
        found = store.read(list(range(state_partitions)))
    finally:
        store.close()
    return {number: marker.next_batch for number, marker in found.items()}
