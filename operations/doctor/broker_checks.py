"""The doctor's checks of brokers, topics and rights. They write nothing and need no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from checkback.deploy.admin import admin_client
from checkback.deploy.topics import FoundTopic, comparable_plans, find_topics
from checkback.operations.doctor.judgements import (
    Diagnosis,
    Result,
    judge_refused,
    judge_relays,
    judge_replicas,
    judge_retention,
    judge_rights,
    judge_share_groups,
    judge_topics,
)
from checkback.operations.topics.scanner import FoundRecord, TopicScanner
from checkback.operations.transactions.timestamps import now_ms
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, CheckbackError
from checkback.protocol.properties import RESEND
from checkback.protocol.refusals import refusal_facts
from checkback.protocol.topics import DAY_MS, relay_group
from checkback.security.grants import DESCRIBE_CONFIGS, Resource, pipeline_grants
from checkback.sinks.kafka.cluster.share_groups import isolation_of_share_groups
from checkback.sinks.kafka.cluster.topic_directory import TopicDirectory
from checkback.sinks.kafka.cluster.transient_errors import is_transient, said_by
from checkback.streaming.reports.group_members import live_members

TIMEOUT_S: Final = 20.0
REFUSED_MAX: Final = 10_000
"""Refused records that are counted; more take longer to read than somebody waits."""

Findings = Iterator[Diagnosis]


class BrokerChecks:
    """Checks brokers, topics and rights.

    Raises:
        ConfigurationError: no brokers are named, or a security setting is not supported.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.connection: dict[str, Any] = {**settings.connection()}
        # Untyped: the stubs know little about describing topics and groups.
        self.admin: Any = AdminClient(self.connection)
        self.found: dict[str, FoundTopic] = {}

    def findings(self) -> Findings:
        """Yield the findings of each check; without an answer of the brokers only that."""
        yield from (brokers := list(guarded("brokers", self.brokers)))
        if all(one.result is not Result.FAILED for one in brokers):
            for name, check in self.by_name().items():
                yield from guarded(name, check)

    def by_name(self) -> dict[str, Callable[[], Findings]]:
        """Return the checks that need an answering broker; later ones use what `topics` found."""
        return {
            "topics": self._topics,
            "replicas": self._replicas,
            "rights": self._rights,
            "relay": self._relay,
            "share groups": self.share_groups,
            "refused records": self._refused,
        }

    def share_groups(self) -> Findings:
        """Yield which share groups read aborted messages; the pipeline itself needs none."""
        servers = self.settings.bootstrap_servers
        try:
            with admin_client(servers, self.settings.kafka) as admin:
                levels = isolation_of_share_groups(admin)
        except BrokerError as error:
            yield Diagnosis("share groups", Result.WARNING, error.message, error.remedy)
        else:
            yield from judge_share_groups(levels, servers)

    def _refused(self) -> Findings:
        """Count what was refused lately; a user who may not read the topic needs nothing else."""
        topic = self.settings.topics.refused
        since_ms = max(0, now_ms() - DAY_MS)
        try:
            with TopicScanner(self.connection) as scanner:
                reasons = refused_reasons(scanner.scan(topic, from_ms=since_ms), REFUSED_MAX)
        except CheckbackError as error:
            remedy = f"Grant READ on {topic} to this user."
            yield Diagnosis("refused records", Result.WARNING, error.message, remedy)
        else:
            yield judge_refused(reasons, topic, REFUSED_MAX)

    def brokers(self) -> Findings:
        """Yield whether the brokers answer."""
        with admin_client(self.settings.bootstrap_servers, self.settings.kafka) as admin:
            cluster = admin.describe_cluster()
            first = cluster["brokers"][0]["broker_id"]
            version = ".".join(map(str, admin.get_broker_version_data(first).broker_version))
        says = f"{len(cluster['brokers'])} reachable, cluster {cluster['cluster_id']}"
        yield Diagnosis("brokers", Result.OK, f"{says}, Kafka {version} or later")

    def _topics(self) -> Findings:
        plans = comparable_plans(self.settings)
        with admin_client(self.settings.bootstrap_servers, self.settings.kafka) as admin:
            self.found = find_topics(admin, [plan.name for plan in plans])
        yield from judge_topics(plans, self.found, self.settings.topics)
        half = self.found.get(self.settings.topics.half)
        if half is not None:
            yield judge_retention(self.settings, half, self.settings.half_retention_ms)

    def _relay(self) -> Findings:
        """Yield whether a relay is alive, where the job needs one."""
        if self.settings.relay:
            group = relay_group(self.settings.application_id)
            yield judge_relays(live_members(self.admin, group, self.settings.topics.op))

    def _replicas(self) -> Findings:
        known = TopicDirectory(AdminClient(self.connection)).find_all()
        short = {topic: one.shortage for topic, one in known.items() if one.shortage}
        yield judge_replicas(short, {plan.name for plan in comparable_plans(self.settings)})

    def _rights(self) -> Findings:
        needed = [
            grant
            for grant in pipeline_grants(self.settings, ())
            if grant.resource is Resource.TOPIC
            and grant.name in self.found
            and DESCRIBE_CONFIGS not in grant.operations
        ]
        if not needed:
            return
        topics = TopicCollection([grant.name for grant in needed])
        asked = self.admin.describe_topics(
            topics, include_authorized_operations=True, request_timeout=TIMEOUT_S
        )
        for grant in needed:
            operations = {"DESCRIBE", *map(str.upper, grant.operations)}
            finding = judge_rights(grant.name, operations, _allowed(asked[grant.name]))
            is_needed = not grant.is_optional or finding.result is Result.OK
            yield finding if is_needed else replace(finding, result=Result.WARNING)


def _allowed(answer: Any) -> list[str]:
    """Return the operations that a user has on a topic; none where it may not even see it."""
    try:
        return [one.name for one in answer.result(TIMEOUT_S).authorized_operations or []]
    except KafkaException as error:
        if not is_transient(error, {KafkaError.TOPIC_AUTHORIZATION_FAILED}):
            raise
        return []


def refused_reasons(records: Iterable[FoundRecord], most: int) -> Counter[str]:
    """Count why records were refused, as the pipeline says; those sent again do not count."""
    left: dict[str, str] = {}
    for record in records:
        reason = refusal_facts(record.headers).facts.get("reason")
        if reason:
            left[str(record.at)] = reason
        else:
            left.pop(record.text(RESEND.source), None)
        if len(left) >= most:
            break
    return Counter(left.values())


def guarded(check: str, run: Callable[[], Findings | None]) -> Findings:
    """Yield the findings of a check; an error that stops the check becomes a finding."""
    try:
        yield from run() or ()
    except CheckbackError as error:
        yield Diagnosis(check, Result.FAILED, error.message, error.remedy)
    except (KafkaException, TimeoutError) as error:
        remedy = "Check the rights of this user, and the brokers' logs."
        yield Diagnosis(check, Result.FAILED, said_by(error), remedy)
