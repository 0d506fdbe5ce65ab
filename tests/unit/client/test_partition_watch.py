"""What is certain of a record: never "not stored" of one that may have been."""

from __future__ import annotations

from checkback.client.partition_watch import PartitionWatch
from checkback.client.results import SendStatus

OK, TIMED_OUT, NOT_LEADER, TOO_LARGE = 0, 7, 6, 10
NOT_ENOUGH_REPLICAS, NOT_ENOUGH_AFTER_APPEND, DUPLICATE = 19, 20, 46
FIRST, SECOND = b"first batch", b"second batch"


def nothing() -> None:
    """Nobody waits."""


def test_what_never_passed_is_certain() -> None:
    watch = PartitionWatch()
    mark = watch.begin(0, nothing)
    assert not watch.in_doubt(0, mark)


def test_what_is_on_its_way_is_in_doubt() -> None:
    watch = PartitionWatch()
    mark = watch.begin(0, nothing)
    assert watch.may_pass(0, FIRST)
    assert watch.in_doubt(0, mark)


def test_what_did_not_get_on_the_wire_is_certain() -> None:
    watch = PartitionWatch()
    mark = watch.begin(0, nothing)
    watch.may_pass(0, FIRST)
    watch.not_sent(0)
    assert not watch.in_doubt(0, mark)


def test_a_lost_answer_leaves_a_doubt_that_a_rejection_does_not_lift() -> None:
    watch = PartitionWatch()
    mark = watch.begin(0, nothing)
    watch.may_pass(0, FIRST)
    watch.lost(0)
    watch.may_pass(0, FIRST)
    assert not watch.answered(0, NOT_ENOUGH_REPLICAS)
    assert watch.in_doubt(0, mark)
    assert watch.may_pass(0, FIRST)  # it must go on being repeated where it may be stored


def test_a_rejection_for_want_of_replicas_bars_the_partition_and_wakes_who_waits() -> None:
    watch, woken = PartitionWatch(), []
    mark = watch.begin(0, lambda: woken.append("half"))
    watch.may_pass(0, FIRST)
    assert watch.answered(0, NOT_ENOUGH_REPLICAS)
    assert woken == ["half"]
    assert watch.barred(0)
    assert not watch.may_pass(0, FIRST)
    assert not watch.in_doubt(0, mark)
    assert watch.may_pass(1, FIRST)


def test_a_doubt_about_one_batch_does_not_cling_to_the_next() -> None:
    watch = PartitionWatch()
    watch.may_pass(0, FIRST)
    watch.lost(0)
    mark = watch.begin(0, nothing)
    watch.may_pass(0, SECOND)
    assert watch.answered(0, NOT_ENOUGH_REPLICAS)
    assert not watch.in_doubt(0, mark)


def test_a_leader_that_lost_its_office_may_have_appended() -> None:
    watch = PartitionWatch()
    mark = watch.begin(0, nothing)
    watch.may_pass(0, FIRST)
    assert not watch.answered(0, NOT_LEADER)
    assert watch.in_doubt(0, mark)


def test_a_refusal_is_certain_and_does_not_bar() -> None:
    watch = PartitionWatch()
    mark = watch.begin(0, nothing)
    watch.may_pass(0, FIRST)
    assert not watch.answered(0, TOO_LARGE)
    assert watch.rejected(0, mark)
    assert not watch.in_doubt(0, mark)
    assert not watch.barred(0)


def test_success_and_its_repetition_leave_nothing_on_its_way() -> None:
    for code in (OK, DUPLICATE):
        watch = PartitionWatch()
        mark = watch.begin(0, nothing)
        watch.may_pass(0, FIRST)
        watch.answered(0, code)
        assert not watch.in_doubt(0, mark)


def test_the_leaders_word_that_replicas_are_behind_is_kept_until_the_next_batch() -> None:
    watch = PartitionWatch()
    watch.may_pass(0, FIRST)
    watch.answered(0, NOT_ENOUGH_AFTER_APPEND)
    assert watch.status(0) is SendStatus.SLAVE_NOT_AVAILABLE
    watch.answered(0, TIMED_OUT)
    assert watch.status(0) is SendStatus.FLUSH_SLAVE_TIMEOUT
    watch.may_pass(0, SECOND)
    assert watch.status(0) is None


def test_withdrawn_before_it_was_sent_it_never_passes() -> None:
    watch = PartitionWatch()
    mark = watch.begin(0, nothing)
    assert watch.withdraw(0, mark)
    assert not watch.may_pass(0, FIRST)


def test_what_is_on_its_way_can_not_be_withdrawn() -> None:
    watch = PartitionWatch()
    mark = watch.begin(0, nothing)
    watch.may_pass(0, FIRST)
    assert not watch.withdraw(0, mark)
    assert watch.may_pass(0, FIRST)


def test_who_stopped_waiting_is_not_woken() -> None:
    watch, woken = PartitionWatch(), []

    def wake() -> None:
        woken.append(1)

    watch.begin(0, wake)
    watch.end(0, wake)
    watch.may_pass(0, FIRST)
    watch.answered(0, NOT_ENOUGH_REPLICAS)
    assert woken == []
