"""Runs the real query on a memory stream with a clock that the test sets: no broker, no waiting."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from checkback.protocol.configuration import Settings
from checkback.protocol.records import Op, half_headers
from checkback.protocol.topics import TopicNames
from checkback.state import ALL_READ, Outcome, Rules
from checkback.streaming.batch.terms import TaskTerms
from checkback.streaming.job.query import outcomes_of
from checkback.streaming.pages.page_function import PageSettings
from checkback.streaming.spark.java_protocol import TERMS_PROPERTY

ROW_SCHEMA = (
    "key string, value string, topic string, partition int, offset long, time_ms long, "
    "headers array<struct<key: string, value: string>>"
)
NAMES = TopicNames()
RULES = Rules.from_settings(
    Settings(transaction_timeout_ms=6_000, check_interval_ms=60_000, check_max=2)
)


@dataclass(frozen=True)
class KafkaRow:
    """A record as the Kafka source gives it."""

    topic: str
    partition: int
    offset: int
    time_ms: int
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] | None
    key: bytes | None = None

    def to_json(self) -> str:
        headers = self.headers
        return json.dumps(
            {
                "key": _text(self.key),
                "value": _text(self.value),
                "topic": self.topic,
                "partition": self.partition,
                "offset": self.offset,
                "time_ms": self.time_ms,
                "headers": None
                if headers is None
                else [{"key": name, "value": _text(value)} for name, value in headers],
            }
        )


def half_row(
    offset: int,
    *,
    time_ms: int,
    partition: int = 0,
    group: str = "g",
    transaction_id: str | None = None,
    immunity: str | None = None,
    real_topic: str = "orders",
) -> KafkaRow:
    headers = half_headers(
        producer_group=group,
        transaction_id=transaction_id or f"id-{partition}-{offset}",
        real_topic=real_topic,
        properties={} if immunity is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": immunity},
    )
    return KafkaRow(NAMES.half, partition, offset, time_ms, b"body", headers)


def op_row(
    source_offset: int,
    half_offset: int,
    state: int,
    *,
    time_ms: int,
    partition: int = 0,
    group: str = "g",
    transaction_id: str | None = None,
) -> KafkaRow:
    op = Op(partition, half_offset, group, transaction_id or f"id-{partition}-{half_offset}", state)
    return KafkaRow(NAMES.op, partition, source_offset, time_ms, op.value(), op.headers(), op.key())


def kafka_rows(lines: DataFrame) -> DataFrame:
    """Turn JSON lines into rows of the Kafka source's schema."""
    row = f.from_json("value", ROW_SCHEMA).alias("row")
    headers = "transform(headers, h -> struct(h.key as key, unbase64(h.value) as value))"
    return (
        lines.select(row)
        .select("row.*")
        .select(
            f.unbase64("key").alias("key"),
            f.unbase64("value").alias("value"),
            "topic",
            "partition",
            "offset",
            f.timestamp_millis("time_ms").alias("timestamp"),
            f.expr(headers).alias("headers"),
        )
    )


@dataclass
class MicroBatches:
    """A query over a checkpoint, fed row by row and moved on by the test's clock.

    The clock is Spark's own ManualClock; what a batch decided is read from its memory sink.
    """

    spark: SparkSession
    pages: PageSettings
    checkpoint: Path
    clock_ms: int = 1_000_000
    rules: Rules = RULES
    clock_ahead_ms: int = 0

    def __post_init__(self) -> None:
        jvm: Any = self.spark._jvm
        session = self.spark._jsparkSession
        streaming = jvm.org.apache.spark.sql.execution.streaming
        self._stream = streaming.runtime.MemoryStream.apply(
            jvm.org.apache.spark.sql.Encoders.STRING(), session
        )
        self.clock = jvm.org.apache.spark.util.ManualClock(self.clock_ms)
        self.query: Any = None
        self._sink: Any = None

    def start(self) -> None:
        """Start, or start again over the same checkpoint and input."""
        jvm: Any = self.spark._jvm
        lines = DataFrame(self._stream.toDF(), self.spark)
        outcomes = outcomes_of(kafka_rows(lines), NAMES, self.pages, 2)
        streaming = jvm.org.apache.spark.sql.execution.streaming
        self._sink = streaming.sources.MemorySink()
        session: Any = self.spark._jsparkSession
        # The query's thread has the properties of the one that starts it.
        terms = TaskTerms(self.rules, ALL_READ, clock_ahead_ms=self.clock_ahead_ms)
        self.spark.sparkContext.setLocalProperty(TERMS_PROPERTY, terms.to_property({}))
        self.query = session.streams().startQuery(
            jvm.scala.Option.apply(None),
            jvm.scala.Option.apply(None),
            jvm.scala.Option.apply(str(self.checkpoint)),
            outcomes._jdf,
            jvm.PythonUtils.toScalaMap({}),
            self._sink,
            jvm.org.apache.spark.sql.streaming.OutputMode.Append(),
            False,
            True,
            jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime("1 second"),
            self.clock,
            jvm.scala.Option.apply(None),
            jvm.scala.Option.apply(None),
        )
        self._settle()

    def stop(self) -> None:
        """Stop the query; the checkpoint stays."""
        self.query.stop()

    def add(self, rows: Iterable[KafkaRow]) -> None:
        """Give the next batch its input."""
        jvm: Any = self.spark._jvm
        self._stream.addData(jvm.PythonUtils.toSeq([row.to_json() for row in rows]))

    def restart(self, advance_ms: int) -> None:
        """Start again over the same checkpoint and input, so much later, or earlier if negative."""
        self.clock.setTime(self.clock.getTimeMillis() + advance_ms)
        self.start()

    def advance(self, milliseconds: int) -> list[Outcome]:
        """Move the clock, wait for the batch that this triggers, return what pages decided."""
        seen = len(self.outcomes())
        self.clock.advance(milliseconds)
        self._settle()
        return self.outcomes()[seen:]

    def outcomes(self) -> list[Outcome]:
        """Return what pages have decided since the start, all batches together."""
        return [Outcome.unpack(bytes(row.get(2))) for row in _java_rows(self._sink.allData())]

    def _settle(self) -> None:
        """Wait until the trigger at the clock's time has ended."""
        now_ms = self.clock.getTimeMillis()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.query.exception().isDefined():
                raise AssertionError(str(self.query.exception().get()))
            waiting = self.query.status().message() == "Waiting for next trigger"
            if waiting and self._last_trigger_ms() >= now_ms:
                return
            time.sleep(0.02)
        raise AssertionError(f"no end of the batch: {self.query.status()}")

    def _last_trigger_ms(self) -> int:
        last = self.query.lastProgress()
        if last is None:
            return 0
        return round(datetime.fromisoformat(last.timestamp()).timestamp() * 1000)


def _java_rows(rows: Any) -> list[Any]:
    return [rows.apply(at) for at in range(rows.size())]


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
