"""A start that would switch access control on is refused over what may still be delivered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from tests.unit.state.building import (
    CLOSED,
    SENT,
    UNKNOWN,
    Story,
    direct_half,
    direct_op,
    half,
)

from checkback.checkpoints.access_versions import OFF, AccessVersion
from checkback.checkpoints.deliverable import Deliverable, deliverable_rows
from checkback.protocol.errors import CheckpointError
from checkback.streaming import switching_on
from checkback.streaming.switching_on import require_nothing_deliverable

STORE = cast("Any", SimpleNamespace(path="checkpoint"))
SPARK = cast("Any", None)


def test_the_halves_whose_sessions_are_open_are_found() -> None:
    direct, plain = Story(page=2), Story(page=3)
    at = 2 * 1024
    direct.batch(
        SENT, half(at), direct_half(at + 1), direct_half(at + 2), direct_half(at + 3),
        direct_op(at + 1, UNKNOWN | CLOSED),
    )  # fmt: skip
    plain.batch(SENT, half(3 * 1024))
    blobs = [{"blob": story.page.pack()} for story in (direct, plain)]

    [found] = deliverable_rows([pa.RecordBatch.from_pylist(blobs)])

    assert found.to_pylist() == [{"partition": 0, "offset": at + 2, "number": 2}]


@pytest.mark.parametrize(
    ("had", "now", "found"),
    [
        (OFF, OFF, [Deliverable(0, 7, 1)]),
        ("first", "second", [Deliverable(0, 7, 1)]),
        (OFF, "first", []),
    ],
)
def test_a_start_passes_that_switches_nothing_on_or_over_nothing(
    monkeypatch: pytest.MonkeyPatch, had: str, now: str, found: list[Deliverable]
) -> None:
    monkeypatch.setattr(switching_on, "read_access_version", lambda _: AccessVersion(0, had))
    monkeypatch.setattr(switching_on, "read_deliverable", lambda *_: found)

    require_nothing_deliverable(SPARK, STORE, now)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([Deliverable(1, 7, 1)], r"A direct half of checkpoint is pending \(at 1:7\)"),
        (
            [Deliverable(0, 7, 9), Deliverable(1, 8, 1)],
            r"10 direct halves of checkpoint are pending \(the first at 0:7, 1:8\)",
        ),
    ],
)
def test_a_start_that_switches_on_too_early_names_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, found: list[Deliverable], says: str
) -> None:
    monkeypatch.setattr(switching_on, "read_access_version", lambda _: AccessVersion(0))
    monkeypatch.setattr(switching_on, "read_deliverable", lambda *_: found)

    with pytest.raises(CheckpointError, match=says):
        require_nothing_deliverable(SPARK, STORE, "first")
