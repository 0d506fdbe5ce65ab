"""What is unread, told from look to look by the brokers' ends, whatever the query says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.test_stalls import Brokers

from checkback.protocol.configuration import Settings
from checkback.streaming.reports.progress import Progress
from checkback.streaming.reports.progress_text import is_quiet, progress_text
from checkback.streaming.reports.stalls import InputWatch
from checkback.streaming.reports.unread import ENDS_KEPT_MAX, Unread, UnreadHistory

HALF, OTHER, OP = ("half", 0), ("half", 1), ("op", 0)


def test_the_oldest_unread_record_ages_from_the_look_that_found_it() -> None:
    history = UnreadHistory()

    history.note({HALF: 5}, {HALF: 7}, 100)
    history.note({HALF: 5}, {HALF: 9}, 105)
    stands = history.note({HALF: 5}, {HALF: 9}, 130)
    goes_on = history.note({HALF: 7}, {HALF: 9}, 140)
    done = history.note({HALF: 9}, {HALF: 9}, 150)

    assert stands == [Unread("half", 4, oldest_s=30, still_s=30)]
    assert goes_on == [Unread("half", 2, oldest_s=35, still_s=0)]
    assert done == [Unread("half", 0)]


def test_one_partition_that_stands_is_seen_beside_others_that_go_on() -> None:
    history = UnreadHistory()

    history.note({HALF: 5, OTHER: 1, OP: 3}, {HALF: 6, OTHER: 9, OP: 3}, 100)
    found = history.note({HALF: 5, OTHER: 8, OP: 3}, {HALF: 6, OTHER: 9, OP: 3}, 160)

    assert found == [Unread("half", 2, oldest_s=60, still_s=60), Unread("op", 0)]


def test_quiet_before_a_record_comes_is_no_standing_still() -> None:
    history = UnreadHistory()

    history.note({HALF: 5}, {HALF: 5}, 100)
    assert history.note({HALF: 5}, {HALF: 6}, 1_000) == [Unread("half", 1)]


def test_of_a_partition_of_which_nothing_is_known_nothing_is_told() -> None:
    assert UnreadHistory().note({}, {HALF: 5}, 100) == []


def test_a_topic_that_shrank_is_not_behind() -> None:
    assert UnreadHistory().note({HALF: 9}, {HALF: 5}, 100) == [Unread("half", 0)]


def test_a_partition_that_is_not_read_for_weeks_takes_no_more_memory() -> None:
    history = UnreadHistory()
    found = Unread("half", 0)
    for look in range(20 * ENDS_KEPT_MAX):
        [found] = history.note({HALF: 0}, {HALF: look + 1}, float(look))

    assert len(history._seen[HALF]) <= ENDS_KEPT_MAX
    assert found.oldest_s == 20 * ENDS_KEPT_MAX - 1


def test_with_a_relay_the_decided_topic_counts_too() -> None:
    settings = Settings(relay=True)
    read = {(topic, 0): 7 for topic in settings.topics.read} | {(settings.topics.decided, 0): 5}
    brokers: Any = Brokers(settings.topics.read_with_relay)
    watch = InputWatch(settings, brokers, lambda: 0.0, read=lambda: read)
    watch.look()

    assert Unread(settings.topics.decided, 2) in watch.unread


def test_a_query_that_stands_still_does_not_hide_what_the_brokers_have() -> None:
    settings, now_s = Settings(), 0.0
    half, op, _ = settings.topics.read
    read = {(half, 0): 4, (op, 0): 7}
    brokers: Any = Brokers(settings.topics.read)
    watch = InputWatch(settings, brokers, lambda: now_s, read=lambda: read)
    watch.look()
    now_s = 75.0
    watch.look()

    assert watch.unread == [Unread(half, 3, oldest_s=75, still_s=75), Unread(op, 0)]


def test_a_line_warns_of_what_is_not_read() -> None:
    line = replace(
        Progress().line(0, None),
        unread=[Unread("half", 1_200, 75, 75), Unread("op", 3, 1, 0)],
        batch_age_ms=125_000,
    )
    text = " ".join(progress_text(line, width=300).split())

    assert "batch - 2m5s ago" in text
    assert "unread 1,203" in text
    assert "NOTHING READ for 1m15s: 1,200 unread on half, the oldest for 1m15s" in text
    assert not is_quiet(line)
    assert is_quiet(line, line)
    assert "NOTHING" not in progress_text(replace(line, unread=[Unread("half", 9, 75, 2)]))
