"""Packed pages: unpacking, size, and formats of older versions.

What a batch makes of a page is the work of checkback.state.page.page_builder.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from tests.deciding import page_outcome
from tests.property.model import Record
from tests.unit.state.building import (
    COMMIT,
    DELIVERED,
    DUE,
    ROLLBACK,
    RULES,
    SENT,
    Act,
    Story,
    half,
    op,
)

from checkback.protocol.errors import CheckpointError, UsageError
from checkback.protocol.refusals import RefusedReason
from checkback.state import (
    CLAIM_KEY,
    Action,
    Counter,
    EventKind,
    Mark,
    Outcome,
    Page,
    mark_key,
    marks_of,
    pack_settled,
    unpack_settled,
)
from checkback.state.formats.outcome import REST_UNKNOWN
from checkback.state.formats.settled_marks import NO_IDENTITY
from checkback.state.page.page import _HEADER, SettledOffsets
from checkback.state.transitions import Phase

PAGE_V1 = bytes.fromhex(
    "0100000000000000050000000000000010000000010000000100000002000000010000000100000002000000"
    "0266011dd08b0100000000badb000068e5cf8b0100000000d9e7cf8b01000000010000000000010000000000"
    "00000000000003000000000000000020dd1dd08b010000000100000000000100000000000000000000000000"
    "000000000000000100000000000000000a000000000000000000000000000000000100000000000000000001"
    "000800000000000000000900000000000000000000000000000000"
)
"""Page 5 of partition 0 with 16 offsets: 80 is pending with one check request, 81 committed, 82
rolled back in another batch, and a commit waits for 90."""
DIRECT_V1 = bytes.fromhex(
    "0100000000000000050000000000000010000000040000000300000001000000040000000100000001000000"
    "0066011dd08b010000000068e5cf8b01000004082be8cf8b010000f806983bf806983b00000000f806983b00"
    "0100000000000100000000000000000000080000000000000000030000000000000007000000000000400800"
    "0000000000400480561cd08b0100000000000080253c0f000000000001000000000001000000000000000000"
    "0000000000000000000001000000000000000000000100010a00000000000000020001000000000000000000"
    "00000000000000000001080000000000000000011000010000000000000001000000000000000000010203"
)
"""A page like it: 80 is plain, 81 direct, 82 is being fenced, 83 is closed, 84 was delivered; a
commit waits for 92, and of the direct op topic a delivered op for 90 and a closing commit for 91.
"""
PAGE_V2 = bytes.fromhex(
    "0200000000000000050000000000000010000000010000000100000002000000010000000100000002000000"
    "0266011dd08b0100000000badb000068e5cf8b0100000000d9e7cf8b01000000010000000000010000000000"
    "00000000000003000000000000000020dd1dd08b010000000100000000000100000000000000000000000000"
    "000000000000000100000000000000000a000000000000000000000000000000000100000000000000000001"
    "000800000000000000000900000000000000"
)
"""The same page as PAGE_V1."""
OUTCOME_V1 = bytes.fromhex(
    "010f0000000000000500000000000000a0eee6cf8b0100000068e5cf8b0100000100000003000000"
    "00000000ffffffffffffffff01000000000001000000000000000000010000000000010000000000"
    "00000000ffffffffffffffff00000000000000000000000000000000000000000000000000000000"
    "00000000010000000000000000000000000000000000000000000000010000000000000000000000"
    "00000000010000000000000001000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000010000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000a08601000000000052000000"
    "00000000510000000000000050000000000000005200000000000000020000000000000050000000"
    "00000000000000002900000001000000020803"
)
SETTLED_V1 = bytes.fromhex(
    "01000000000000000500000000000000a0eee6cf8b0100000700000000000000500000000000000002000000"
    "0200000000000000000001000203"
)
SETTLED_V2 = bytes.fromhex(
    "02000000000000000500000000000000a0eee6cf8b0100000700000000000000500000000000000002000000"
    "02000000000000000000000000000000000001000203"
)


def story_of_version_1() -> Story:
    story = Story(replace(RULES, check_max=1), page_size=16, page=5)
    story.batch(SENT, half(80), half(81), half(82), op(81, COMMIT, 0))
    story.batch(SENT + 100_000, op(82, ROLLBACK, 1), op(81, ROLLBACK, 2), op(90, COMMIT, 3))
    return story


def test_a_page_that_version_1_wrote_is_read() -> None:
    page = Page.unpack(PAGE_V1)
    assert (page.partition, page.page, page.page_size, page.first_offset) == (0, 5, 16, 80)
    assert page.halves.index.tolist() == [0]
    assert page.halves.store_time_ms.tolist() == [SENT]
    assert page.halves.deadline_ms.tolist() == [SENT + 160_000]
    assert page.halves.check_times.tolist() == [1]
    assert page.halves.identity.tolist() == [(1 << 48) + 1]
    assert page.halves.identity_rest.tolist() == [0]
    assert page.settled.verdict.tolist() == [0, 1, 2] + [0] * 13
    assert page.settled.forget_slot.tolist() == [0, 0, 1] + [0] * 13
    assert page.settled.forget_at_ms.tolist() == [1_700_003_643_750, 1_700_003_700_000]
    assert page.waiting.index.tolist() == [10]
    assert page.waiting.source_offset.tolist() == [3]
    assert page.waiting.wait_until_ms.tolist() == [SENT + 3_700_000]
    assert page.waiting.state.tolist() == [COMMIT]


def test_direct_halves_that_version_1_wrote_are_plain_ones() -> None:
    page = Page.unpack(DIRECT_V1)
    story = Story(replace(RULES, check_max=1), page_size=16, page=5)
    story.page = page
    fenced_until = SENT + 121_000 + RULES.check_interval_ms

    assert page.halves.index.tolist() == [0, 1, 2, 3]
    assert page.waiting.state.tolist() == [COMMIT, DELIVERED, COMMIT]
    assert page.waiting.source_offset.tolist() == [3, -1, -1]
    assert Page.unpack(page.pack()).pack() == page.pack()
    acts = story.batch(fenced_until + 1, half(90), half(91), op(81, COMMIT, 4))
    assert acts == [
        Act(Action.DELIVERED, 90, 0, 90),
        Act(Action.COMMIT, 91, 0, 91),
        Act(Action.COMMIT, 81, 0, 81),
        Act(Action.DISCARD_CHECK_LIMIT, 82, 1, 82),
    ]


def test_an_op_of_the_first_offset_of_the_former_direct_op_topic_has_no_copy_either() -> None:
    direct = 2**62
    later, first = ((direct + at).to_bytes(8, "little") for at in (7, 0))

    page = Page.unpack(DIRECT_V1.replace(later, first))

    assert page.waiting.source_offset.tolist() == [3, -1, -1]


def test_what_is_read_of_a_page_has_its_types_and_stands_where_it_stood() -> None:
    story = Story()
    story.batch(SENT, half(3), half(1_000), half(5), op(5, COMMIT, 0), op(900, COMMIT, 1))
    page = story.page
    assert (page.halves.index.tolist(), page.waiting.index.tolist()) == ([3, 1_000], [900])
    for table in (page.halves, page.waiting):
        types = {getattr(table, one.name).dtype.str for one in fields(table)}
        assert types == {"<i8"}
    assert page.settled.forget_at_ms.dtype == np.int64


def test_todays_code_writes_these_versions() -> None:
    story = story_of_version_1()
    assert story.page.pack() == PAGE_V2 == Page.unpack(PAGE_V1).pack()
    assert story.outcome.pack() == OUTCOME_V1
    assert pack_settled(story.outcome, 7) == SETTLED_V2


def test_an_outcome_that_version_1_wrote_is_read() -> None:
    outcome = Outcome.unpack(OUTCOME_V1)
    assert (outcome.partition, outcome.page, outcome.now_ms) == (0, 5, SENT + 100_000)
    assert outcome.action.tolist() == [Action.ROLLBACK, Action.REFUSE_OP, Action.CHECK]
    assert outcome.offset.tolist() == [82, 81, 80]
    assert outcome.detail.tolist() == [0, 41, 1]
    assert outcome.source_offset.tolist() == [82, 2, 80]
    assert outcome.counters[Counter.REFUSALS] == 1
    assert (outcome.pending, outcome.oldest_ms, outcome.state_bytes) == (1, SENT, 0)
    assert outcome.identity is not None
    assert outcome.identity_rest is not None
    identity = (1 << 48) + 1
    assert outcome.identity.tolist() == [identity, 0, identity]
    assert outcome.identity_rest.tolist() == [0, REST_UNKNOWN, 0]
    assert outcome.finished is not None
    assert outcome.finished.tolist() == [0] * 6 + [1] + [0] * 4 + [100_000]


@pytest.mark.parametrize("wake_at_ms", [None, 0, SENT + 60_000])
def test_an_outcome_says_when_its_page_has_something_to_do_next(wake_at_ms: int | None) -> None:
    outcome = replace(story_of_version_1().outcome, wake_at_ms=wake_at_ms, state_bytes=77)

    found = Outcome.unpack(outcome.pack())

    assert (found.wake_at_ms, found.state_bytes) == (wake_at_ms, 77)


def test_ages_of_commits_and_rollbacks_are_counted_and_those_of_discards_are_not() -> None:
    story = Story(replace(RULES, check_max=1))
    story.batch(SENT, half(0), half(1), half(2), half(3))
    story.batch(SENT + 500, op(0, COMMIT, 0))
    assert story.outcome.finished is not None
    assert story.outcome.finished.tolist() == [1] + [0] * 10 + [500]
    story.batch(SENT + 501, op(0, COMMIT, 1), op(1, COMMIT, 2), op(2, ROLLBACK, 3))
    assert story.outcome.finished.tolist() == [0, 2] + [0] * 9 + [1_002]
    story.batch(DUE)
    story.batch(DUE + 60_001)
    assert story.outcome.counters[Counter.DISCARDS] == 1
    assert story.outcome.finished.sum() == 0


def test_ages_are_counted_of_ops_that_waited_and_of_new_ones_in_one_batch() -> None:
    story = Story()
    story.batch(SENT, op(0, COMMIT, 0))
    story.batch(SENT + 600, half(0), half(1), op(1, COMMIT, 1))
    assert story.outcome.finished is not None
    assert story.outcome.finished.tolist() == [0, 2] + [0] * 9 + [1_200]


def test_a_half_that_is_stored_after_the_batchs_time_has_no_age() -> None:
    story = Story()
    story.batch(SENT - 5, half(0), op(0, COMMIT, 0))
    assert story.outcome.finished is not None
    assert story.outcome.finished.tolist() == [1] + [0] * 11


@pytest.mark.parametrize("blob", [SETTLED_V1, SETTLED_V2])
def test_settled_marks_that_an_earlier_version_wrote_are_read(blob: bytes) -> None:
    marks = unpack_settled(blob)
    assert marks.identity_rest.tolist() == [NO_IDENTITY] * 2
    assert (marks.batch_id, marks.partition, marks.page) == (7, 0, 5)
    assert marks.now_ms == SENT + 100_000
    assert marks.offset.tolist() == [82, 80]
    assert marks.mark.tolist() == [Mark.ROLLBACK, Mark.ASKED]
    assert marks.check_times.tolist() == [0, 1]


def test_marks_name_discards_and_refused_halves() -> None:
    story = Story(replace(RULES, check_max=1))
    story.batch(SENT, half(0, transaction=2), half(1, transaction=4))
    story.batch(DUE)
    story.rules = replace(RULES, check_max=1, reject_transactions=True)
    story.batch(DUE + 60_001, half(2, transaction=6))
    marks = unpack_settled(pack_settled(story.outcome, 1))
    limit = Mark.DISCARD_CHECK_LIMIT
    assert marks.mark.tolist() == [Mark.REFUSED_HALF, limit, limit]
    assert marks.check_times.tolist() == [0, 1, 1]
    assert marks.offset.tolist() == [2, 0, 1]
    assert marks.identity_rest.tolist() == [3, 1, 2]


def test_marks_of_halves_whose_identity_is_not_whole_name_none() -> None:
    story = Story()
    story.batch(SENT, half(0), half(1))
    known = replace(story.page.halves, identity_rest=np.array([REST_UNKNOWN, 1]))
    story.page = replace(story.page, halves=known)
    story.batch(DUE)
    without = replace(story.outcome, identity_rest=None)
    assert unpack_settled(pack_settled(story.outcome, 1)).identity_rest.tolist() == [NO_IDENTITY, 1]
    assert unpack_settled(pack_settled(without, 1)).identity_rest.tolist() == [NO_IDENTITY] * 2


def test_an_outcome_names_the_identity_of_refused_halves_and_of_no_refused_op() -> None:
    """Refused ops are read again by their own place, whatever they say of a half."""
    story, reason = Story(), RefusedReason.HALF_WITHOUT_GROUP
    refused = [
        Record(kind, 0, 0, SENT, group=1, transaction=1, detail=reason)
        for kind in (EventKind.REFUSED_HALF, EventKind.REFUSED_OP)
    ]
    story.batch(SENT, *refused)
    assert story.outcome.action.tolist() == [Action.REFUSE_HALF, Action.REFUSE_OP]
    assert story.outcome.identity_rest is not None
    assert (story.outcome.identity_rest == REST_UNKNOWN).tolist() == [False, True]


def test_marks_of_an_outcome_that_settled_nothing_are_none() -> None:
    story = Story()
    story.batch(SENT, half(0))
    assert len(unpack_settled(pack_settled(story.outcome, 1)).offset) == 0


MARKS_KEY = mark_key(0, 5)


def test_marks_are_known_by_their_pages_key() -> None:
    found = marks_of(MARKS_KEY, SETTLED_V1)
    assert found is not None
    assert found.offset.tolist() == [82, 80]


def test_a_claim_is_known_by_its_key_and_has_no_marks() -> None:
    claim = pack_settled(replace(page_outcome(0), page=5), 7)

    found = marks_of(CLAIM_KEY, claim)

    assert found is not None
    assert (found.batch_id, len(found.offset)) == (7, 0)
    assert marks_of(mark_key(0, 6), claim) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (MARKS_KEY, None), (MARKS_KEY, b""), (MARKS_KEY, b"\x00"), (MARKS_KEY, b"\x01"),
        (MARKS_KEY, b"\x01" + bytes(200)), (MARKS_KEY, SETTLED_V1[:-1]),
        (MARKS_KEY, SETTLED_V1 + b"x"), (mark_key(0, 6), SETTLED_V1), (CLAIM_KEY, SETTLED_V1),
        (None, SETTLED_V1), (b"", SETTLED_V1), (b"\xff", SETTLED_V1), (b"0:5\n", SETTLED_V1),
        (b"mine", b"\x09 hello"), (None, b"\x09"), (b"-1:5", b"\x09"),
    ],
)  # fmt: skip
def test_what_no_job_wrote_are_no_marks(key: bytes | None, value: bytes | None) -> None:
    assert marks_of(key, value) is None


@pytest.mark.parametrize("key", [MARKS_KEY, CLAIM_KEY])
def test_marks_that_a_newer_version_may_have_written_are_not_passed_over(key: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"A settled mark .* 9.*Run the version that wrote"):
        marks_of(key, b"\x09" + bytes(200))


def test_a_mark_of_an_unknown_kind_is_not_passed_over() -> None:
    with pytest.raises(CheckpointError, match="Run the version that wrote it"):
        marks_of(MARKS_KEY, SETTLED_V1[:-1] + b"\xc8")


@pytest.mark.parametrize(
    ("unpack", "what"),
    [(Page.unpack, "page"), (Outcome.unpack, "outcome"), (unpack_settled, "settled mark")],
)
def test_an_unknown_version_stops_with_what_to_do(unpack: type, what: str) -> None:
    told = rf"A {what} in this checkpoint has version 9.*Run the version that wrote it"
    with pytest.raises(CheckpointError, match=told):
        unpack(b"\x09" + bytes(200))


@pytest.mark.parametrize(
    ("unpack", "blob", "what"),
    [
        (Page.unpack, PAGE_V1, "page"),
        (Outcome.unpack, OUTCOME_V1, "outcome"),
        (unpack_settled, SETTLED_V1, "settled mark"),
    ],
)
def test_a_blob_that_is_cut_off_or_too_long_is_damaged(
    unpack: type, blob: bytes, what: str
) -> None:
    told = f"A {what} in this checkpoint is damaged. Restore the checkpoint"
    for size in range(len(blob)):
        with pytest.raises(CheckpointError, match=told):
            unpack(blob[:size])
    with pytest.raises(CheckpointError, match=told):
        unpack(blob + b"\0")


def test_verdicts_and_the_times_they_are_forgotten_must_match() -> None:
    story = Story(page_size=4)
    story.batch(SENT, half(0), op(0, COMMIT))
    one_verdict = bytes([0, Phase.COMMITTED, 0, 0, 0, 0, 0, 0, 0])
    blob = story.page.pack()
    assert blob.endswith(one_verdict)
    with pytest.raises(CheckpointError, match="A page in this checkpoint is damaged"):
        Page.unpack(blob.removesuffix(one_verdict) + b"\0\x05" + bytes(7))


@pytest.mark.parametrize("page_size", [0, -1, 65_537])
def test_a_page_size_that_does_not_fit_is_refused(page_size: int) -> None:
    with pytest.raises(UsageError, match="page_size"):
        Page.empty(0, 0, page_size)


@pytest.mark.parametrize("page_size", [1, 2, 3, 5, 1024, 65_536])
def test_every_verdict_comes_back_whatever_the_page_size(page_size: int) -> None:
    verdict = (np.arange(page_size) % 4).astype(np.uint8)
    verdict[-1] = 3
    for forget_slots in (1, 2, 300):
        forget_slot = (np.arange(page_size) * 7 % forget_slots).astype(np.uint16)
        forget_slot[verdict == 0] = 0
        settled = SettledOffsets(verdict, forget_slot, np.arange(forget_slots) + SENT)
        page = replace(Page.empty(1, 2, page_size), settled=settled)
        back = Page.unpack(page.pack()).settled
        assert np.array_equal(back.verdict, verdict)
        assert np.array_equal(back.forget_slot, forget_slot)
        assert np.array_equal(back.forget_at_ms, settled.forget_at_ms)


def test_a_new_page_is_empty_and_each_of_its_columns_has_its_type() -> None:
    page = Page.empty(0, 0, 8)

    assert page.is_empty
    types = [getattr(page.settled, name).dtype.str[1:] for name in ("verdict", "forget_slot")]
    assert (*types, page.settled.forget_at_ms.dtype.str[1:]) == ("u1", "u2", "i8")


def test_verdicts_take_two_bits_from_the_first_to_the_last_wherever_they_begin() -> None:
    story = Story()
    story.batch(SENT, half(1_000), half(1_003), op(1_000, COMMIT, 0), op(1_003, COMMIT, 1))

    *_, start, quads, _runs = _HEADER.unpack_from(story.page.pack())

    assert (start, quads) == (1_000, 1)


def test_a_page_without_a_verdict_has_no_bytes_of_verdicts() -> None:
    story = Story(RULES)
    story.batch(SENT, half(0))

    *_, quads, runs = _HEADER.unpack_from(story.page.pack())

    assert (quads, runs) == (0, 0)


def test_a_pending_half_costs_at_most_17_bytes_of_state_where_all_came_within_a_minute() -> None:
    """What 10 M pending cost each batch, in which Spark walks all of them."""
    story = Story(replace(RULES, transaction_timeout_ms=600_000))
    story.batch(SENT + 60_000, *(half(offset, time=SENT + 58 * offset) for offset in range(1024)))
    words = np.random.default_rng(1)
    halves = replace(
        story.page.halves,
        identity=words.integers(-(2**63), 2**63 - 1, 1024),
        identity_rest=words.integers(0, 2**32, 1024),
    )
    assert len(replace(story.page, halves=halves).pack()) / 1024 <= 17


def test_a_transaction_that_commits_in_the_next_batch_costs_at_most_30_bytes_of_state() -> None:
    """Counted like a checkpoint's size: every written version of the page."""
    story = Story()
    written = 0
    story.batch(SENT, *(half(offset) for offset in range(1024)))
    written += len(story.page.pack())
    story.batch(SENT + 100, *(op(offset, COMMIT, offset) for offset in range(1024)))
    written += len(story.page.pack())
    assert written / 1024 <= 30


def test_a_trickle_of_transactions_stays_below_120_bytes_of_state_each() -> None:
    """Six new halves per batch and page, committed in the next batch."""
    story = Story()
    written = 0
    for batch in range(171):
        new = [half(offset) for offset in range(batch * 6, min(1024, batch * 6 + 6))]
        ops = [op(offset, COMMIT, offset) for offset in range(max(0, batch * 6 - 6), batch * 6)]
        story.batch(SENT + 100 * batch, *new, *ops)
        written += len(story.page.pack())
    assert written / 1024 <= 120


def test_a_half_that_is_read_twice_is_stored_once() -> None:
    story = Story()
    story.batch(SENT, half(0))

    assert story.batch(SENT, half(0), half(1), half(1)) == []
    assert story.page.halves.index.tolist() == [0, 1]


def test_the_page_given_is_not_changed() -> None:
    story = story_of_version_1()
    before = story.page
    packed = before.pack()
    story.batch(SENT + 400_000, half(85), half(90), op(80, COMMIT, 4))
    assert before.pack() == packed
