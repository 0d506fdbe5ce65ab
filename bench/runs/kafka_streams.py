"""A comparison for the job: Kafka Streams resolves the same transactions, exactly once.

``TransactionStreams.java`` runs from its source, so it needs a JDK, not just a JRE.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.runs.batches import MeasuredBatch
from bench.runs.query import MonitoredProcess
from checkback.deploy.broker_files import render
from checkback.deploy.jars import ensure_jars
from checkback.deploy.java import find_java
from checkback.protocol.connection import java_settings
from checkback.streaming.source.kafka_source import pem_text
from checkback.streaming.spark.jvm_options import java_options

PROGRAM: Final = Path(__file__).with_name("TransactionStreams.java")
HEAP: Final = "2g"
"""The heap of the job's own JVM, which also has the same options."""
SETTINGS: Final[Mapping[str, object]] = {
    "processing.guarantee": "exactly_once_v2",
    "replication.factor": -1,
    "consumer.auto.offset.reset": "earliest",
    # The fastest settings found. By default Streams commits every 100 ms, however much waits, and
    # resolves only two thirds as many. The job's Kafka transactions last as long as its batches,
    # seconds.
    "commit.interval.ms": 5_000,
    "producer.transaction.timeout.ms": 60_000,
    "consumer.max.poll.records": 20_000,
    "buffered.records.per.partition": 40_000,
    "producer.batch.size": 262_144,
    "statestore.cache.max.bytes": 67_108_864,
}


@dataclass(slots=True)
class StreamsRun(MonitoredProcess):
    """One process of Kafka Streams; a context manager that ends it."""

    real_topic: str

    def command(self) -> Sequence[str]:
        """Write the settings; return the command that starts the process."""
        file = self.folder / "streams.properties"
        file.touch(mode=0o600)  # it may contain a password
        file.write_text(render(self._properties()), "utf-8")
        topics = self.trial.settings.topics
        # A small run ends within a second, and one interval is not enough to measure.
        every_ms = 50 if self.trial.stage.small else 1_000
        jars = [*ensure_jars("kafka"), *ensure_jars("streams")]
        return [
            str(find_java()), f"-Xmx{HEAP}", *java_options(HEAP).split(),
            "-cp", os.pathsep.join(map(str, jars)), str(PROGRAM),
            str(file), topics.half, topics.op, self.real_topic, str(every_ms),
        ]  # fmt: skip

    def batches(self) -> list[MeasuredBatch]:
        """Return the intervals so far as batches: seconds, or less in a small run."""
        return [
            MeasuredBatch(number, fields["started_ms"], fields["took_ms"], fields["rows"])
            for number, fields in enumerate(self._intervals())
        ]

    @property
    def finals(self) -> int:
        """Return the number of final messages that it sent."""
        return int(self._intervals()[-1]["finals"])

    def _intervals(self) -> list[Mapping[str, Any]]:
        self._drain()
        return [notice.fields for _, notice in self.notices if notice.event == "interval"]

    def _properties(self) -> dict[str, str]:
        settings = self.trial.settings
        chosen = {
            **SETTINGS,
            "application.id": f"{settings.topic_prefix}{self.name}",
            "num.stream.threads": os.cpu_count() or 1,
            "state.dir": self.folder / "state",
        }
        return {
            **java_settings(settings.bootstrap_servers, settings.kafka, pem_text),
            **{key: str(value) for key, value in chosen.items()},
        }
