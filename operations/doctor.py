"""Looking at everything that the pipeline needs, one check after the other.

Two checks write: a tick to the op topic, which the pipeline skips, because only a record tells the
brokers' time; and the start of a transactional producer of its own name, because nothing else
tells whether transactional ids are allowed.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any, Final

from confluent_kafka import KafkaException, Producer, TopicCollection, libversion
from confluent_kafka.admin import AdminClient

from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.pending import read_pending_groups
from checkback.deploy.admin import admin_client
from checkback.deploy.java import find_java, java_version
from checkback.deploy.topics import FoundTopic, comparable_plans, find_topics
from checkback.operations.checkpoint_reading import open_checkpoint
from checkback.operations.diagnosis import (
    Finding,
    GroupFacts,
    Result,
    judge_clock,
    judge_compiled_sink,
    judge_group,
    judge_retention,
    judge_rights,
    judge_topics,
)
from checkback.operations.pending import groups_pending
from checkback.operations.writing import append_timed
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.errors import CheckbackError
from checkback.protocol.records import tick_headers
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka_error import cause_of
from checkback.sinks.lookup import RecordReader
from checkback.sinks.native import native
from checkback.streaming.job import sink_settings
from checkback.streaming.members import live_members
from checkback.streaming.preflight import pending_window_ms, require_markers
from checkback.streaming.session import state_partitions
from checkback.streaming.state_size import fit_to_checkpoint

TIMEOUT_S: Final = 20.0
LOG_APPEND_TIME: Final = 2
PACKAGES: Final = ("pyspark", "deltalake", "confluent-kafka", "kafka-python", "pyarrow", "pandas")

Clock = Callable[[], int]
Findings = Iterator[Finding]


class Doctor:
    """Runs the checks.

    Args:
        settings: everything.
        now_ms: this machine's clock.

    Raises:
        ConfigurationError: no brokers are named, or a security setting can't be honoured.
    """

    def __init__(self, settings: Settings, now_ms: Clock) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._connection: dict[str, Any] = {
            **confluent_settings(settings.bootstrap_servers, settings.kafka),
            "log_level": 2,
        }
        # Untyped: its stubs know little of what describing topics and groups takes and gives.
        self._admin: Any = AdminClient(self._connection)
        self._found: dict[str, FoundTopic] = {}

    def findings(self) -> Findings:
        """Yield what each check finds; a check that can't be done is a finding, too."""
        yield from _software()
        brokers = list(_guarded("brokers", self._brokers))
        yield from brokers
        if any(one.result is Result.FAILED for one in brokers):
            return  # every other check would say the same
        yield from _guarded("topics", self._topics)
        yield from _guarded("clock", self._clock)
        yield from _guarded("rights", self._rights)
        yield from _guarded("transactional ids", self._transactional_ids)
        yield from _guarded("checkpoint", self._checkpoint)

    def _brokers(self) -> Findings:
        with admin_client(self._settings.bootstrap_servers, self._settings.kafka) as admin:
            cluster = admin.describe_cluster()
            first = cluster["brokers"][0]["broker_id"]
            version = ".".join(map(str, admin.get_broker_version_data(first).broker_version))
        says = f"{len(cluster['brokers'])} reachable, cluster {cluster['cluster_id']}"
        yield Finding("brokers", Result.OK, f"{says}, Kafka {version} or later")

    def _topics(self) -> Findings:
        plans = comparable_plans(self._settings)
        with admin_client(self._settings.bootstrap_servers, self._settings.kafka) as admin:
            self._found = find_topics(admin, [plan.name for plan in plans])
        yield from judge_topics(plans, self._found, self._settings.topics)
        half = self._found.get(self._settings.topics.half)
        if half is not None:
            yield judge_retention(self._settings, half, pending_window_ms(self._settings))

    def _clock(self) -> Findings:
        op_topic = self._settings.topics.op
        if op_topic not in self._found:
            return
        before_ms = self._now_ms()
        kind, appended_ms = append_timed(self._connection, op_topic, b"", tick_headers())
        if kind == LOG_APPEND_TIME:
            yield judge_clock(before_ms, appended_ms, self._now_ms())
        else:
            remedy = f"Set message.timestamp.type of {op_topic} to LogAppendTime."
            yield Finding("clock", Result.WARNING, "the broker's time can't be told", remedy)

    def _rights(self) -> Findings:
        for topic, needed in topic_rights(self._settings.topics).items():
            if topic in self._found:
                asked = self._admin.describe_topics(
                    TopicCollection([topic]),
                    include_authorized_operations=True,
                    request_timeout=TIMEOUT_S,
                )
                allowed = asked[topic].result(TIMEOUT_S).authorized_operations or []
                yield judge_rights(topic, needed, [one.name for one in allowed])

    def _transactional_ids(self) -> Findings:
        name = f"{self._settings.application_id}-doctor"
        Producer({**self._connection, "transactional.id": name}).init_transactions(TIMEOUT_S)
        yield Finding("transactional ids", Result.OK, f"{self._settings.application_id}-* allowed")

    def _checkpoint(self) -> Findings:
        if not self._settings.checkpoint:
            says = "not set, so neither markers nor groups with pending halves were looked at"
            yield Finding("checkpoint", Result.WARNING, says, "Give --checkpoint.")
            return
        with open_checkpoint(self._settings) as folder:
            yield from _guarded("markers", lambda: self._markers(folder))
            yield from _guarded("position", self._position)
            yield from _guarded("groups", lambda: self._groups(folder))

    def _markers(self, folder: CheckpointFolder) -> Findings:
        sink = sink_settings(self._settings, self._connection, folder.query_id() or "")
        fitted = fit_to_checkpoint(self._settings, folder)
        require_markers(sink, state_partitions(fitted), folder)
        last = folder.last_batch("commits")
        yield Finding("checkpoint", Result.OK, f"last batch {last}, markers there")
        yield self._group_rights(sink.marker_group)

    def _position(self) -> Findings:
        """Look whether lag tools see the pipeline; it needs no such right for anything else."""
        group = self._settings.application_id
        try:
            found = self._group_rights(group)
        except KafkaException as error:
            said = f"the pipeline's position is not published: {cause_of(error).str()}"
            remedy = f"Grant READ on the group {group}, if lag tools are to see the pipeline."
            yield Finding(f"rights on group {group}", Result.WARNING, said, remedy)
        else:
            is_ok = found.result is Result.OK
            yield found if is_ok else replace(found, result=Result.WARNING)

    def _group_rights(self, group: str) -> Finding:
        asked = self._admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=TIMEOUT_S
        )
        allowed = asked[group].result(TIMEOUT_S).authorized_operations or []
        return judge_rights(f"group {group}", ["READ"], [one.name for one in allowed])

    def _groups(self, folder: CheckpointFolder) -> Findings:
        reader = RecordReader(self._connection, self._settings.topics.half)
        try:
            found = groups_pending(reader, read_pending_groups(folder))
        finally:
            reader.close()
        if not found:
            yield Finding("groups", Result.OK, "nothing is pending")
        known = self._admin.list_topics(timeout=TIMEOUT_S).topics
        now_ms = self._now_ms()
        for name, group in found:
            has_topic = self._settings.topics.check(name) in known
            members = live_members(self._admin, name) if has_topic else 0
            age_ms = now_ms - group.oldest_ms
            yield judge_group(GroupFacts(name, group.pending, age_ms, has_topic, members))


def topic_rights(names: TopicNames) -> dict[str, Sequence[str]]:
    """Return by topic what the pipeline has to be allowed, by Kafka's names of operations."""
    return {
        names.half: ("DESCRIBE", "READ"),
        names.op: ("DESCRIBE", "READ", "WRITE"),
        names.discarded: ("DESCRIBE", "WRITE"),
        names.refused: ("DESCRIBE", "WRITE"),
        # The marker is a committed offset on it, for which Kafka wants READ.
        names.settled: ("DESCRIBE", "READ", "WRITE"),
    }


def _software() -> Findings:
    yield Finding("python", Result.OK, platform.python_version())
    yield from _guarded("java", _java)
    for package in PACKAGES:
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            remedy = "Install checkback[spark]."
            yield Finding(package, Result.FAILED, "not installed", remedy)
        else:
            library = f", librdkafka {libversion()[0]}" if package == "confluent-kafka" else ""
            yield Finding(package, Result.OK, version + library)
    yield judge_compiled_sink(is_usable=native() is not None)


def _java() -> Findings:
    yield Finding("java", Result.OK, str(java_version(find_java())))


def _guarded(check: str, look: Callable[[], Findings]) -> Findings:
    """Yield what a look finds; what stops it is a finding."""
    try:
        yield from look()
    except CheckbackError as error:
        yield Finding(check, Result.FAILED, error.message, error.remedy)
    except KafkaException as error:
        remedy = "Check the rights of this user, and the brokers' logs."
        yield Finding(check, Result.FAILED, cause_of(error).str(), remedy)
