"""The baseline for the job: Spark alone moves the same records.

``python -m bench.runs.baseline --config FILE`` reads the same halves and ops with Spark's Kafka
source and writes the same final messages, including headers, with Spark's Kafka sink. It has no
state and no Python, and delivers at least once. It computes from the seed which transactions
commit, and does not look at the ops.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from threading import Event
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from bench.runs.workload import ROLLED_BACK_OF
from checkback.deploy.jars import ensure_jars
from checkback.deploy.settings import load_settings
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import spark_settings
from checkback.streaming.source.kafka_source import pem_text
from checkback.streaming.spark.session import start_session

KEPT: Final = (1, 2, 5)
"""Positions of the half's headers that the final message keeps: group, transaction id, tags."""
POLL_S: Final = 0.5


def finals_of(rows: DataFrame, settings: Settings, seed: int, real_topic: str) -> DataFrame:
    """Return the final messages of the committed halves in the form of Spark's Kafka sink."""
    commits = (f.col("offset") + f.lit(seed)) % ROLLED_BACK_OF != 0
    halves = rows.where((f.col("topic") == settings.topics.half) & commits)
    added = [
        _header(names.TRAN_PREPARED_QUEUE_OFFSET, f.col("offset")),
        _header(names.TRAN_HALF_QUEUE_ID, f.col("partition")),
    ]
    headers = f.array(*(f.col("headers")[at] for at in KEPT), *added)
    return halves.select("key", "value", headers.alias("headers"), f.lit(real_topic).alias("topic"))


def start(spark: SparkSession, settings: Settings, seed: int, real_topic: str) -> StreamingQuery:
    """Start the query over the topics in the settings."""
    topics = settings.topics
    connection = spark_settings(settings.bootstrap_servers, settings.kafka, pem_text)
    rows = (
        spark.readStream.format("kafka")
        .options(**connection)
        # The topics that the job reads; ticks come on the third one.
        .option("subscribe", ",".join(topics.read))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(settings.batch_events_max))
        .load()
    )
    return (
        finals_of(rows, settings, seed, real_topic)
        .writeStream.format("kafka")
        .options(**connection)
        .option("checkpointLocation", settings.checkpoint)
        .trigger(processingTime=f"{settings.trigger_interval_ms} milliseconds")
        .start()
    )


def _header(name: str, value: Column) -> Column:
    text = value.cast("string").cast("binary")
    return f.struct(f.lit(name).alias("key"), text.alias("value"))


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--output")  # as `checkback run` has it
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--real-topic", required=True)
    arguments = parser.parse_args()
    settings = load_settings(arguments.config, {}, {})
    stopping = Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    spark = start_session(settings, ensure_jars("spark"))
    try:
        query = start(spark, settings, arguments.seed, arguments.real_topic)
        while query.isActive and not stopping.wait(POLL_S):
            pass
        if failure := query.exception():
            raise failure
        query.stop()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
