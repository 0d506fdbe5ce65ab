"""The content of a progress line."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from checkback.sinks.kafka.transaction.hanging import ShortTopic
from checkback.sinks.report import BatchReport, PageStatus, summed
from checkback.streaming.reports.progress import PendingIndex, Progress, awaited
from checkback.streaming.reports.progress_text import is_quiet, progress_text


def report(*pages: PageStatus, **counts: int) -> BatchReport:
    return BatchReport(0, Counter(counts), pages=list(pages))


def test_pending_is_what_the_last_status_of_each_page_says() -> None:
    index = PendingIndex()
    index.update([PageStatus(0, 0, 5, 100), PageStatus(0, 1, 2, 50), PageStatus(1, 0, 1, 70)])
    index.update([PageStatus(0, 1, 0, -1), PageStatus(0, 0, 3, 120)])

    assert index.pending == 4
    assert index.oldest_ms == 70


def test_a_line_counts_since_the_one_before() -> None:
    progress = Progress()
    progress.add(0, report(halves=10, commits=4, finals=4))
    progress.line(1_000, 50)
    progress.add(1, report(PageStatus(0, 0, 6, 500), halves=20, commits=10, finals=10))

    line = progress.line(3_000, 70)

    assert line.counts == {"halves": 20, "commits": 10, "finals": 10}
    assert line.events_per_s == 15.0
    assert (line.batch_id, line.batches, line.batch_ms) == (1, 1, 70)
    assert (line.pending, line.oldest_pending_ms) == (6, 2_500)
    assert progress.totals["finals"] == 14


def test_a_half_younger_than_our_clock_is_not_of_negative_age() -> None:
    progress = Progress()
    progress.add(0, report(PageStatus(0, 0, 1, 9_000)))

    assert progress.line(8_000, None).oldest_pending_ms == 0


def test_the_reports_of_a_batch_are_one_sum() -> None:
    one, other = report(PageStatus(1, 2, 3, 4), finals=5), report(PageStatus(0, 2, 3, 4), finals=2)
    one.finished[3], other.finished[3] = 7, 1
    one.asked_groups["h"], other.asked_groups["h"] = 3, 4
    one.undelivered_groups["g"] = one.refused["HALF_LOST"] = one.discarded["expired"] = 2
    other.refused_groups["loud"] = 9

    total = summed([one, other])

    assert total.counts == {"finals": 7}
    assert (total.finished[3], total.pages) == (8, [*one.pages, *other.pages])
    assert (total.asked_groups, total.undelivered_groups) == ({"h": 7}, {"g": 2})
    assert (total.refused, total.discarded) == ({"HALF_LOST": 2}, {"expired": 2})
    assert total.refused_groups == {"loud": 9}


def test_the_backlog_of_checks_counts_pages_that_sleep_until_their_turn() -> None:
    progress = Progress()
    progress.add(0, report(PageStatus(0, 0, 50, 1, 40), PageStatus(0, 1, 2, 1, 2)))
    before = progress.line(1_000, 10)
    progress.add(1, report(PageStatus(0, 0, 50, 1)))

    assert before.check_backlog == 42
    assert "checks waiting 42" in progress_text(before)
    assert progress.line(2_000, 10).check_backlog == 2


def test_a_part_wider_than_the_terminal_breaks_between_names_and_never_in_one() -> None:
    names = [f"orders-service-of-team-{number}-in-production" for number in range(6)]
    loud = replace(Progress().line(2_000, 410), groups_without_members=names)

    lines = progress_text(loud, 80).splitlines()

    assert max(map(len, lines)) <= 80
    assert lines[0][8:] == "  batch - (410ms)  nothing pending"
    assert lines[1].startswith(
        f"{' ' * 10}nobody answers for orders-service-of-team-0-in-production,"
    )
    assert all(line.startswith(" " * 12) for line in lines[2:])
    assert " ".join(" ".join(lines).split()).endswith(f"nobody answers for {', '.join(names)}")


@pytest.mark.parametrize("width", [0, 1, 10, 40])
def test_a_name_wider_than_the_terminal_stays_whole(width: int) -> None:
    name = "x" * 60
    line = replace(Progress().line(0, None), groups_without_members=[name])

    assert name in progress_text(line, width)


def test_a_line_is_quiet_if_nothing_happened_and_nobody_is_missing() -> None:
    progress = Progress()
    nothing = progress.line(0, None)
    progress.add(7, report(finals=1))

    assert is_quiet(nothing)
    assert not is_quiet(replace(nothing, groups_without_members=["g"]))
    assert not is_quiet(progress.line(2_000, 410))


def test_the_first_page_that_has_something_to_do_is_known() -> None:
    index = PendingIndex()
    index.update([PageStatus(0, 0, 1, 5, wake_at_ms=900), PageStatus(0, 1, 0, -1, wake_at_ms=700)])

    assert index.next_wake_ms == 700
    index.update([PageStatus(0, 1, 0, -1)])
    assert index.next_wake_ms == 900
    index.update([PageStatus(0, 0, 0, -1)])
    assert index.next_wake_ms is None


def test_the_line_says_why_records_were_refused() -> None:
    progress = Progress()
    refused = report(refusals=1)
    refused.refused.update({"REAL_TOPIC_MISSING": 2, "OP_WITHOUT_HALF": 1})
    progress.add(0, refused)
    line = progress.line(1_000, 10)

    assert line.refused == {"REAL_TOPIC_MISSING": 2, "OP_WITHOUT_HALF": 1}
    assert "refused: OP_WITHOUT_HALF 1, REAL_TOPIC_MISSING 2" in progress_text(line)
    assert progress.line(2_000, 10).refused == {}


def test_the_line_names_the_groups_that_most_refused_records_are_of() -> None:
    progress = Progress()
    sent = report(refusals=1)
    sent.refused["OP_WITHOUT_HALF"] = 90
    sent.refused_groups.update({f"g{number}": number for number in range(1, 40)})
    sent.drop_small_groups()
    progress.add(0, sent)
    assert len(sent.refused_groups) == 10
    line = progress.line(1_000, 10)

    assert line.refused_groups == {"g39": 39, "g38": 38, "g37": 37}
    text = progress_text(line, width=1_000)
    assert "refused: OP_WITHOUT_HALF 90  most of them of group g39 39, g38 38, g37 37" in text
    assert progress.line(2_000, 10).refused_groups == {}


def test_groups_that_anybody_names_neither_fill_the_line_nor_command_the_terminal() -> None:
    progress = Progress()
    lost = report(finals=0)
    lost.undelivered_groups.update({f"g{number:03}": 1 for number in range(150)})
    lost.undelivered_groups["\x1b[2Jevil\n"] = 5
    progress.add(7, lost)

    line = progress.line(2_000, 410)
    text = progress_text(line)

    assert len(line.undelivered_groups) == 100
    assert line.undelivered_groups["\x1b[2Jevil\n"] == 5
    assert "checks undelivered to \\x1b[2Jevil\\n, g000, g001" in text
    assert "and 90 more" in text
    assert "\x1b" not in text


def test_a_line_names_the_topics_whose_replicas_a_batch_waits_for() -> None:
    short = [ShortTopic(f"t{number:02}", "partition 0 has no leader") for number in range(12)]
    waiting = replace(Progress().line(0, None), short_topics=short)
    text = progress_text(waiting, 200)

    assert (
        "waits for replicas: bring back the brokers of t00 (partition 0 has no leader), t01" in text
    )
    assert "min.insync.replicas" in text
    assert "t09" in text
    assert "t10" not in text
    assert not is_quiet(waiting)
    assert is_quiet(waiting, before=waiting)


def test_a_line_says_for_how_long_a_batch_is_written_and_when_a_call_is_given_up() -> None:
    """After a broker had stopped for 14 s a job stood still, and its lines gave no reason."""
    progress = Progress()
    assert progress.writing_ms(1_000) is None

    progress.begin(1_000)
    waits_for = awaited(progress.writing_ms(1_021.5))
    line = replace(progress.line(0, None), waits_for=waits_for)
    assert (
        "WRITING a batch for 21s: a call that the brokers leave without an answer is given up "
        "after 1m5s and tried again" in " ".join(progress_text(line).split())
    )
    assert not is_quiet(line)
    assert "WRITING" not in progress_text(replace(line, waits_for=awaited(9_999)))

    progress.add(0, report())
    assert progress.writing_ms(2_000) is None


def test_the_first_page_with_something_is_known() -> None:
    index = PendingIndex()
    index.update([PageStatus(0, 3, 1, 10), PageStatus(1, 4, 1, 10), PageStatus(0, 5, 9, 9)])
    index.update([PageStatus(0, 7, 1, 50), PageStatus(0, 5, 0, -1, state_bytes=9)])
    assert index.first_pages() == {0: 3, 1: 4}
    index.update([PageStatus(0, 3, 0, -1), PageStatus(0, 7, 0, -1), PageStatus(1, 4, 0, -1)])
    assert index.first_pages() == {0: 5}
    index.update([PageStatus(0, 5, 0, -1), PageStatus(0, 7, 2, 90)])
    assert index.first_pages() == {0: 7}
    index.update([PageStatus(0, 6, 2, 90)])
    assert index.first_pages() == {0: 6}
