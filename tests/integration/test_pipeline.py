"""The whole pipeline as users run it: a process over a real broker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.running import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Pipeline,
    Topics,
    wait_until,
)

from checkback.bench.event_log import event_log_settings
from checkback.protocol.properties import text_value
from checkback.streaming.query import READ_TASKS_PER_STATE_PARTITION


@pytest.fixture
def topics(bootstrap_servers: str, unique: str) -> Topics:
    return Topics(bootstrap_servers, unique)


def test_every_verdict_ends_where_it_belongs(topics: Topics, tmp_path: Path) -> None:
    settings = topics.settings(tmp_path / "checkpoint")
    names, real = topics.names, f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    committed = topics.send_half(b"committed", real, key=b"k")
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(committed, "committed", COMMIT)
    topics.send_op(committed, "committed", ROLLBACK)
    rolled_back = topics.send_half(b"rolled back", real, partition=1)
    topics.send_op(rolled_back, "rolled back", ROLLBACK)
    asked = topics.send_half(b"asked", real)
    topics.send_op(asked, "asked", UNKNOWN)
    topics.send_half(b"silent", real)
    early = (1, rolled_back[1] + 1)
    topics.send_op(early, "early", COMMIT)
    topics.send_op(asked, "somebody else's", COMMIT)
    topics.send_op(asked, "asked", COMMIT, group="other")

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        assert topics.send_half(b"early", real, partition=1) == early
        wait_until(lambda: topics.bodies(real) == ["committed", "early"], what="finals")
        wait_until(lambda: "asked" in topics.bodies(names.check("g")), what="a check request")
        topics.send_op(asked, "asked", COMMIT)
        wait_until(
            lambda: topics.bodies(names.discarded) == ["silent"],
            what=f"a discard: {pipeline.drain()}",
        )
        assert pipeline.terminate() == 0
        stopped = pipeline.wait_for("stopped")

    assert topics.bodies(real) == ["asked", "committed", "early"]
    assert topics.reasons() == [
        "OP_GROUP_WRONG", "OP_TRANSACTION_ID_WRONG", "ROLLBACK_AFTER_COMMIT",
    ]  # fmt: skip
    times = [
        text_value(message.headers() or [], "TRANSACTION_CHECK_TIMES")
        for message in topics.read(names.check("g"))
        if message.value() == b"silent"
    ]
    assert times == ["1", "2", "3"]
    assert stopped["finals"] == 3
    lines = [event for event in pipeline.events if event["event"] == "progress"]
    assert ["g"] in [line["groups_without_members"] for line in lines]


def test_a_few_tasks_read_many_partitions(topics: Topics, tmp_path: Path) -> None:
    topics.half_partitions = 4
    log = tmp_path / "events"
    log.mkdir()
    plain = topics.settings(tmp_path / "checkpoint", state_partitions=1)
    settings = replace(plain, spark={**plain.spark, **event_log_settings(log)})
    real = f"{topics.prefix}orders"
    topics.create(settings, [real])
    for partition in range(4):
        topics.send_op(topics.send_half(b"h", real, partition=partition), "h", COMMIT)

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: topics.bodies(real) == ["h"] * 4, what="finals")
        assert pipeline.terminate() == 0

    (file,) = log.iterdir()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    tasks = [
        event["Stage Info"]["Number of Tasks"]
        for event in events
        if event["Event"] == "SparkListenerStageCompleted"
    ]
    assert max(tasks) == READ_TASKS_PER_STATE_PARTITION


def test_records_that_make_no_sense_are_refused_and_nothing_stops(
    topics: Topics, tmp_path: Path
) -> None:
    settings = topics.settings(tmp_path / "checkpoint")
    names, real = topics.names, f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    tran = ("TRAN_MSG", b"true")
    group, unique_key, to = ("PGROUP", b"g"), ("UNIQ_KEY", b"u"), ("REAL_TOPIC", real.encode())
    topics.send_raw(names.half, b"no headers", None)
    topics.send_raw(names.half, b"no group", [tran, unique_key, to])
    topics.send_raw(names.half, b"no id", [tran, group, to])
    topics.send_raw(names.half, b"no topic", [tran, group, unique_key])
    topics.send_raw(names.half, b"system", [tran, group, unique_key, ("REAL_TOPIC", b"__x")])
    topics.send_raw(names.half, b"nowhere", [tran, group, unique_key, ("REAL_TOPIC", b"a b\xff")])
    topics.send_op((0, 5), "u", COMMIT)
    op = [("TAGS", b"d"), ("COMMIT_OR_ROLLBACK", b"8"), group, unique_key]
    topics.send_raw(names.op, b"twelve", op)
    topics.send_raw(names.op, b"-1", op)
    topics.send_raw(names.op, None, op)
    topics.send_raw(names.op, b"0", [])
    topics.send_raw(names.op, b"0", [("TAGS", b"\xff\xfe")])
    topics.send_raw(
        names.op, b"0", [("TAGS", b"d"), ("COMMIT_OR_ROLLBACK", b"9"), group, unique_key]
    )
    topics.send_raw(names.op, b"0", [("TAGS", b"d"), ("COMMIT_OR_ROLLBACK", b"8"), unique_key])
    topics.send_raw(names.op, b"0", [("TAGS", b"d"), ("COMMIT_OR_ROLLBACK", b"8"), group])
    by_name = [("mine", b"1"), to, unique_key, group, tran]
    at = topics.send_raw(names.half, b"by name", by_name, 1)
    topics.send_raw(names.op, b"%d" % at[1], list(reversed(op)), 1)

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: topics.bodies(real) == ["by name"], what="the good one")
        wait_until(lambda: len(topics.reasons()) == 14, what="all refusals")
        assert pipeline.terminate() == 0

    assert topics.reasons() == sorted(
        [
            "NOT_A_HALF",
            "HALF_WITHOUT_GROUP",
            "HALF_WITHOUT_TRANSACTION_ID",
            "HALF_WITHOUT_REAL_TOPIC",
            "HALF_FOR_SYSTEM_TOPIC",
            "REAL_TOPIC_MISSING",
            *["OP_OFFSET_UNREADABLE"] * 3,
            *["OP_TAG_UNKNOWN"] * 2,
            "OP_STATE_UNKNOWN",
            "OP_WITHOUT_GROUP",
            "OP_WITHOUT_TRANSACTION_ID",
        ]
    )
    untouched = {message.value(): message.headers() for message in topics.read(names.refused)}
    assert untouched[b"no group"] is not None
    assert untouched[b"no group"][:3] == [tran, unique_key, to]


def test_killed_at_any_moment_every_committed_half_is_final_once(
    topics: Topics, tmp_path: Path
) -> None:
    settings = topics.settings(
        tmp_path / "checkpoint", transaction_timeout_ms=60_000, batch_events_max=150
    )
    real = f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    expected = []
    pipeline = Pipeline(settings, tmp_path)
    for round_number, alive_s in enumerate((0.3, 0.9, 1.7)):
        pipeline.start()
        pipeline.wait_for("started")
        for number in range(120):
            name = f"{round_number}-{number:03}"
            at = topics.send_half(name.encode(), real, partition=number % 2)
            topics.send_op(at, name, COMMIT if number % 5 else ROLLBACK)
            if number % 5:
                expected.append(name)
        _sleep_of_a_victim(alive_s)
        pipeline.kill(driver_only=round_number == 1)

    with pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: len(topics.bodies(real)) >= len(expected), what="all finals")
        assert pipeline.terminate() == 0

    assert topics.bodies(real) == sorted(expected)


def _sleep_of_a_victim(seconds: float) -> None:
    """Let the job run into the middle of something: here the moment is the test's input."""
    import time

    time.sleep(seconds)
