"""Cases of what a client refuses before it sends: sizes, names, topics, a closed pipeline."""

from __future__ import annotations

import time

from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.records import STATUS_KEY, PipelineStatus
from checkback.testing.conformance.program import PlannedSend, SendFailedError
from checkback.testing.conformance.record_cases import refuses_to_send
from checkback.testing.conformance.report import FailedError, require, require_equal
from checkback.testing.conformance.stage import CHECK_INTERVAL_MS, Stage, wait_for
from checkback.testing.topics import create_plain_topics

BODY_MAX = Settings().max_message_bytes


def sizes_at_the_limits(stage: Stage) -> None:
    """The largest body is sent; a byte more is refused, and so is what the real topic refuses."""
    topic, small = stage.real_topic(), stage.unique("small")
    create_plain_topics(
        stage.topics.settings(), [topic + "-large"], configs={"max.message.bytes": "4325376"}
    )
    create_plain_topics(stage.topics.settings(), [small], configs={"max.message.bytes": "2000"})
    with stage.started(stage.unique("group")) as program:
        largest = PlannedSend(topic + "-large", b"x" * BODY_MAX)
        sent = stage.send(program, largest)
        require_equal(stage.half(sent).value(), largest.body, "the largest body")
        refuses_to_send(
            program, stage, PlannedSend(topic + "-large", b"x" * (BODY_MAX + 1)), {"invalid"}
        )
        stage.send(program, PlannedSend(small, b"x" * 1_000))
        refuses_to_send(program, stage, PlannedSend(small, b"y" * 2_000), {"invalid"})


def unusable_names_are_refused(stage: Stage) -> None:
    """Missing topics, system topics and names that Kafka does not take are refused."""
    topic = stage.real_topic()
    prefix = stage.topics.prefix
    system = ("RMQ_SYS_TRANS_HALF_TOPIC", "TBW102", "__anything", f"{prefix}rmq_sys_x")
    halves = len(stage.topics.read(stage.topics.names.half))
    with stage.started(stage.unique("group")) as program:
        for name in (*system, "", "a" * 128, "with space", "a%b"):
            refuses_to_send(program, stage, PlannedSend(name, b"1"), {"invalid"})
        refuses_to_send(
            program, stage, PlannedSend(stage.unique("no"), b"1"), {"missing", "not_stored"}
        )
        for name in sorted(names.RESERVED_PROPERTIES | names.TIMER_PROPERTIES):
            order = PlannedSend(topic, b"1", properties=[(name, b"1")])
            refuses_to_send(program, stage, order, {"invalid"})
        for properties in (
            [("", b"1")],
            [("a\0b", b"1")],
            [("CHECK_IMMUNITY_TIME_IN_SECONDS", b"x")],
        ):
            refuses_to_send(
                program, stage, PlannedSend(topic, b"1", properties=properties), {"invalid"}
            )
        refuses_to_send(program, stage, PlannedSend(topic, b""), {"invalid"})
        refuses_to_send(program, stage, PlannedSend(topic, None), {"invalid"})
        refuses_to_send(program, stage, PlannedSend(topic, b"1", queue_id=-1), {"invalid"})
    require_equal(len(stage.topics.read(stage.topics.names.half)), halves, "the number of halves")


def delay_is_taken_off(stage: Stage) -> None:
    """RocketMQ's DELAY does not reach the half: a transaction can't be delayed."""
    with stage.started(stage.unique("group")) as program:
        order = PlannedSend(stage.real_topic(), b"late", properties=[("DELAY", b"3")])
        record = stage.half(stage.send(program, order))
    found = [name for name, _ in record.headers() or []]
    require(names.DELAY not in found, f"the half has the headers {found}")


def unusable_groups_are_refused(stage: Stage) -> None:
    """A start refuses groups that give no name for a check topic, and a prefix without topics."""
    for group in ("DEFAULT_PRODUCER", "", "a" * 121, "with space"):
        _refuses_to_start(stage, stage.options(group))
    options = stage.options(stage.unique("group"))
    _refuses_to_start(stage, {**options, "topic_prefix": "no-such-prefix-"})


def _refuses_to_start(stage: Stage, options: dict[str, object]) -> None:
    program = stage.program()
    try:
        program.start(**options)
    except SendFailedError:
        return
    finally:
        program.end()
    raise FailedError(f"the client started with {options}")


def status_is_followed(stage: Stage) -> None:
    """A client refuses to send while the pipeline says that it refuses, at its start and later."""
    topic, group = stage.real_topic(), stage.unique("group")

    def say(rejects: bool) -> None:
        status = PipelineStatus(rejects, CHECK_INTERVAL_MS, int(time.time() * 1000))
        stage.topics.send_raw(stage.topics.names.status, status.to_json(), [], 0, STATUS_KEY)

    say(rejects=True)
    with stage.started(group) as program:
        refuses_to_send(program, stage, PlannedSend(topic, b"1"), {"refused"})
        say(rejects=False)

        def is_taken() -> bool:
            try:
                stage.send(program, PlannedSend(topic, b"2"))
            except SendFailedError as error:
                require_equal(error.kind, "refused", "the error")
                return False
            return True

        wait_for(is_taken, "a send after the status changed", 20)
        say(rejects=True)
        wait_for(lambda: not is_taken(), "a refusal after the status changed", 20)
        stage.topics.send_raw(stage.topics.names.status, b"{not JSON", [], 0, STATUS_KEY)
        time.sleep(2)
        refuses_to_send(program, stage, PlannedSend(topic, b"3"), {"refused"})
        say(rejects=False)
