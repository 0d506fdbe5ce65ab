"""The whole pipeline as users run it: a process over a real broker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from bench.runs.batches import event_log_settings
from tests.integration.running import COMMIT, ROLLBACK, UNKNOWN, Topics, deployed, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.protocol.properties import text_value
from checkback.streaming.job.query import READ_TASKS_PER_STATE_PARTITION


def test_every_verdict_ends_where_it_belongs(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    names = topics.names
    settings, real = deployed(topics, tmp_path)
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

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
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


TRAN, GROUP, ID = ("TRAN_MSG", b"true"), ("PGROUP", b"g"), ("UNIQ_KEY", b"u")
REMOVE, COMMITS = ("TAGS", b"d"), ("COMMIT_OR_ROLLBACK", b"8")
OP = [REMOVE, COMMITS, GROUP, ID]
OPS_WITHOUT_SENSE: list[tuple[bytes | None, list[tuple[str, bytes]], str]] = [
    (b"twelve", OP, "OP_OFFSET_UNREADABLE"),
    (b"-1", OP, "OP_OFFSET_UNREADABLE"),
    (None, OP, "OP_OFFSET_UNREADABLE"),
    (b"0", [], "OP_TAG_UNKNOWN"),
    (b"0", [("TAGS", b"\xff\xfe")], "OP_TAG_UNKNOWN"),
    (b"0", [REMOVE, ("COMMIT_OR_ROLLBACK", b"9"), GROUP, ID], "OP_STATE_UNKNOWN"),
    (b"0", [REMOVE, COMMITS, ID], "OP_WITHOUT_GROUP"),
    (b"0", [REMOVE, COMMITS, GROUP], "OP_WITHOUT_TRANSACTION_ID"),
]


def send_records_without_sense(topics: Topics, to: tuple[str, bytes]) -> list[str]:
    """Send what no client of ours sends; return the reasons why it has to be refused."""
    halves = [
        (b"no headers", None, "NOT_A_HALF"),
        (b"no group", [TRAN, ID, to], "HALF_WITHOUT_GROUP"),
        (b"no id", [TRAN, GROUP, to], "HALF_WITHOUT_TRANSACTION_ID"),
        (b"no topic", [TRAN, GROUP, ID], "HALF_WITHOUT_REAL_TOPIC"),
        (b"system", [TRAN, GROUP, ID, ("REAL_TOPIC", b"__x")], "HALF_FOR_SYSTEM_TOPIC"),
        (b"nowhere", [TRAN, GROUP, ID, ("REAL_TOPIC", b"a b\xff")], "REAL_TOPIC_MISSING"),
    ]
    places = [topics.send_raw(topics.names.half, body, headers) for body, headers, _ in halves]
    topics.send_op(places[-1], "u", COMMIT)
    for value, headers, _ in OPS_WITHOUT_SENSE:
        topics.send_raw(topics.names.op, value, headers)
    return sorted(reason for *_, reason in [*halves, *OPS_WITHOUT_SENSE])


def test_records_that_make_no_sense_are_refused_and_few_tasks_read_all_partitions(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    topics.half_partitions = 4
    log = tmp_path / "events"
    log.mkdir()
    plain = topics.settings(tmp_path / "checkpoint", state_partitions=1)
    settings = replace(plain, spark={**plain.spark, **event_log_settings(log)})
    names, real = topics.names, f"{topics.prefix}orders"
    topics.create(settings, [real], ["g"])
    to = ("REAL_TOPIC", real.encode())
    reasons = send_records_without_sense(topics, to)
    for partition in range(1, 4):
        headers = [("mine", b"1"), to, ID, GROUP, TRAN]
        at = topics.send_raw(names.half, b"by name", headers, partition)
        topics.send_raw(names.op, b"%d" % at[1], list(reversed(OP)), partition)

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: topics.bodies(real) == ["by name"] * 3, what="the good ones")
        wait_until(lambda: len(topics.reasons()) == len(reasons), what="all refusals")
        assert pipeline.terminate() == 0

    assert topics.reasons() == reasons
    untouched = {message.value(): message.headers() for message in topics.read(names.refused)}
    assert untouched[b"no group"] is not None
    assert untouched[b"no group"][:3] == [TRAN, ID, to]
    assert most_tasks_of_a_stage(log) == READ_TASKS_PER_STATE_PARTITION


def most_tasks_of_a_stage(log: Path) -> int:
    """Return how many tasks the widest stage of a run had, by Spark's event log."""
    (file,) = log.iterdir()
    events = [json.loads(line) for line in file.read_text().splitlines()]
    return max(
        int(event["Stage Info"]["Number of Tasks"])
        for event in events
        if event["Event"] == "SparkListenerStageCompleted"
    )
