"""What `checkback acl grants` prints is enough on a broker with its authorizer on; one less is not.

The commands themselves are read and carried out, as a user would run them. The doctor looks at
the same broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from tests.integration.client.playing import Scripted, producer_over
from tests.integration.guarded import ADMIN, Acls, bindings_of, guarded_broker, login, needed
from tests.integration.relay.relaying import RelayStage
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.client import Message, TransactionMQProducer
from checkback.deploy.broker import EmbeddedBroker
from checkback.deploy.topics import create_topics
from checkback.operations.doctor.doctor import Doctor
from checkback.operations.doctor.judgements import Result
from checkback.operations.topics.scanner import TopicScanner
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.protocol.decided import Taken
from checkback.protocol.errors import BrokerError, OperationalError
from checkback.protocol.properties import FROM_TRANSACTION_CHECK, text_value
from checkback.protocol.records import check_headers
from checkback.relay.relay import Relay
from checkback.sinks.kafka.read.rule_source import TopicRules
from checkback.streaming.start.preflight import look_at_cluster
from checkback.testing.topics import read_topic

SERVED_S = 90.0
"""How long the pipeline gets for everything; with all rights it needs a tenth of it."""
DELIVERED_S = 10.0
"""How long a relay gets; with all rights it needs a tenth of it."""
RIGHTS_OF_A_RELAY = 8
ONE_LEFT_S = 6.0
"""How long it gets for the last thing; with all rights it follows within two intervals."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    users = ("orders", "pipeline", "doctor", "bare", "relay")
    with guarded_broker(tmp_path_factory.mktemp("granted"), *users) as running:
        yield running


def topics_of(broker: EmbeddedBroker, prefix: str) -> Topics:
    """Return a Checkback's topics as the admin sees them."""
    topics = Topics(broker.bootstrap_servers, prefix, half_partitions=1, kafka=login(ADMIN))
    topics.create(topics.settings(state_partitions=1), real=[f"{prefix}paid"])
    return topics


def name_of(binding: AclBinding) -> str:
    return f"{binding.operation.name} on {binding.restype.name} {binding.name}"


class Group:
    """A producer group with a login of its own; the admin plays the pipeline.

    Args:
        topics: the topics as the admin sees them.
        log: what the client says.
    """

    def __init__(self, topics: Topics, log: pytest.LogCaptureFixture) -> None:
        self.topics = topics
        self.log = log

    def fails(self) -> str:
        """Send, commit and answer a check; return what did not work, "" if all did."""
        self.log.clear()
        producer = producer_over(self.topics, "orders", Scripted(), kafka=login("orders"))
        try:
            producer.start()
        except BrokerError as error:
            return error.message
        try:
            return self._fails_to_serve(producer)
        finally:
            producer.shutdown()

    def _fails_to_serve(self, producer: TransactionMQProducer) -> str:
        ops, answers = self._ops(), self._ops(answers=True)
        producer.send_message_in_transaction(Message(f"{self.topics.prefix}paid", b"x"), arg=None)
        wait_until(lambda: self._ops() > ops, what="the op is there")
        half = self.topics.read(self.topics.names.half)[-1]
        headers = check_headers(half.headers() or [], 0, half.offset() or 0, 1)
        self.topics.send_raw(self.topics.names.check("orders"), half.value(), headers)
        wait_until(
            lambda: self._ops(answers=True) > answers or self._complaints(), 20, "a check's answer"
        )
        return "".join(self._complaints()[:1])

    def _ops(self, *, answers: bool = False) -> int:
        """Count the ops, or those that answer a check."""
        said = [
            text_value(one.headers() or [], FROM_TRANSACTION_CHECK)
            for one in self.topics.read(self.topics.names.op)
        ]
        return said.count("true") if answers else len(said)

    def _complaints(self) -> list[str]:
        said = [one.getMessage() for one in self.log.records if one.levelname == "WARNING"]
        return [one for one in said if "authorization failed" in one]


def test_a_producer_group_needs_what_is_printed_and_nothing_less(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topics, acls = topics_of(broker, "group."), Acls(broker.bootstrap_servers)
    group = Group(topics, caplog)
    wanted = needed(topics, ["paid"], "--principal", "User:orders", "--group", "orders")
    create = next(one for one in wanted if one.operation is AclOperation.CREATE)
    acls.give(one for one in wanted if one is not create)

    # The right to create is needed as long as the check topic is not there.
    assert "can't be created" in group.fails()
    acls.give([create])
    assert group.fails() == ""
    acls.take(create)
    assert group.fails() == ""

    acls.give([create])
    failed = {}
    for one in wanted:
        if one is not create:
            acls.take(one)
            failed[name_of(one)] = group.fails()
            acls.give([one])
    assert [name for name, said in failed.items() if not said] == []
    assert len(failed) == 4


def test_whoever_may_read_a_topic_needs_no_right_on_a_group(broker: EmbeddedBroker) -> None:
    topics, acls = topics_of(broker, "readers."), Acls(broker.bootstrap_servers)
    topic = topics.names.refused
    topics.send_raw(topic, b"rules", [])
    given = f"--add --allow-principal User:orders --operation Read --topic {topic}"
    acls.give(bindings_of(f"kafka-acls --bootstrap-server here:9092 {given}"))
    connection = confluent_settings(broker.bootstrap_servers, login("orders"))

    with TopicScanner(connection) as scanner, closing(TopicRules(topic, connection)) as rules:
        assert [one.value for one in scanner.scan(topic)] == [b"rules"]
        assert rules.content() == b"rules"
    assert [one.value() for one in read_topic(connection, topic)] == [b"rules"]


class Deployment:
    """A pipeline with a login of its own, and something of every kind for it to do."""

    def __init__(self, topics: Topics, folder: Path, shared_jvm: SharedJvm) -> None:
        self.topics = topics
        self.folder = folder
        self.shared_jvm = shared_jvm
        self.one_left_s: float | None = None
        self.settings = topics.settings(
            folder / "checkpoint",
            state_partitions=1,
            application_id=topics.prefix,
            kafka=login("pipeline"),
            transaction_timeout_ms=500,
            check_interval_ms=500,
            check_max=1,
        )

    def leaves_undone(self) -> set[str]:
        """Run the pipeline until nothing more is to be expected; return what it did not do."""
        real = f"{self.topics.prefix}paid"
        at = self.topics.send_half(b"committed", real)
        self.topics.send_op(at, "committed", COMMIT)
        self.topics.send_half(b"asked and given up", real, group="orders")
        self.topics.send_half(b"nobody to ask", real, group="absent")
        self.topics.send_raw(self.topics.names.op, b"no number", [])
        with self.shared_jvm.pipeline(self.settings, self.folder) as pipeline:
            try:
                pipeline.wait_for("started")
                wait_until(lambda: self._is_over(pipeline), SERVED_S)
            except (OperationalError, AssertionError):
                pass  # what is undone tells more
        return self._undone()

    def _undone(self) -> set[str]:
        names = self.topics.names
        wanted = (names.check("orders"), names.discarded, names.refused, names.feedback)
        real = f"{self.topics.prefix}paid"
        return {topic for topic in (*wanted, real) if not self.topics.read(topic)}

    def _is_over(self, pipeline: Pipeline) -> bool:
        """Tell whether all is done, the process ended, or one thing has been left for long."""
        undone = self._undone()
        if len(undone) != 1:
            self.one_left_s = None
            return not (undone and pipeline.is_alive)
        self.one_left_s = self.one_left_s or time.monotonic()
        return time.monotonic() - self.one_left_s > ONE_LEFT_S or not pipeline.is_alive


def test_the_pipeline_needs_no_more_than_what_is_printed(
    broker: EmbeddedBroker, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    topics = topics_of(broker, "pipeline.")
    topics.create(topics.settings(state_partitions=1), groups=["orders"])
    wanted = needed(
        topics, ["paid"], "--pipeline", "--principal", "User:pipeline", "--group", "orders"
    )
    Acls(broker.bootstrap_servers).give(wanted)

    assert Deployment(topics, tmp_path, shared_jvm).leaves_undone() == set()


def test_topics_that_may_not_be_described_are_not_called_missing(broker: EmbeddedBroker) -> None:
    topics = topics_of(broker, "hidden.")
    settings = replace(topics.settings(state_partitions=1), kafka=login("orders"))

    with pytest.raises(BrokerError, match="do not describe hidden") as told:
        look_at_cluster(settings, settings.connection())
    assert told.value.fields["code"] == "TOPIC_AUTHORIZATION_FAILED"
    with TopicScanner(settings.connection()) as scanner:
        assert list(scanner.scan("nobodys", may_be_hidden=True)) == []
        with pytest.raises(BrokerError, match="nobodys can't be read"):
            scanner.partitions("nobodys")


def test_a_wrong_password_is_told_as_such_and_never_shown(broker: EmbeddedBroker) -> None:
    wrong = {**login(ADMIN), "sasl.password": "a-wrong-word"}

    with pytest.raises(BrokerError, match="refused the user name or the password") as refused:
        create_topics(Settings(bootstrap_servers=broker.bootstrap_servers, kafka=wrong))

    assert "a-wrong-word" not in repr(refused.value)
    assert refused.value.__cause__ is None


def does_not_deliver(topics: Topics) -> str:
    """Run a relay over a commit with a key; return why it did not deliver it, "" if it did."""
    own = topics.settings(relay=True, application_id=topics.prefix, kafka=login("relay"))
    stage = RelayStage(topics, own)
    topics.send_half(b"old", stage.real, key=b"k")  # so it asks how far the pipeline has come
    before = len(stage.finals())
    try:
        relay = stage.relay()
        step_until(relay, lambda: relay.is_ready)
        stage.publish_position()
        step_until(relay, lambda: not relay.partitions[0].awaits_job)
        stage.commit("young", key=b"k")
        step_until(relay, lambda: len(stage.finals()) > before)
    except (OperationalError, TimeoutError) as error:
        return str(error)
    finally:
        for one in stage.relays:
            one.close()
    return ""


def step_until(relay: Relay, holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + DELIVERED_S
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError("it was not delivered")
        relay.step()


@pytest.mark.parametrize("less", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_relay_needs_what_is_printed_and_nothing_less(
    broker: EmbeddedBroker, *, less: bool
) -> None:
    topics, acls = topics_of(broker, f"relay-{less}."), Acls(broker.bootstrap_servers)
    topics.create(topics.settings(relay=True))
    RelayStage(topics, topics.settings(relay=True)).note(0, Taken(0, 0))
    wanted = needed(topics, ["paid"], "--relay", "--principal", "User:relay")
    acls.give(wanted)
    assert does_not_deliver(topics) == ""
    failed = {}
    for one in wanted if less else ():
        acls.take(one)
        failed[name_of(one)] = does_not_deliver(topics)
        acls.give([one])

    assert [name for name, said in failed.items() if not said] == []
    assert len(failed) == (RIGHTS_OF_A_RELAY if less else 0)


def grant(
    broker: EmbeddedBroker, user: str, kind: str, name: str, *operations: AclOperation
) -> None:
    prefixed = ResourcePatternType.PREFIXED
    Acls(broker.bootstrap_servers).give(
        AclBinding(
            ResourceType[kind], name, prefixed, f"User:{user}", "*", one, AclPermissionType.ALLOW
        )
        for one in operations
    )


def failures(settings: Settings) -> dict[str, str]:
    found = Doctor(settings, lambda: 0).findings()
    return {
        one.check: one.says
        for one in found
        if one.result is Result.FAILED and one.check != "clock"  # this test's stands still
    }


def test_the_doctor_names_a_right_that_is_missing(broker: EmbeddedBroker) -> None:
    settings = replace(
        topics_of(broker, "seen.").settings(state_partitions=1), kafka=login("doctor")
    )
    names, seeing = settings.topics, (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    for name in (*names.read, names.settled):
        grant(broker, "doctor", "TOPIC", name, *seeing, AclOperation.READ)
    for name in (names.feedback, names.discarded, names.refused, names.status):
        grant(broker, "doctor", "TOPIC", name, *seeing, AclOperation.WRITE)

    told = failures(settings)

    assert told.pop(f"rights on {names.settled}") == "missing: WRITE"
    assert "authorization" in told.pop("transactional ids").lower()
    assert told == {}

    grant(broker, "doctor", "TOPIC", names.settled, AclOperation.WRITE)
    ids = (AclOperation.DESCRIBE, AclOperation.WRITE)
    grant(broker, "doctor", "TRANSACTIONAL_ID", f"{settings.application_id}-", *ids)
    assert failures(settings) == {}


def test_for_the_doctor_only_what_is_needed_fails(broker: EmbeddedBroker) -> None:
    """With what `acl grants` prints, topics failed with settings that the pipeline may not see."""
    made = topics_of(broker, "bare.").settings(state_partitions=1)
    settings = replace(made, kafka=login("bare"), application_id="bare")
    names = settings.topics
    for name in (*names.read, names.settled):
        grant(broker, "bare", "TOPIC", name, AclOperation.READ)
    for name in (names.feedback, names.settled, names.discarded, names.refused):
        grant(broker, "bare", "TOPIC", name, AclOperation.WRITE)
    grant(broker, "bare", "TRANSACTIONAL_ID", "bare-", AclOperation.WRITE)

    assert failures(settings) == {}


RIGHTS_OF_THE_PIPELINE = 12


@pytest.mark.nightly
@pytest.mark.parametrize("missing", range(RIGHTS_OF_THE_PIPELINE))
def test_the_pipeline_needs_no_less_than_what_is_printed(
    broker: EmbeddedBroker, tmp_path: Path, shared_jvm: SharedJvm, missing: int
) -> None:
    topics = topics_of(broker, f"less-{missing}.")
    topics.create(topics.settings(state_partitions=1), groups=["orders"])
    wanted = needed(
        topics, ["paid"], "--pipeline", "--principal", "User:pipeline", "--group", "orders"
    )
    assert len(wanted) == RIGHTS_OF_THE_PIPELINE
    left_out = wanted.pop(missing)
    Acls(broker.bootstrap_servers).give(wanted)

    undone = Deployment(topics, tmp_path, shared_jvm).leaves_undone()

    assert undone != set(), name_of(left_out)
