"""Direct delivery on a real broker and job: nothing is there twice, nor though it was given up."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from tests.integration.direct_sessions import GROUP, DirectHalf, DirectSession
from tests.integration.running import COMMIT, ROLLBACK, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.protocol.properties import (
    DIRECT_CLOSED,
    DIRECT_ID,
    OP_TAG_FENCED,
    TAGS,
    TRANSACTION_NOT_TYPE,
    text_value,
)
from checkback.sinks.kafka.sessions import fence_session
from checkback.state import Mark, unpack_settled


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique)


def marks(topics: Topics, half: DirectHalf) -> list[Mark]:
    """Return the marks of a half."""
    found = [
        unpack_settled(record.value() or b"")
        for record in topics.read(topics.names.settled)
        if (record.key() or b"").startswith(b"%d:" % half.partition)
    ]
    return [
        Mark(mark)
        for one in found
        for offset, mark in zip(one.offset.tolist(), one.mark.tolist(), strict=True)
        if offset == half.offset and mark != Mark.ASKED
    ]


def fences_told(topics: Topics) -> int:
    records = topics.read(topics.names.direct_op)
    return sum(text_value(one.headers() or [], TAGS) == OP_TAG_FENCED for one in records)


def sessions_asked(topics: Topics) -> dict[bytes, str]:
    """Return, for each half that was asked about, the session that its requests say is closed."""
    return {
        one.value() or b"": text_value(one.headers() or [], DIRECT_CLOSED) or ""
        for one in topics.read(topics.names.check(GROUP))
    }


def test_what_a_producer_delivered_is_settled_and_not_written_again(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    settings = topics.settings(tmp_path / "checkpoint", check_max=1_000)
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], [GROUP])
    session = DirectSession(topics)
    delivered = [session.half(b"d%d" % at, real, at % 2) for at in range(6)]
    session.deliver(*delivered[:3])
    session.deliver(*delivered[3:])
    plain = topics.send_half(b"plain", real)
    topics.send_op(plain, "plain", COMMIT)
    rolled_back = session.half(b"rolled back", real)
    session.say(rolled_back, ROLLBACK)
    fallback = session.half(b"fallback", real)
    session.say(fallback, COMMIT)
    broken = session.half(b"broken", real)
    session.say(broken, ROLLBACK)
    session.deliver(broken)
    guarded = session.half(b"guarded", real, 1)
    topics.send_op((guarded.partition, guarded.offset), "guarded", COMMIT)
    undecided = session.half(b"undecided", real)
    session.say(undecided, TRANSACTION_NOT_TYPE)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: {"plain", "fallback"} <= {*topics.bodies(real)}, what="the other finals")
        wait_until(lambda: topics.reasons(), what="a refused op")
        wait_until(lambda: all(marks(topics, half) for half in delivered), what="marks")
        # Nobody fenced: the word of an old client is no verdict.
        wait_until(lambda: {*sessions_asked(topics)} == {b"guarded", b"undecided"}, what="checks")
        for half in (guarded, undecided):
            session.say(half, ROLLBACK)
        wait_until(lambda: marks(topics, guarded) and marks(topics, undecided), what="the answers")
        assert pipeline.terminate() == 0
        stopped = pipeline.wait_for("stopped")

    assert sessions_asked(topics) == {b"guarded": "", b"undecided": session.name}
    bodies = ["broken", *(half.body.decode() for half in delivered), "fallback", "plain"]
    assert topics.bodies(real) == sorted(bodies)
    assert [marks(topics, half) for half in delivered] == [[Mark.DELIVERED]] * 6
    assert marks(topics, rolled_back) == marks(topics, guarded) == [Mark.ROLLBACK]
    assert marks(topics, fallback) == [Mark.COMMIT]
    assert topics.reasons() == ["DELIVERED_AFTER_ROLLBACK"]
    assert stopped["finals"] == 2


def test_a_producer_that_hangs_in_its_transaction_delivers_nothing_that_others_decided(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    settings = topics.settings(tmp_path / "checkpoint", check_max=8)
    names, real = topics.names, f"{topics.prefix}orders"
    topics.create(settings, [real], [GROUP])
    # While a transaction is open, nothing is concluded from silence, nor is the half given up.
    hanging, forgotten = DirectSession(topics), DirectSession(topics, timeout_ms=5_000)
    answered = hanging.half(b"answered", real)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: "answered" in topics.bodies(names.check(GROUP)), what="a check request")
        [asked] = [one for one in topics.read(names.check(GROUP)) if one.value() == b"answered"][:1]
        session = text_value(asked.headers() or [], DIRECT_ID) or ""
        assert session == hanging.name
        hanging.begin([answered])
        fence_session(topics.connection, names.half, session, 30.0)
        hanging.say(answered, COMMIT)
        wait_until(lambda: "answered" in topics.bodies(real), what="the final")
        given_up = forgotten.half(b"given up", real, 1)
        forgotten.begin([given_up])
        wait_until(
            lambda: topics.bodies(names.discarded) == ["given up"],
            what=f"a discard: {pipeline.drain()}",
        )
        for zombie in (hanging, forgotten):
            with pytest.raises(KafkaException):
                zombie.commit()
        assert pipeline.terminate() == 0
        stopped = pipeline.wait_for("stopped")

    assert topics.bodies(real) == ["answered"]
    assert marks(topics, given_up) == [Mark.DISCARD_CHECK_LIMIT]
    assert fences_told(topics) >= 1
    assert topics.reasons() == []
    assert stopped["finals"] == 1
