"""The doctor's findings for given facts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.operations.records import record

from checkback.deploy.topics import FoundTopic, comparable_plans
from checkback.operations.doctor.broker_checks import refused_reasons
from checkback.operations.doctor.judgements import (
    GroupFacts,
    Result,
    judge_check_times,
    judge_clock,
    judge_group,
    judge_refused,
    judge_relays,
    judge_replicas,
    judge_retention,
    judge_rights,
    judge_share_groups,
    judge_topics,
    judge_unread,
)
from checkback.operations.topics.position import Position
from checkback.protocol.configuration import Settings
from checkback.protocol.properties import RESEND
from checkback.protocol.refusals import RefusedReason, refused_headers
from checkback.protocol.topics import DAY_MS

SETTINGS = Settings(state_partitions=2)
PLANS = comparable_plans(SETTINGS)
NAMES = SETTINGS.topics


def as_planned() -> dict[str, FoundTopic]:
    return {plan.name: FoundTopic(plan.partitions or 1, 1, plan.configs) for plan in PLANS}


def results(found: dict[str, FoundTopic]) -> dict[str, Result]:
    return {one.check: one.result for one in judge_topics(PLANS, found, NAMES)}


def test_a_difference_warns_and_one_that_loses_records_fails() -> None:
    found = as_planned()
    refused, half = found[NAMES.refused], found[NAMES.half]
    found[NAMES.refused] = replace(refused, configs={**refused.configs, "retention.ms": "5"})
    found[NAMES.half] = replace(half, configs={**half.configs, "cleanup.policy": "compact"})

    told = results(found)

    assert told[f"topic {NAMES.refused}"] is Result.WARNING
    assert told[f"topic {NAMES.half}"] is Result.FAILED


def test_settings_that_the_user_may_not_see_are_not_called_wrong() -> None:
    """`cleanup.policy is , wanted delete` failed, and was to be changed."""
    found = {name: replace(one, configs={}) for name, one in as_planned().items()}
    found[NAMES.status] = FoundTopic(0, 0, {})

    told = judge_topics(PLANS, found, NAMES)

    assert {one.result for one in told} == {Result.WARNING}
    assert all("may not see" in one.says and "Grant DESCRIBE" in one.remedy for one in told)
    retention = judge_retention(SETTINGS, found[NAMES.half], DAY_MS)
    assert (retention.result, "for ever" in retention.says) == (Result.WARNING, False)


def test_more_partitions_than_planned_warn_fewer_fail_and_unequal_ones_fail() -> None:
    found = as_planned()
    found[NAMES.half] = replace(found[NAMES.half], partitions=8)
    found[NAMES.settled] = replace(found[NAMES.settled], partitions=1)

    told = results(found)

    assert told[f"topic {NAMES.half}"] is Result.WARNING
    assert told[f"topic {NAMES.settled}"] is Result.FAILED
    assert told["partitions"] is Result.FAILED


@pytest.mark.parametrize(
    ("retention_ms", "result"),
    [("-1", Result.OK), (str(DAY_MS), Result.OK), (str(DAY_MS - 1), Result.FAILED)],
)
def test_a_half_must_be_kept_for_as_long_as_it_may_be_pending(
    retention_ms: str, result: Result
) -> None:
    half = FoundTopic(4, 1, {"retention.ms": retention_ms})

    assert judge_retention(SETTINGS, half, DAY_MS).result is result


@pytest.mark.parametrize(
    ("appended_ms", "result", "says"),
    [
        (10_050, Result.OK, "at most 100ms"),
        (10_000 - 1_000, Result.OK, "at most 100ms"),
        (10_000 - 2_000, Result.WARNING, "2s ahead of the broker's"),
        (10_100 + 3_000, Result.WARNING, "3s behind the broker's"),
        (10_100 + 61_000, Result.FAILED, "1m1s behind the broker's"),
    ],
)
def test_clocks_that_differ_are_told(appended_ms: int, result: Result, says: str) -> None:
    finding = judge_clock(10_000, appended_ms, 10_100)

    assert finding.result is result
    assert says in finding.says


def test_a_missing_right_is_named() -> None:
    assert judge_rights("x", ["READ", "WRITE"], ["READ", "WRITE", "DESCRIBE"]).result is Result.OK
    assert judge_rights("x", ["READ"], ["ALL"]).result is Result.OK
    finding = judge_rights("x", ["READ", "WRITE"], ["READ"])
    assert (finding.result, finding.says) == (Result.FAILED, "missing: WRITE")


@pytest.mark.parametrize(
    ("facts", "result", "says"),
    [
        (GroupFacts("g", 3, 60_000, True, 2), Result.OK, "live members: 2"),
        (GroupFacts("g", 3, 60_000, True, 2, 1), Result.WARNING, "1 asked about more than once"),
        (GroupFacts("g", 3, 60_000, True, 0), Result.WARNING, "no live member"),
        (GroupFacts("g", 3, 60_000, False, 0), Result.WARNING, "no check topic"),
        (GroupFacts("g", 3, 60_000, True, None), Result.WARNING, "members are not known"),
        (GroupFacts("g", 3, 60_000, True, 2, 0, "TOO_LARGE"), Result.WARNING, "delivered: TOO"),
        (GroupFacts("", 3, 60_000, False, 0), Result.FAILED, "gone from their topic"),
    ],
)
def test_a_group_that_nobody_answers_for_is_told(
    facts: GroupFacts, result: Result, says: str
) -> None:
    finding = judge_group(facts)

    assert finding.result is result
    assert says in finding.says
    assert "3 pending, the oldest for 1m" in finding.says


@pytest.mark.parametrize(
    ("check_max", "interval_ms", "result"),
    [(10, 10_000, Result.OK), (9, 10_000, Result.WARNING), (0, 60_000, Result.WARNING)],
)
def test_checks_that_are_over_within_a_few_session_timeouts_are_told(
    check_max: int, interval_ms: int, result: Result
) -> None:
    """A process that crashed in a loop took all checks of committed halves, one after the other."""
    settings = Settings(check_max=check_max, check_interval_ms=interval_ms)

    finding = judge_check_times(settings)

    assert finding.result is result
    assert ("be 10 session timeouts" in finding.remedy) is (result is Result.WARNING)


def test_refused_records_are_counted_by_reason_the_most_frequent_first() -> None:
    none = judge_refused({}, "refused", 100)
    some = judge_refused({"HALF_LOST": 1, "REAL_TOPIC_MISSING": 7}, "refused", 100)
    many = judge_refused({"HALF_LOST": 100}, "refused", 100)

    assert none.result is Result.OK
    assert some.result is Result.WARNING
    assert some.says == "8 in the last day and not sent again: REAL_TOPIC_MISSING 7, HALF_LOST 1"
    assert many.says == "at least 100 in the last day and not sent again: HALF_LOST 100"


def test_why_a_record_was_refused_is_what_the_pipeline_says() -> None:
    """A tenant's record brings headers of its own; a note about a resend is no refused record."""
    planted = [("__checkback.errors.reason", b"ALL IS WELL")]
    hostile = refused_headers(planted, RefusedReason.SIGNATURE_WRONG, NAMES.half, 0, 7)
    honest = refused_headers([], RefusedReason.HALF_LOST, NAMES.half, 0, 8)
    note = [(RESEND.target, b"orders:0:3"), (RESEND.operator, b"o"), (RESEND.reason, b"r")]

    headers = (note, hostile, honest, honest)
    found = [record(NAMES.refused, one, at=Position(0, at)) for at, one in enumerate(headers)]

    assert refused_reasons(found, most=2) == {"SIGNATURE_WRONG": 1, "HALF_LOST": 1}


def test_a_refused_final_that_was_sent_again_warns_nobody_any_more() -> None:
    missing = refused_headers([], RefusedReason.REAL_TOPIC_MISSING, NAMES.half, 0, 7)
    note = [(RESEND.source, b"0:4"), (RESEND.target, b"orders:0:3")]
    headers = {4: missing, 5: missing, 6: note}
    found = [record(NAMES.refused, one, at=Position(0, at)) for at, one in headers.items()]

    assert refused_reasons(found, most=9) == {"REAL_TOPIC_MISSING": 1}


@pytest.mark.parametrize(
    ("short", "result"),
    [
        ({}, Result.OK),
        ({"payments": "partition 0 has no leader"}, Result.WARNING),
        ({"payments": "partition 0 has no leader", NAMES.settled: "x"}, Result.FAILED),
    ],
)
def test_topics_that_lack_replicas_are_named_and_fail_where_the_pipeline_needs_them(
    short: dict[str, str], result: Result
) -> None:
    found = judge_replicas(short, {plan.name for plan in PLANS})

    assert found.result is result
    assert all(f"{topic} ({lack})" in found.says for topic, lack in short.items())


def test_what_is_unread_is_told_and_warned_of_once_it_is_old() -> None:
    read = judge_unread({"half": 0, "op": 0}, None, 2_000, 60_000)
    young = judge_unread({"half": 7, "op": 0}, 60_000, 2_000, 60_000)
    old = judge_unread({"half": 1_200, "op": 3}, 75_000, 2_000, 60_000)
    late = judge_unread({"half": 0}, None, 61_000, 60_000)

    assert (read.result, read.says) == (Result.OK, "none; the last batch is 2s old")
    assert young.result is Result.OK
    assert old.result is late.result is Result.WARNING
    assert old.says == "1,200 on half, 3 on op, the oldest for 1m15s; the last batch is 2s old"
    assert "CheckbackUnread" in old.remedy


def test_share_groups_that_read_aborted_messages_are_named_with_the_command() -> None:
    levels = {"safe": "read_committed", "mails": "read_uncommitted", "other": ""}
    mails, other = judge_share_groups(levels, "b:9092")

    assert mails.result is other.result is Result.WARNING
    assert (
        mails.says == "mails reads aborted messages, too: share.isolation.level is read_uncommitted"
    )
    assert (
        "`kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type groups --entity-name"
        " mails --add-config share.isolation.level=read_committed`" in mails.remedy
    )
    assert other.says == "share.isolation.level may not be seen of: other"
    assert [one.result for one in judge_share_groups({}, "b:9092")] == [Result.OK]


@pytest.mark.parametrize(
    ("members", "result"), [(2, Result.OK), (0, Result.FAILED), (None, Result.WARNING)]
)
def test_without_a_relay_that_the_job_needs_doctor_names_the_command(
    members: int | None, result: Result
) -> None:
    told = judge_relays(members)

    assert told.result is result
    assert ("checkback relay" in told.remedy) is (members == 0)
