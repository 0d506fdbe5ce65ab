"""Two tenants of one deployment attack each other, and Kafka's authorizer is on.

Each has a login with what `checkback acl grants` prints, and an account to sign with. What Kafka
can tell apart it refuses; what both may write to one topic the pipeline does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from tests.integration.client.playing import Scripted
from tests.integration.guarded import ADMIN, Acls, guarded_broker, login, needed
from tests.integration.running import Topics, wait_until
from tests.integration.shared_jvm import SharedJvm
from tests.integration.tenants import ALICE, PATIENCE_S, SECRETS, Stage, forge, rules

from checkback.client import Message, TransactionMQProducer
from checkback.deploy.broker import EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.topics import TopicNames

PREFIX = "shared."
NAMES = TopicNames(PREFIX)
GROUPS = {"alice": f"{PREFIX}a", "mallory": f"{PREFIX}m"}
PIPELINE = "pipeline"
ANSWER_S = 30.0
"""How long Kafka gets to refuse something; it takes moments."""
# By day test_access_control.py has the attacks, and test_grants.py the authorizer.
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with guarded_broker(tmp_path_factory.mktemp("tenants"), *GROUPS, PIPELINE) as running:
        yield running


@pytest.fixture(scope="module")
def stage(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, shared_jvm: SharedJvm
) -> Iterator[Stage]:
    """The job, running as the pipeline; the admin reads what becomes of records."""
    folder = tmp_path_factory.mktemp("tenants-job")
    topics = Topics(broker.bootstrap_servers, PREFIX, half_partitions=1, kafka=login(ADMIN))
    file = folder / "plain_acl.yml"
    file.write_text(rules(PREFIX))
    settings = job(topics, folder, file)
    real = [f"{PREFIX}{user}" for user in GROUPS]
    topics.create(replace(settings, kafka=login(ADMIN)), real, list(GROUPS.values()))
    grant(topics)
    with shared_jvm.pipeline(settings, folder) as pipeline:
        assert pipeline.wait_for("started")["access_control"] == "on"
        yield Stage(topics, pipeline, PREFIX, file)


def grant(topics: Topics) -> None:
    """Give each login what the command prints for it."""
    acls = Acls(topics.bootstrap_servers)
    for user, group in GROUPS.items():
        acls.give(needed(topics, [user], "--principal", f"User:{user}", "--group", group))
    asked = [option for group in GROUPS.values() for option in ("--group", group)]
    acls.give(needed(topics, GROUPS, "--pipeline", "--principal", f"User:{PIPELINE}", *asked))


def job(topics: Topics, folder: Path, file: Path) -> Settings:
    """Return the settings of a job that runs as the pipeline and believes the rules only."""
    return topics.settings(
        folder / "checkpoint",
        application_id=PREFIX,
        state_partitions=1,
        kafka=login(PIPELINE),
        trigger_interval_ms=200,
        acl_file=str(file),
    )


def connection(stage: Stage, user: str) -> dict[str, Any]:
    return {"log_level": 0, **confluent_settings(stage.topics.bootstrap_servers, login(user))}


def answer_to_reading(connection: Mapping[str, Any], topic: str, group: str) -> str:
    """Read a topic from its start as a member of a group; return what Kafka says to that."""
    consumer = Consumer({**connection, "group.id": group, "auto.offset.reset": "earliest"})
    # Of a topic that it was assigned, and may not even see, a consumer says nothing.
    consumer.subscribe([topic])
    try:
        message = consumer.poll(ANSWER_S)
    finally:
        consumer.close()
    error = message.error() if message is not None else None
    return error.name() if error is not None else "no refusal"


def answer_to_writing(connection: Mapping[str, Any], topic: str) -> str:
    """Write to a topic; return what Kafka says to that."""
    answers: list[KafkaError | None] = []
    producer = Producer(dict(connection))
    producer.produce(topic, b"forged", on_delivery=lambda error, _: answers.append(error))
    producer.flush(ANSWER_S)
    [error] = answers
    return error.name() if error is not None else "no refusal"


def answer_to_fencing(connection: Mapping[str, Any], transactional_id: str) -> str:
    """Take over a transactional id; return what Kafka says to that."""
    producer = Producer({**connection, "transactional.id": transactional_id})
    try:
        producer.init_transactions(ANSWER_S)
    except KafkaException as failed:
        error = failed.args[0]
        return error.name() if isinstance(error, KafkaError) else error
    return "no refusal"


def test_kafka_lets_no_tenant_read_what_is_not_its_own(stage: Stage) -> None:
    theirs, own_group = connection(stage, "mallory"), NAMES.check(GROUPS["mallory"])
    secret = (NAMES.half, NAMES.op, NAMES.settled, NAMES.check(GROUPS["alice"]))

    answers = {topic: answer_to_reading(theirs, topic, own_group) for topic in secret}

    assert answers == dict.fromkeys(secret, "TOPIC_AUTHORIZATION_FAILED")


def test_kafka_lets_no_tenant_into_groups_that_are_not_its_own(stage: Stage) -> None:
    theirs, readable = connection(stage, "mallory"), NAMES.check(GROUPS["mallory"])
    others = (NAMES.check(GROUPS["alice"]), GROUPS["alice"], PREFIX, f"{PREFIX}-marker-0")

    answers = {group: answer_to_reading(theirs, readable, group) for group in others}

    assert answers == dict.fromkeys(others, "GROUP_AUTHORIZATION_FAILED")


def test_kafka_lets_no_tenant_write_what_is_the_pipelines_to_write(stage: Stage) -> None:
    theirs = connection(stage, "mallory")
    closed = (
        NAMES.settled, NAMES.feedback, NAMES.refused, NAMES.discarded, NAMES.status,
        *(PREFIX + user for user in GROUPS), NAMES.check(GROUPS["alice"]),
    )  # fmt: skip

    answers = {topic: answer_to_writing(theirs, topic) for topic in closed}

    assert answers == dict.fromkeys(closed, "TOPIC_AUTHORIZATION_FAILED")


def test_kafka_lets_no_tenant_fence_the_pipeline(stage: Stage) -> None:
    answer = answer_to_fencing(connection(stage, "mallory"), f"{PREFIX}-0")

    assert answer == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def written_by(stage: Stage, user: str) -> Stage:
    """Return the stage for a tenant, who writes with its own login."""
    own = Topics(stage.topics.bootstrap_servers, PREFIX, kafka=login(user))
    return replace(stage, writer=own)


def test_what_kafka_must_let_through_has_no_effect(stage: Stage) -> None:
    as_alice, as_mallory = (written_by(stage, user) for user in GROUPS)
    alice = stage.signer(ALICE)
    at = as_alice.half("pending", alice)

    forge(as_mallory, at)

    assert stage.bodies() == []
    assert stage.bodies("mallory") == []
    as_alice.op(at, "pending", alice)
    wait_until(lambda: stage.bodies() == ["pending"], PATIENCE_S, "Alice's own commit")


def test_a_tenant_that_is_attacked_goes_on(stage: Stage) -> None:
    producer = TransactionMQProducer(
        GROUPS["alice"],
        bootstrap_servers=stage.topics.bootstrap_servers,
        transaction_listener=Scripted(),
        topic_prefix=PREFIX,
        access_key=ALICE,
        secret_key=SECRETS[ALICE],
        kafka=login("alice"),
    )
    refused = stage.refused()
    producer.start()
    try:
        producer.send_message_in_transaction(Message(f"{PREFIX}alice", b"paid"))
        wait_until(lambda: stage.bodies() == ["paid", "pending"], PATIENCE_S, "the final")
    finally:
        producer.shutdown()

    assert stage.refused() == refused


def test_rules_change_and_the_job_ends_where_it_may_not_show_its_position(stage: Stage) -> None:
    """Its consumer, whose commit Kafka never answers, took forever to close."""
    alices = f"secretKey: {SECRETS[ALICE]}"
    both = f"secretKey: [the-next-secret-of-alice, {SECRETS[ALICE]}]"
    stage.rules.write_text(rules(PREFIX).replace(alices, both))

    changed = stage.pipeline.wait_for("access_rules", ANSWER_S)
    alice = stage.signer(ALICE)
    as_alice = written_by(stage, "alice")
    as_alice.op(as_alice.half("by the old secret", alice), "by the old secret", alice)
    wait_until(lambda: "by the old secret" in stage.bodies(), PATIENCE_S, "the final")

    assert changed["from_batch"] > 0
    assert stage.pipeline.terminate(ANSWER_S) == 0
