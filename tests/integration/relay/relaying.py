"""Relays for tests: topics, a stand-in for the job's start, and relays that a test steps."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message
from confluent_kafka.admin import AdminClient
from tests.deciding import decided_op
from tests.integration.running import COMMAND, Pipeline

from checkback.protocol.configuration import Settings
from checkback.protocol.decided import (
    OpKind,
    PartitionNote,
    RelayMark,
    Taken,
    note_headers,
    note_value,
    partition_note,
)
from checkback.protocol.topics import TopicNames
from checkback.relay.reading import RecordRules
from checkback.relay.relay import Relay
from checkback.sinks.kafka.read.list_offsets import listed_offsets, places_of
from checkback.streaming.reports.offset_publisher import OffsetPublisher
from checkback.testing import Topics

STEPS_S = 120.0
RELAY = (sys.executable, "-c", "from checkback.commands import main; main()", "relay")


@dataclass
class RelayStage:
    """A deployment without its job: the test writes what the job's start would write."""

    topics: Topics
    settings: Settings
    relays: list[Relay] = field(default_factory=list)

    @property
    def names(self) -> TopicNames:
        return self.settings.topics

    @property
    def real(self) -> str:
        return f"{self.topics.prefix}paid"

    def note(self, partition: int, note: PartitionNote) -> int:
        """Write a note on the decided topic, as the job does; return its offset."""
        value, headers = note_value(note), note_headers(note)
        return self.topics.send_raw(self.names.decided, value, headers, partition)[1]

    def publish_position(self) -> None:
        """Say, as the job does, that everything so far is read and written."""
        admin, names = AdminClient(self.topics.connection), (self.names.decided, self.names.half)
        read = listed_offsets(admin, places_of(admin, names, STEPS_S))
        publisher = OffsetPublisher(self.settings.application_id, self.topics.connection)
        publisher.publish_last(read)

    def take_all(self) -> None:
        """Hand all ops to relays, from the begin."""
        for partition in range(self.settings.half_partitions):
            self.note(partition, Taken(0, 0))

    def half(self, name: str, partition: int = 0, key: bytes | None = None) -> tuple[int, int]:
        return self.topics.send_half(name.encode(), self.real, partition=partition, key=key)

    def commit(self, name: str, partition: int = 0, key: bytes | None = None) -> None:
        """Send a half and its commit."""
        self.topics.send_op(self.half(name, partition, key), name, 8)

    def relay(self, instance: int = 0) -> Relay:
        made = Relay(self.settings, instance, RecordRules(self.names, 1_000_000))
        self.relays.append(made)
        return made

    def ready_relay(self, instance: int = 0) -> Relay:
        """Return a relay that serves its partitions."""
        made = self.relay(instance)
        self.step_until(lambda: made.is_ready)
        return made

    def step_until(self, holds: Callable[[], object], *relays: Relay) -> None:
        """Let relays take steps in turn until something holds."""
        until_s = time.monotonic() + STEPS_S
        while not holds():
            assert time.monotonic() < until_s, "it did not come about"
            for relay in relays or self.relays:
                relay.step()

    def settle(self, *relays: Relay) -> None:
        """Let relays take steps until every op has its record on the decided topic."""
        wanted = len(self.topics.read(self.names.op))
        self.step_until(lambda: len(self.kinds()) >= wanted, *relays)

    def kinds(self, partition: int | None = None) -> list[OpKind]:
        """Return what became of the ops of a partition, or of all."""
        found = [decided_op(one.headers() or []) for one in self._decided(partition)]
        return [one.kind for one in found if one is not None]

    def marks(self, partition: int) -> list[RelayMark]:
        notes = (
            partition_note(one.headers() or [], one.value()) for one in self._decided(partition)
        )
        return [one for one in notes if isinstance(one, RelayMark)]

    def finals(self) -> list[str]:
        return self.topics.bodies(self.real)

    def _decided(self, partition: int | None) -> list[Message]:
        found = self.topics.read(self.names.decided)
        return [one for one in found if partition in (None, one.partition())]


@contextmanager
def relay_stage(topics: Topics, **given: Any) -> Iterator[RelayStage]:
    own: dict[str, Any] = {"relay": True, "order": "none", "application_id": topics.prefix}
    stage = RelayStage(topics, topics.settings(**{**own, **given}))
    topics.create(stage.settings, [stage.real])
    try:
        yield stage
    finally:
        for relay in stage.relays:
            with suppress(KafkaException, RuntimeError):
                relay.close()


def started_relay(stage: RelayStage, instance: int) -> subprocess.Popen[bytes]:
    """Start `checkback relay` (checkback.commands.relay), and wait until it serves partitions."""
    settings = stage.settings
    command = [COMMAND, "relay", "--instance", str(instance), "--output", "json"]
    given = {
        "bootstrap_servers": settings.bootstrap_servers, "topic_prefix": settings.topic_prefix,
        "application_id": settings.application_id, "half_partitions": settings.half_partitions,
        "relay": "true", "order": settings.order,
    }  # fmt: skip
    for key, value in given.items():
        command += ["--set", f"{key}={value}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "started":
            return process
    raise AssertionError(f"relay {instance} ended with {process.wait()}")


def relay_process(
    settings: Settings,
    folder: Path,
    instance: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Pipeline:
    """Return a `checkback relay`, not started, with the settings of its job."""
    program = (*RELAY, "--instance", str(instance))
    return Pipeline(replace(settings, metrics_port=0), folder, environment, program)
