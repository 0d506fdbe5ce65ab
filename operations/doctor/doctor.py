"""Checks everything that the pipeline needs.

Two checks write. One appends a tick to the feedback topic, because only a record shows the brokers'
time; the pipeline skips it. The other starts a transactional producer with a name of its own,
because nothing else shows whether this user may use transactional ids.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from importlib import metadata
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer, libversion

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.own_files.running import is_pipeline_running
from checkback.checkpoints.pending.pending_halves import PendingGroup, PendingTable
from checkback.checkpoints.spark_files.state_rows import read_state
from checkback.deploy.java import find_java, java_version
from checkback.metrics.health import batch_age_s_max
from checkback.operations.checkpoint.open import open_files
from checkback.operations.doctor.broker_checks import TIMEOUT_S, BrokerChecks, Findings, guarded
from checkback.operations.doctor.judgements import (
    Diagnosis,
    GroupFacts,
    Result,
    judge_check_times,
    judge_clock,
    judge_compiled_sink,
    judge_group,
    judge_rights,
    judge_running,
    judge_unread,
)
from checkback.operations.topics.lag import oldest_unread_ms, read_positions, topic_ends
from checkback.operations.topics.position import Position
from checkback.operations.transactions.pending import groups_pending, records_at
from checkback.protocol.configuration import Settings
from checkback.protocol.refusals import RecordOrigin
from checkback.sinks.kafka.cluster.topic_directory import TopicDirectory
from checkback.sinks.kafka.cluster.transient_errors import is_transient, retry_transient, said_by
from checkback.sinks.kafka.read.record_reader import RecordReader
from checkback.sinks.kafka.read.rule_source import present_rules
from checkback.sinks.kafka.transaction.init import initialise
from checkback.sinks.native.library import native
from checkback.sinks.records.router import Refusal, Router
from checkback.streaming.reports.group_members import live_members
from checkback.streaming.reports.stalls import InputWatch
from checkback.streaming.spark.cores import state_partitions
from checkback.streaming.start.announce import write_tick
from checkback.streaming.start.checkpoint_layout import (
    filled_from_checkpoint,
    require_same_settings,
)
from checkback.streaming.start.preflight import require_markers, require_usable_clients
from checkback.streaming.start.sink_choices import sink_settings

MOST_AT_ONCE: Final = 10
BRIEF_LOOK_S: Final = 0.1
STALL_LOOK_S: Final = 2.0
"""Pauses between looks at where reading stands: most transactions end within them."""
PACKAGES: Final = ("pyspark", "deltalake", "confluent-kafka", "kafka-python", "pyarrow", "pandas")

Clock = Callable[[], int]


class Doctor:
    """Runs the checks.

    Raises:
        ConfigurationError: no brokers are named, or a security setting is not supported.
        KafkaException: librdkafka rejects a setting.
    """

    def __init__(self, settings: Settings, now_ms: Clock) -> None:
        self._settings = settings
        self._now_ms = now_ms
        require_usable_clients(settings, settings.connection())
        self._broker_checks = BrokerChecks(settings)
        self._connection, self._admin = self._broker_checks.connection, self._broker_checks.admin

    def findings(self) -> Findings:
        """Yield the findings of each check; a check that fails to run is a finding, too.

        Checks mostly wait for brokers, so they run beside each other.
        """
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            local = pool.submit(list, software())
            found = [judge_check_times(self._settings)]
            found += guarded("access control", self._access_control)
            found += guarded("brokers", self._broker_checks.brokers)
            yield from [*local.result(), *found]
            if found[-1].result is Result.FAILED:
                return  # every other check would say the same
            checks = self._broker_checks.by_name()
            yield from guarded("topics", checks.pop("topics"))
            checks |= {
                "clock": self._clock,
                "open transactions": self._stalls,
                "transactional ids": self._transactional_ids,
                "checkpoint": self._checkpoint,
            }
            for one in pool.map(lambda check: list(guarded(*check)), checks.items()):
                yield from one

    def _stalls(self) -> Findings:
        watch = InputWatch(self._settings, self._admin, pause_s=0)
        stalls = watch.look(0)
        if watch.history.is_anything_open:
            time.sleep(BRIEF_LOOK_S)
            if watch.look(0):
                time.sleep(STALL_LOOK_S)
                stalls = watch.look(STALL_LOOK_S)
        for one in stalls:
            remedy = one.remedy(self._settings.bootstrap_servers)
            yield Diagnosis("open transactions", Result.WARNING, one.says(), remedy)
        if not stalls:
            yield Diagnosis("open transactions", Result.OK, "none holds up reading")

    def _access_control(self) -> Findings:
        rules = present_rules(self._settings)
        if rules is None:
            says = "off: every producer that may write to the half and op topics is believed"
            yield Diagnosis("access control", Result.OK, says)
            return
        says = f"on: {len(rules.accounts)} accounts in {self._settings.acl_file}"
        yield Diagnosis("access control", Result.OK, says)

    def _clock(self) -> Findings:
        topic = self._settings.topics.feedback
        if topic not in self._broker_checks.found:
            return
        before_ms, appended_ms = self._now_ms(), write_tick(self._settings)
        if appended_ms is not None:
            yield judge_clock(before_ms, appended_ms, self._now_ms())
        else:
            remedy = f"Set message.timestamp.type of {topic} to LogAppendTime."
            yield Diagnosis("clock", Result.WARNING, "the brokers' time is not known", remedy)

    def _transactional_ids(self) -> Findings:
        name, half_topic = self._settings.application_id, self._settings.topics.half
        own = {"allow.auto.create.topics": False, "transactional.id": f"{name}-doctor"}
        producer = Producer({**self._connection, **own})
        retry_transient(lambda: initialise(producer, half_topic, TIMEOUT_S), TIMEOUT_S)
        yield Diagnosis("transactional ids", Result.OK, f"{name}-* allowed")

    def _checkpoint(self) -> Findings:
        if not self._settings.checkpoint:
            says = "not set, so markers and groups with pending halves were not checked"
            yield Diagnosis("checkpoint", Result.WARNING, says, "Give --checkpoint.")
            return
        with open_files(self._settings) as store:
            if store.query_id() is None:
                says, remedy = "not started yet", "Run `checkback run`; it makes the checkpoint."
                yield Diagnosis("checkpoint", Result.WARNING, says, remedy)
                return
            # Where the lock of the checkpoint can be seen.
            running = judge_running(is_pipeline_running(self._settings))
            yield from [running] if running is not None else []
            # The pipeline would not start over it by settings that differ.
            differing = list(
                guarded("checkpoint", lambda: require_same_settings(self._settings, store))
            )
            # Under another application id, or of other state partitions, no marker is found.
            yield from differing or guarded("markers", lambda: self._markers(store))
            yield from guarded("position", self._position)
            yield from guarded("unread records", lambda: self._unread(store))
            yield from guarded("groups", lambda: self._groups(store))

    def _markers(self, store: ReadableCheckpoint) -> Findings:
        sink = sink_settings(self._settings, self._connection, store.query_id() or "")
        require_markers(
            sink, state_partitions(filled_from_checkpoint(self._settings, store)), store
        )
        last = store.last_batch("commits")
        yield Diagnosis("checkpoint", Result.OK, f"last batch {last}, markers there")
        yield self._group_rights(sink.marker_group)

    def _position(self) -> Findings:
        """Check whether lag tools and relays can see how far the pipeline has come."""
        group = self._settings.application_id
        try:
            found = self._group_rights(group)
        except (KafkaException, TimeoutError) as error:
            said = f"the pipeline's position can't be looked at: {said_by(error)}"
            remedy = "Check the brokers."
            if is_transient(error, {KafkaError.GROUP_AUTHORIZATION_FAILED}):
                said = f"the pipeline's position is not published: {said_by(error)}"
                remedy = (
                    f"Grant READ on the group {group}: lag tools see the pipeline by it, and with "
                    'order = "key" relays deliver the keys of passed commits again.'
                )
            yield Diagnosis(f"rights on group {group}", Result.WARNING, said, remedy)
        else:
            is_ok = found.result is Result.OK
            yield found if is_ok else replace(found, result=Result.WARNING)

    def _unread(self, store: ReadableCheckpoint) -> Findings:
        """Compare what the last committed batch has read with what the brokers have."""
        last = store.last_batch("commits")
        if last is None:
            return
        plan, settings = store.planned(last), self._settings
        ends = topic_ends(settings, settings.topics.read_with_relay)
        positions = read_positions(plan.ends, {}, ends)
        unread = Counter[str]()
        for at in positions:
            unread[at.topic] += at.lag or 0
        stored_ms, now_ms = oldest_unread_ms(settings, positions), self._now_ms()
        yield judge_unread(
            unread,
            None if stored_ms is None else max(0, now_ms - stored_ms),
            max(0, now_ms - plan.timestamp_ms),
            round(batch_age_s_max(settings.trigger_interval_ms) * 1_000),
        )

    def _group_rights(self, group: str) -> Diagnosis:
        def ask() -> Any:
            asked = self._admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=TIMEOUT_S
            )
            return asked[group].result(TIMEOUT_S).authorized_operations

        allowed = retry_transient(ask, TIMEOUT_S) or []
        return judge_rights(f"group {group}", ["READ"], [one.name for one in allowed])

    def _groups(self, store: ReadableCheckpoint) -> Findings:
        held = read_state(store)
        table = PendingTable.of(() if held is None else held.pages)
        with closing(RecordReader(self._connection, self._settings.topics.half)) as reader:
            found = groups_pending(reader, table.groups.values())
            undelivered = self._undelivered(reader, [group for _, group in found])
        if not found:
            yield Diagnosis("groups", Result.OK, "nothing is pending")
        known = self._admin.list_topics(timeout=TIMEOUT_S).topics
        members = self._members([name for name, _ in found], known)
        now_ms = self._now_ms()
        for name, group in found:
            age_ms = now_ms - group.oldest_ms
            has_topic = self._settings.topics.check(name) in known
            facts = GroupFacts(
                name, group.pending, age_ms, has_topic, members[name], group.asked_again,
                undelivered.get((group.partition, group.offset), ""),
            )  # fmt: skip
            yield judge_group(facts)

    def _undelivered(
        self, reader: RecordReader, groups: Sequence[PendingGroup]
    ) -> dict[tuple[int, int], str]:
        """Return why the sink can't write check requests, by the place of a group's oldest half.

        Requests that can't be delivered do not count, so such a half becomes the oldest one.
        """
        topics = self._settings.topics
        router = Router(topics, TopicDirectory(self._admin).find, measures_all=True)
        places = [Position(one.partition, one.offset) for one in groups]
        found = {}
        for at, half in records_at(reader, places).items():
            if half is None:
                continue
            asked = router.check_request(half, RecordOrigin(topics.half, *at), 1)
            if isinstance(asked, Refusal):
                found[at.partition, at.offset] = f"{asked.reason.name}: {asked.detail}"
        return found

    def _members(self, groups: Sequence[str], topics: Container[str]) -> dict[str, int | None]:
        """Return the live members of groups, None from the first one that can't be looked at."""
        found: dict[str, int | None] = dict.fromkeys(groups)
        with suppress(KafkaException):  # a broker that is down is a finding of its own
            for name in groups:
                check_topic = self._settings.topics.check(name)
                found[name] = live_members(self._admin, check_topic) if check_topic in topics else 0
        return found


def software() -> Findings:
    """Yield the versions of Python, Java and the libraries, and what is missing."""
    yield Diagnosis("python", Result.OK, platform.python_version())
    yield from guarded("java", _java)
    for package in PACKAGES:
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            remedy = "Install it: pip install 'checkback[spark]'."
            yield Diagnosis(package, Result.FAILED, "not installed", remedy)
        else:
            library = f", librdkafka {libversion()[0]}" if package == "confluent-kafka" else ""
            yield Diagnosis(package, Result.OK, version + library)
    yield judge_compiled_sink(is_usable=native() is not None)


def _java() -> Findings:
    yield Diagnosis("java", Result.OK, str(java_version(find_java())))
