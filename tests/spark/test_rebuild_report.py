"""What `checkback checkpoint rebuild` says to people, and when it refuses."""

from __future__ import annotations

import pytest

from checkback.commands.checkpoint import report_text
from checkback.operations.rebuild.page import RestoredCounts
from checkback.operations.rebuild.rebuild import RebuildReport, Unknown, require_sound
from checkback.operations.rebuild.topic_spans import TopicSpans
from checkback.protocol.errors import CheckpointError

NOWHERE = TopicSpans({}, 5_000)
COUNTS = RestoredCounts(halves=9, settled=4, pending=5, asked=2, ops=1, lost=3)


def test_a_whole_checkpoint_is_left_alone() -> None:
    text = report_text(RebuildReport("nothing", False, "/c"))

    assert text == "/c is whole: there is nothing to rebuild."


def test_a_rebuild_says_what_was_found_what_was_done_and_what_is_at_risk() -> None:
    problem = {"code": "missing", "file": "commits/3", "says": "It is gone.", "remedy": ""}
    report = RebuildReport(
        "from topics",
        False,
        "/c",
        problems=(problem,),
        moved_to="/c.replaced-1",
        ended_queries=("q",),
        query_id="n",
        counts=COUNTS,
        first_batch={"finals": 2},
    )

    text = report_text(report)

    for said in (
        "wrong: commits/3: It is gone.",
        "The old checkpoint is now /c.replaced-1.",
        "were ended for good: q.",
        "9 halves, 4 settled, 5 pending (2 asked back)",
        "At risk: 3 halves, or halves of ops",
        "First batch: finals 2.",
    ):
        assert said in text
    assert "Nothing was changed" not in text


@pytest.mark.parametrize("chosen", [None, "pending", "settled"])
def test_marks_of_other_halves_are_always_refused(chosen: Unknown | None) -> None:
    with pytest.raises(CheckpointError, match="was recreated"):
        require_sound(RestoredCounts(foreign=1), NOWHERE, chosen)


def test_unknown_halves_are_refused_until_somebody_chooses() -> None:
    with pytest.raises(CheckpointError, match="--unknown-are"):
        require_sound(RestoredCounts(unknown=1), NOWHERE, None)

    require_sound(RestoredCounts(unknown=1), NOWHERE, "settled")
