"""The exactly-once sink against a real broker, without Spark: one writer is one task."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from tests.integration.bad_records import bodies, make_topic, refused, set_config
from tests.integration.sinking import World, commits, delete_topic, outcome

from checkback.protocol.properties import text_value
from checkback.protocol.refusals import RefusedReason
from checkback.sinks.kafka.read.record_reader import RecordReader
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.kafka.transaction.marker import Marker, MarkerStore
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.state import Action


def test_a_committed_half_becomes_final_with_its_key_body_and_own_properties(world: World) -> None:
    world.halves([b"zero", b"one"])

    world.writer().write([commits(1)], 0)

    [(key, body, headers)] = world.read(world.real)
    assert (key, body) == (b"k1", b"one")
    assert dict(headers) == {
        "TAGS": b"t",
        "mine": b"yes",
        "PGROUP": b"g",
        "UNIQ_KEY": b"id-1",
        "TRAN_PREPARED_QUEUE_OFFSET": b"1",
        "TRAN_HALF_QUEUE_ID": b"0",
    }


def test_a_restart_does_not_wait_for_a_task_that_was_killed_with_its_marker_moved(
    world: World,
) -> None:
    """Only the restart can end that transaction; it used to wait for it, for half a minute."""
    world.halves([b"a"])
    world.writer().write([], 0)
    settings = replace(world.settings, transaction_timeout_ms=60_000)
    killed = MarkedProducer(settings, 0)
    killed.begin()
    killed._send_offset(killed._markers.offset(0, Marker(7, 0)), killed._markers.group_metadata())
    begun_s = time.monotonic()

    taken = begin_epoch(settings, 2, [0], 0)

    assert time.monotonic() - begun_s < 25
    store = MarkerStore(taken)
    assert {key: (one.next_batch, one.epoch) for key, one in store.read([0, 1]).items()} == {
        0: (1, 1), 1: (0, 1),
    }  # fmt: skip
    store.close()


def test_a_missing_real_topic_is_refused_and_holds_nothing_up(world: World) -> None:
    world.halves([b"a", b"b"])
    world.halves([b"lost"], real=f"{world.real}-nowhere")

    report = world.writer().write([commits(0, 1, 2)], 0)

    assert report.counts["finals"] == 2
    assert report.counts["finals_refused"] == 1
    [(body, facts)] = refused(world)
    assert (body, facts["reason"], facts["offset"]) == (b"lost", "REAL_TOPIC_MISSING", "2")
    [(_, _, headers)] = world.read(world.names.refused)
    assert text_value(headers, "REAL_TOPIC") == f"{world.real}-nowhere"


def test_a_limit_lowered_behind_our_back_is_learnt_from_the_rejection(world: World) -> None:
    small = make_topic(world, "lowered")
    world.halves([b"x" * 500, b"y" * 50_000, b"z" * 500], real=small)
    writer = world.writer()
    writer.directory.find(small)
    set_config(world, small, max_message_bytes="2000")

    report = writer.write([commits(0, 1, 2)], 0)

    assert [facts["reason"] for _, facts in refused(world)] == ["FINAL_TOO_LARGE"]
    assert [body[:1] for body in bodies(world, small)] == [b"x", b"z"]
    assert report.counts["finals"] == 2


@pytest.mark.parametrize("looked_before", [False, True])
def test_a_keyless_final_for_a_compacted_topic_is_refused_alone(
    world: World, *, looked_before: bool
) -> None:
    compacted = make_topic(world, "compacted")
    writer = world.writer()
    if looked_before:
        writer.directory.find(compacted)
    set_config(world, compacted, cleanup_policy="compact")
    world.halves([b"a", b"b"], real=compacted)
    world.halves([b"keyless"], real=compacted, keyed=False)
    world.halves([b"c"], real=compacted)

    report = writer.write([commits(0, 1, 2, 3)], 0)

    assert report.counts["finals"] == 3
    assert bodies(world, compacted) == [b"a", b"b", b"c"]
    [(body, facts)] = refused(world)
    assert (body, facts["reason"]) == (b"keyless", "FINAL_REJECTED")


def test_a_topic_deleted_behind_our_back_is_refused(world: World) -> None:
    world.halves([b"a", b"b"])
    writer = world.writer()
    writer.write([commits(0)], 0)
    delete_topic(world.settings.connection, world.real)

    report = writer.write([commits(1)], 1)

    assert report.counts["finals_refused"] == 1
    assert bodies(world, world.names.refused) == [b"b"]


def test_a_check_without_a_check_topic_is_told_to_the_state(world: World) -> None:
    world.halves([b"a"], group="nobody")

    report = world.writer().write([outcome((Action.CHECK, 0, 2))], 0)

    assert report.undelivered_groups == {"nobody": 1}
    [(_, value, headers)] = world.read(world.names.feedback)
    assert value == b"0"
    assert dict(headers) == {"TAGS": b"u", "TRANSACTION_CHECK_TIMES": b"2"}


def test_discards_and_refusals_keep_the_record_and_say_why(world: World) -> None:
    world.halves([b"a", b"b"])
    code = int(RefusedReason.HALF_WITHOUT_GROUP)

    decided = outcome((Action.DISCARD_CHECK_LIMIT, 0, 15), (Action.REFUSE_HALF, 1, code))
    world.writer().write([decided], 0)

    [(_, body, headers)] = world.read(world.names.discarded)
    assert body == b"a"
    assert text_value(headers, "__checkback.discarded.reason") == "check limit"
    assert text_value(headers, "TRANSACTION_CHECK_TIMES") == "15"
    [(body, facts)] = refused(world)
    assert (body, facts["reason"]) == (b"b", "HALF_WITHOUT_GROUP")


def test_a_reading_that_was_given_up_loses_nothing_for_the_next_try(world: World) -> None:
    world.halves([b"%d" % number for number in range(40)])
    reader = RecordReader(dict(world.settings.connection), world.names.half)
    wanted = np.arange(40, dtype=np.int64)

    given_up = reader.read(0, wanted)
    assert [next(given_up)[0] for _ in range(20)] == list(range(20))
    found = [message for _, message in reader.read(0, wanted)]
    reader.close()

    assert [message and message.value() for message in found] == [b"%d" % one for one in range(40)]
