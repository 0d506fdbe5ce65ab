"""Columns that are packed narrowly."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.state.building import SENT

from checkback.protocol.errors import CheckpointError
from checkback.state.page import packing
from checkback.state.page.packing import Reader, pack_narrow_columns

SPANS = (0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**62)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("least", [0, SENT, -5, -(2**62)])
def test_a_narrow_column_comes_back_and_takes_no_more_than_its_span(least: int, span: int) -> None:
    column = np.array([least, least + span, least + span // 2])
    blob = pack_narrow_columns(b"", column)
    reader = Reader(blob, "page")
    assert np.array_equal(reader.narrow_column("<i8", 3), column)
    reader.finish()
    widths = [width for width in (0, 1, 2, 4) if span < 256**width]
    assert len(blob) == 9 + 3 * min(widths, default=8)


def test_the_least_and_the_largest_number_in_one_column_come_back() -> None:
    column = np.array([-(2**63), 2**63 - 1, 0])
    reader = Reader(pack_narrow_columns(b"", column), "page")
    assert np.array_equal(reader.narrow_column("<i8", 3), column)


def test_a_column_that_is_not_narrowed_says_so_and_names_no_least_number() -> None:
    column = np.array([-(2**63), 2**63 - 1])

    assert pack_narrow_columns(b"", column) == bytes([8, *bytes(8)]) + column.tobytes()


@pytest.mark.parametrize(("width", "count"), [(3, 5), (9, 5), (255, 5), (0, 2**32 - 1)])
def test_a_width_or_a_count_that_nothing_has_is_damaged(width: int, count: int) -> None:
    blob = bytes([width]) + bytes(8 + 64)
    with pytest.raises(CheckpointError, match="A page in this checkpoint is damaged"):
        Reader(blob, "page").narrow_column("<i8", count)


def test_equal_numbers_are_read_up_to_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "COUNT_MAX", 5)
    blob = pack_narrow_columns(b"", np.full(9, 7))

    assert Reader(blob, "page").narrow_column("<i8", 5).tolist() == [7] * 5
    with pytest.raises(CheckpointError, match="damaged"):
        Reader(blob, "page").narrow_column("<i8", 6)
