"""Checks what must be true before the query starts; each refusal says what to do.

Most of it protects the guarantee: a checkpoint over other topics, or one without its markers,
would make the job write twice or skip, without a sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import (
    Consumer,
    KafkaException,
    Producer,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.own_files.identity import FILE, FORMAT, CheckpointIdentity
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text
from checkback.protocol.errors import CheckpointError, ConfigurationError
from checkback.protocol.topics import DAY_MS, breaking_configs, plan_topics
from checkback.sinks.kafka.cluster.described_topics import DescribedTopic, describe_topics
from checkback.sinks.kafka.cluster.topic_directory import LASTING_ERRORS
from checkback.sinks.kafka.cluster.transient_errors import (
    broker_errors,
    retry_transient,
)
from checkback.sinks.kafka.read.list_offsets import EARLIEST, listed_offsets
from checkback.sinks.kafka.transaction.errors import cause_of
from checkback.sinks.kafka.transaction.marker import Marker, MarkerStore, require_not_by_hand
from checkback.sinks.settings import SinkSettings
from checkback.streaming.spark.cores import state_partitions
from checkback.streaming.start.topic_claim import Claim, claimed_error, first_record
from checkback.streaming.start.transaction_timeout import (
    LEAST_MS,
    broker_limit_ms,
    choose_timeout_ms,
)

if TYPE_CHECKING:
    from checkback.checkpoints.store import CheckpointStore

TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts of the cluster and of the topics that the pipeline needs."""

    cluster_id: str
    topics: dict[str, DescribedTopic]
    settled_records: int
    transaction_timeout_max_ms: int | None = None
    claim: Claim | None = None
    marks_kept_ms: int | None = None
    """The settled topic's retention; below 0 for ever, None where this user may not see it."""


def require_settings(
    settings: Settings, keys: Sequence[str] = ("bootstrap_servers", "checkpoint")
) -> None:
    """Refuse settings that the pipeline can't run with.

    Raises:
        ConfigurationError: names the key.
    """
    for key in keys:
        if not getattr(settings, key):
            raise ConfigurationError(
                f"{key} is not set.",
                remedy=f"Set it in the file that --config names, as CHECKBACK_{key.upper()}, or "
                f"with --{key.replace('_', '-')}.",
                key=key,
            )


def require_usable_clients(settings: Settings, connection: dict[str, Any]) -> None:
    """Refuse `kafka.*` settings with which no consumer or no transactional producer can be made.

    No broker is asked. Without it a task would fail by them, long after the start.

    Raises:
        KafkaException: librdkafka rejects one; the error names it.
    """
    Consumer({**connection, "group.id": "checkback-preflight"}).close()
    Producer(
        {
            **connection,
            "transactional.id": f"{settings.application_id}-preflight",
            "transaction.timeout.ms": settings.sink_transaction_timeout_ms or LEAST_MS,
        }
    )


def look_at_cluster(settings: Settings, connection: dict[str, Any]) -> ClusterFacts:
    """Return the facts, after checking that every topic is there and fits.

    Raises:
        BrokerError: the cluster can't be reached, or a topic is missing.
        ConfigurationError: a topic does not fit the settings.
    """
    require_usable_clients(settings, connection)
    admin: Any = AdminClient(connection)
    names = settings.topics
    needed = [
        plan.name
        for plan in plan_topics(settings, state_partitions(settings))
        if plan.name != names.status
    ]
    servers = settings.bootstrap_servers
    remedy = "Check bootstrap_servers, the security settings and that the brokers are up."
    with broker_errors(
        f"The brokers at {servers} do not answer", remedy, bootstrap_servers=servers
    ):
        # A broker that has just died is still among them.
        cluster = retry_transient(
            lambda: admin.describe_cluster(request_timeout=TIMEOUT_S).result(2 * TIMEOUT_S),
            TIMEOUT_S,
        )
        found = describe_topics(admin, needed)
        _require_fit(settings, found)
        marks_kept_ms = _require_configs(settings, admin)
        limit_ms = broker_limit_ms(admin, cluster.nodes)
        choose_timeout_ms(settings, limit_ms, None)  # refuses one that the brokers don't allow
        places = [(names.settled, at) for at in range(found[names.settled].partitions)]
        first_ones, ends = listed_offsets(admin, places, EARLIEST), listed_offsets(admin, places)
        settled = sum(ends.values()) - sum(first_ones.values())
        first = first_record(settings, connection) if settled else None
        claim = None if first is None else Claim.from_record(first)
    return ClusterFacts(str(cluster.cluster_id), found, settled, limit_ms, claim, marks_kept_ms)


def identity_of(settings: Settings, facts: ClusterFacts) -> CheckpointIdentity:
    """Return the identity of a checkpoint that is created now with these settings."""
    names = settings.topics
    return CheckpointIdentity(
        FORMAT,
        settings.application_id,
        facts.cluster_id,
        settings.offsets_per_page,
        state_partitions(settings),
        facts.topics[names.half].topic_id,
        facts.topics[names.op].topic_id,
        facts.topics[names.settled].topic_id,
        facts.topics[names.half].partitions,
        settings.order_of_pages,
    )


def bind_checkpoint(
    settings: Settings, facts: ClusterFacts, store: CheckpointStore
) -> CheckpointIdentity:
    """Bind a new checkpoint to its topics and settings, or check that an old one still fits.

    Returns:
        What it is bound to.

    Raises:
        CheckpointError: it belongs to something else, or the topics were settled by another one.
        ConfigurationError: the settled topic has too few partitions.
    """
    require_settled_fit(settings, facts.topics)
    now = identity_of(settings, facts)
    text = store.read_own(FILE)
    if text is not None:
        bound = CheckpointIdentity.from_json(text)
        bound.require_same(now)
        return bound
    if not store.is_empty():
        raise CheckpointError(
            f"{settings.checkpoint} is not empty and not a checkpoint of Checkback.",
            remedy="Choose an empty folder; where a rebuild was broken off, run it again.",
            checkpoint=settings.checkpoint,
        )
    if facts.settled_records:
        raise claimed_error(settings, facts.claim)
    store.replace_own(FILE, now.to_json())
    return now


def require_still_bound(store: CheckpointStore, bound: CheckpointIdentity) -> None:
    """Refuse a checkpoint that a tool has changed since this start read what it is bound to.

    Call it once older writers are fenced. A rebuild that goes on after that fences this job; one
    that was quicker has removed the identity, and writes another one last.

    Raises:
        CheckpointError: a rebuild or a repartition runs, or has just ended.
    """
    text = store.read_own(FILE)
    if text is None or CheckpointIdentity.from_json(text) != bound:
        raise CheckpointError(
            f"{store.path} was changed while the job started.",
            remedy="Wait until `checkback checkpoint` has ended, then start again.",
            checkpoint=store.path,
        )


def require_markers(
    settings: SinkSettings, partitions: int, store: ReadableCheckpoint
) -> dict[int, Marker]:
    """Refuse markers that contradict the checkpoint.

    A start writes the marker of every state partition before it plans a batch, so only a loss
    explains one that is missing once a batch is planned. A marker behind a batch that the
    checkpoint has not planned says that the checkpoint is an older copy: its next batches would
    have numbers that are written already, with other contents, and be skipped.

    Returns:
        The markers that there are, by state partition.

    Raises:
        CheckpointError: names the state partitions.
    """
    # Looked up before the markers: another start that runs meanwhile writes markers first, and then
    # plans.
    known = [store.last_batch(log) for log in ("commits", "offsets")]
    last_known = max((batch for batch in known if batch is not None), default=None)
    numbers = list(range(partitions))
    with closing(MarkerStore(settings)) as store_of_markers:
        markers = store_of_markers.read_hastily(numbers)
        if last_known is not None and len(markers) < partitions:
            # A first start that died at its first batch has committed them; Kafka may be about to
            # write that down, for which this look waits.
            markers = store_of_markers.read(numbers)
    if last_known is not None:
        _require_all(markers, partitions, last_known, settings.marker_group)
    require_not_by_hand(markers, settings.marker_group)
    # Looked up after the markers: a pipeline that runs meanwhile plans before it writes.
    last_planned = store.last_batch("offsets")
    _require_planned(markers, -1 if last_planned is None else last_planned, store.path)
    return markers


def _require_all(
    markers: Mapping[int, Marker], partitions: int, last_known: int, group: str
) -> None:
    missing = [partition for partition in range(partitions) if partition not in markers]
    if missing:
        raise CheckpointError(
            f"The markers of state partitions {missing} are gone from consumer group "
            f"{group}, though batch {last_known} is planned: whether it was written can't be "
            "known.",
            remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
            missing=missing,
            group=group,
        )


def _require_planned(markers: Mapping[int, Marker], last_planned: int, checkpoint: str) -> None:
    ahead = {
        partition: marker.untouched_batch - 1
        for partition, marker in markers.items()
        if marker.untouched_batch - 1 > last_planned
    }
    if ahead:
        raise CheckpointError(
            f"{checkpoint} ends with batch {last_planned}, but state partitions {sorted(ahead)} "
            f"have written batch {max(ahead.values())}: it is an older copy. Its next batches "
            "would be taken for written.",
            remedy="Use the newest checkpoint; if it is lost, run `checkback checkpoint rebuild`: "
            "see `checkback docs recovering`.",
            last_planned=last_planned,
            written=ahead,
        )


def _require_fit(settings: Settings, topics: Mapping[str, DescribedTopic]) -> None:
    names = settings.topics
    half = topics[names.half].partitions
    for topic in (*names.read[1:], *[names.decided] * settings.relay):
        found = topics[topic].partitions
        if half != found:
            raise ConfigurationError(
                f"{names.half} has {half} partitions and {topic} has {found}: they must be equal.",
                remedy="Give the smaller one more partitions.",
            )
    if settings.state_partitions is not None:  # else the checkpoint may know, which is seen later
        require_settled_fit(settings, topics)


def require_settled_fit(settings: Settings, topics: Mapping[str, DescribedTopic]) -> None:
    """Refuse a settled topic with fewer partitions than the state has.

    Raises:
        ConfigurationError: says how many there are.
    """
    names = settings.topics
    settled, wanted = topics[names.settled].partitions, state_partitions(settings)
    if settled < wanted:
        raise ConfigurationError(
            f"{names.settled} has {settled} partitions, {wanted} state partitions need one each.",
            remedy="Set state_partitions lower, or give the topic more partitions.",
            key="state_partitions",
        )


def _require_configs(settings: Settings, admin: AdminClient) -> int | None:
    """Refuse topics with settings that lose records; return how long marks are kept, if seen."""
    names = settings.topics
    marks_kept_ms = None
    for plan in plan_topics(settings, state_partitions(settings)):
        breaking = breaking_configs(names, plan.name)
        if not breaking:
            continue
        try:
            found = retry_transient(partial(_configs_of, admin, plan.name), TIMEOUT_S)
        except KafkaException as error:
            if cause_of(error).code() not in LASTING_ERRORS:
                raise
            continue  # no right to look; the sink still refuses a half that is gone
        for name, harm in breaking.items():
            if found[name] != plan.configs[name]:
                raise ConfigurationError(
                    f"{plan.name} has {name} {found[name]}: {harm}.",
                    remedy=f"Set {name} of the topic to {plan.configs[name]}.",
                    topic=plan.name,
                    name=name,
                )
        if plan.name in (names.half, names.decided):
            _require_retention(settings, plan.name, int(found["retention.ms"]))
        if plan.name == names.settled:
            marks_kept_ms = int(found["retention.ms"])
    return marks_kept_ms


def _configs_of(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    answer = admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource]
    return {name: str(one.value) for name, one in answer.result(2 * TIMEOUT_S).items()}


def _require_retention(settings: Settings, topic: str, retention_ms: int) -> None:
    window_ms = settings.half_retention_ms
    if 0 <= retention_ms < window_ms:
        is_half = topic == settings.topics.half
        why = "is read when it is settled" if is_half else "a relay's word on it may be read then"
        raise ConfigurationError(
            f"{topic} keeps records for {duration_text(retention_ms)}, but a half may be pending "
            f"for {duration_text(window_ms)} and {why}.",
            remedy=f"Set the topic's retention.ms to {window_ms + DAY_MS} or more.",
            retention_ms=retention_ms,
            window_ms=window_ms,
        )
