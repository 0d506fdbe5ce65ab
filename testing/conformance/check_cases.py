"""Cases of check requests: which processes read them, which are answered, and how."""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from checkback.deploy.topics import create_missing
from checkback.protocol import properties as names
from checkback.protocol.properties import Headers
from checkback.protocol.records import Op, check_headers, half_headers
from checkback.protocol.topics import TopicPlan
from checkback.testing.conformance.book import COMMIT, UNKNOWN, Death, Script
from checkback.testing.conformance.program import DiedError, PlannedSend, Program, Sent
from checkback.testing.conformance.record_cases import (
    STATES,
    require_message,
    require_signed,
)
from checkback.testing.conformance.report import FailedError, require, require_equal
from checkback.testing.conformance.stage import (
    CHECK_INTERVAL_MS,
    PATIENCE_S,
    Stage,
    headers_of,
    wait_for,
)

ASKED_LEAST: Final = 3
AT_ONCE_S: Final = 8
"""Less than a session of 10 s."""


def answer_is_byte_for_byte(stage: Stage) -> None:
    """A check shows the listener the message, counts from 1, and its answer is an op."""
    topic, group = stage.real_topic(), stage.unique("group")
    properties = [("source", b"web"), ("empty", b""), ("bytes", b"\xfe")]
    order = PlannedSend(topic, b"asked", key=b"\0k", keys="o-1", tags="t", properties=properties)
    with stage.started(group) as program:
        sent = stage.send(program, order, Script(COMMIT, said=UNKNOWN, unknown_checks=1))
        wait_for(lambda: sent.transaction_id in stage.finals(topic), "the final after two checks")
    shown = stage.book.checks[sent.transaction_id]
    require_equal(
        [check["check_times"] for check in shown][:2], [1, 2], "the numbers of the checks"
    )
    for check in shown:
        require_message(check, order)
        require_equal(
            (check["partition"], check["offset"]), (sent.partition, sent.offset), "its place"
        )
    answers = stage.ops(sent.transaction_id, of_checks=True)
    for state, record in zip((UNKNOWN, COMMIT), answers, strict=False):
        op = Op(sent.partition, sent.offset, group, sent.transaction_id, STATES[state], True)
        require_equal(record.partition(), sent.partition, "the partition of the answer")
        require_equal(record.value(), op.value(), "the value of the answer")
        headers = headers_of(record)
        if stage.is_guarded:
            op_topic = stage.topics.names.op
            require_signed(headers, op_topic, sent.partition, op.key(), op.value(), "HmacSHA256")
            headers = headers[:-2]
        require_equal(headers, op.headers(), f"the headers of the answer {state}")


def immunity_time_is_kept(stage: Stage) -> None:
    """No check asks about a half within its immunity time."""
    topic, group, immunity_s = stage.real_topic(), stage.unique("group"), 6
    immunity = [(names.CHECK_IMMUNITY_TIME_IN_SECONDS, b"%d" % immunity_s)]
    order = PlannedSend(topic, b"immune", properties=immunity)
    with stage.started(group) as program:
        script = Script(COMMIT, said=UNKNOWN)
        sent = stage.send(program, order, script)
        stored_at_ms = stage.half(sent).timestamp()[1]
        wait_for(lambda: stage.book.checks[sent.transaction_id], "its check")
    check_topic = stage.topics.names.check(group)
    asked_at_ms = min(record.timestamp()[1] for record in stage.topics.read(check_topic))
    waited_ms = asked_at_ms - stored_at_ms
    require(waited_ms >= immunity_s * 1_000, f"asked after {waited_ms} ms")


def unknown_is_asked_again(stage: Stage) -> None:
    """After the answer unknown, another check comes, each time with the next number."""
    topic, group = stage.real_topic(), stage.unique("group")
    with stage.started(group) as program:
        sent = stage.send(program, PlannedSend(topic, b"never known"), Script(UNKNOWN))
        asked = stage.book.checks[sent.transaction_id]
        wait_for(lambda: len(asked) >= ASKED_LEAST, f"{ASKED_LEAST} checks")
    numbers = [message["check_times"] for message in asked]
    require_equal(numbers, sorted(set(numbers)), "the numbers of the checks")
    require(sent.transaction_id not in stage.finals(topic), "it has a final")


def group_has_the_check_topics_name(stage: Stage) -> None:
    """Members of the group share the check topic by range, whatever language they are in."""
    group = stage.unique("group")
    check_topic = stage.topics.names.check(group)
    admin = AdminClient({"bootstrap.servers": stage.topics.bootstrap_servers})

    def members() -> int:
        described: Any = admin.describe_consumer_groups([check_topic])[check_topic].result(10)
        require(
            described.partition_assignor in ("", "range"),
            f"the group shares by {described.partition_assignor}",
        )
        return len(described.members)

    with (
        stage.started(group) as program,
        stage.started(group, stage.companion),
    ):
        wait_for(lambda: members() == 2, "both members", 30)
        program.shutdown()
        wait_for(lambda: members() == 1, "the end of the membership", 5)


def requests_age_by_the_brokers_clock(stage: Stage) -> None:
    """A request older than its interval is skipped; younger ones, and those ahead, are answered.

    No pipeline runs here: the kit writes the requests, with times that it shifts.
    """
    group, topic = stage.unique("group"), stage.real_topic()
    check_topic = stage.topics.names.check(group)
    _create_check_topic(stage, check_topic)
    ask = Asker(stage, group, check_topic)
    minute_ms = 60_000
    with stage.started(group) as program:
        # The client knows no broker's time before its first half: it skips nothing.
        stranger = Sent("of another process", 0, 0, UNKNOWN)
        ask(stranger, age_ms=60 * minute_ms, interval_ms=minute_ms)
        ask.wait_for_checks(stranger, 1, "an old request before the first half")
        sent = stage.send(program, PlannedSend(topic, b"clock"), Script(COMMIT))
        ask(sent, age_ms=2 * minute_ms, interval_ms=minute_ms)
        ask(sent, age_ms=-30 * minute_ms, interval_ms=minute_ms)
        ask(sent, age_ms=minute_ms // 2, interval_ms=minute_ms)
        ask(sent, age_ms=2 * minute_ms, interval_ms=None)
        ask.wait_for_checks(
            sent, 3, "the young request, the one ahead and the one without interval"
        )
        time.sleep(1)
        require_equal(len(stage.book.checks[sent.transaction_id]), 3, "the answered requests")


def unreadable_requests_stop_nothing(stage: Stage) -> None:
    """Requests that say too little are skipped, those of an aborted transaction never read."""
    group, topic = stage.unique("group"), stage.real_topic()
    check_topic = stage.topics.names.check(group)
    _create_check_topic(stage, check_topic)
    ask = Asker(stage, group, check_topic)
    with stage.started(group) as program:
        sent = stage.send(program, PlannedSend(topic, b"unreadable"), Script(COMMIT))
        ask.headers_of_request(sent, leave_out=names.UNIQ_KEY)
        ask.headers_of_request(sent, leave_out=names.TRAN_PREPARED_QUEUE_OFFSET)
        ask.headers_of_request(sent, leave_out=names.TRAN_HALF_QUEUE_ID)
        ask.aborted(sent)
        ask(sent, age_ms=0)
        ask.wait_for_checks(sent, 1, "the request after the unreadable ones")
        time.sleep(1)
        require_equal(len(stage.book.checks[sent.transaction_id]), 1, "the answered requests")


def a_name_is_kept_over_a_restart(stage: Stage) -> None:
    """A successor with the same instance name gets the checks at once, also beside a third one."""
    group, topic = stage.unique("group"), stage.real_topic()
    ask = Asker(stage, group, stage.topics.names.check(group))
    with stage.started(group, instance_name="one") as program:
        sent = stage.send(program, PlannedSend(topic, b"named"), Script(COMMIT))
        ask(sent, age_ms=0)
        ask.wait_for_checks(sent, 1, "a check of the named process")
        program.kill()
        with stage.started(group, instance_name="one"):
            ask(sent, age_ms=0)
            ask.wait_for_checks(sent, 2, "a check of its successor", AT_ONCE_S)
            with stage.started(group, instance_name="one"):
                for count in range(3, 6):
                    ask(sent, age_ms=0)
                    ask.wait_for_checks(sent, count, "a check beside another one of its name")


def _create_check_topic(stage: Stage, name: str) -> None:
    """Create a check topic that keeps the record times which the kit writes."""
    configs = {
        "message.timestamp.type": "CreateTime",
        "message.timestamp.after.max.ms": "9223372036854775807",
    }
    create_missing(stage.topics.settings(), [TopicPlan(name, 1, configs)])


class Asker:
    """Writes check requests itself, with shifted times.

    Args:
        stage: the stage with the topics.
        group: the producer group.
        check_topic: the group's check topic.
    """

    def __init__(self, stage: Stage, group: str, check_topic: str) -> None:
        self._stage = stage
        self._group = group
        self._topic = check_topic

    def __call__(
        self, sent: Sent, *, age_ms: int, interval_ms: int | None = CHECK_INTERVAL_MS
    ) -> None:
        """Ask about a transaction, with a request of that age."""
        self._write(self._headers(sent, interval_ms), int(time.time() * 1000) - age_ms)

    def headers_of_request(self, sent: Sent, *, leave_out: str) -> None:
        """Ask without one of the headers."""
        all_headers = self._headers(sent, CHECK_INTERVAL_MS)
        headers = [(name, value) for name, value in all_headers if name != leave_out]
        self._write(headers, int(time.time() * 1000))

    def aborted(self, sent: Sent) -> None:
        """Ask in a Kafka transaction that is aborted."""
        producer = Producer(
            {**self._stage.topics.connection, "transactional.id": f"conformance-{self._topic}"}
        )
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        headers = self._headers(sent, None)
        producer.produce(self._topic, b"body", None, 0, headers=headers)  # type: ignore[arg-type]
        producer.flush(PATIENCE_S)
        producer.abort_transaction(PATIENCE_S)

    def wait_for_checks(self, sent: Sent, count: int, what: str, timeout_s: float = 30) -> None:
        """Wait until the listener was asked that often about a transaction."""
        checks = self._stage.book.checks
        wait_for(lambda: len(checks[sent.transaction_id]) >= count, what, timeout_s)

    def _headers(self, sent: Sent, interval_ms: int | None) -> Headers:
        half = half_headers(
            producer_group=self._group,
            transaction_id=sent.transaction_id,
            real_topic="real",
            properties={},
        )
        return check_headers(half, sent.partition, sent.offset, 1, interval_ms)

    def _write(self, headers: Headers, time_ms: int) -> None:
        producer = Producer({**self._stage.topics.connection, "acks": "all"})
        producer.produce(self._topic, b"body", None, 0, headers=headers, timestamp=time_ms)  # type: ignore[arg-type]
        if producer.flush(PATIENCE_S):
            raise FailedError("the kit could not write a check request")


def other_processes_answer_for_the_dead(stage: Stage) -> None:
    """Living processes of the group, in any language, settle a killed one's transactions."""
    topic, group = stage.real_topic(), stage.unique("group")
    for sender, answerer in ((stage.command, stage.companion), (stage.companion, stage.command)):
        with stage.started(group, answerer):
            for death in Death:
                body = f"{sender is stage.command} {death.value}".encode()
                _send_and_die(stage, group, sender, PlannedSend(topic, body), Script(death=death))
            settled = [f"{sender is stage.command} {Death.BEFORE_OP.value}".encode()]
            wait_for(
                lambda: {record.value() for record in stage.topics.read(topic)} >= set(settled),  # noqa: B023
                "the finals of the dead process",
            )
    bodies = sorted(record.value() or b"" for record in stage.topics.read(topic))
    expected = sorted(
        f"{is_tested} {Death.BEFORE_OP.value}".encode() for is_tested in (True, False)
    )
    require_equal(bodies, expected, "the finals")


def _send_and_die(
    stage: Stage, group: str, command: object, order: PlannedSend, script: Script
) -> None:
    program: Program = stage.program(command)  # type: ignore[arg-type]
    try:
        program.start(**stage.options(group))
        stage.send(program, order, script)
    except DiedError:
        return
    finally:
        program.end()
    raise FailedError("the killed program answered")
