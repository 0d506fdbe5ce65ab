"""The identity of a half: checkpoints hold it, so its bits may never change."""

from __future__ import annotations

import numpy as np
import pytest

from checkback.state.formats.identity import group_part, identity_words


@pytest.mark.parametrize(
    ("group", "transaction_id", "words"),
    [
        (b"orders", b"t-1", (-148902383186266326, 890584896)),
        (b"orders", b"t-3", (-149097852498242383, 2918219650)),
        ("grüße".encode(), b"x" * 40, (5326918057498644552, 2467394592)),
    ],
)
def test_the_words_of_a_half_are_those_of_the_first_release(
    group: bytes, transaction_id: bytes, words: tuple[int, int]
) -> None:
    assert identity_words(group, transaction_id) == words


def test_groups_are_told_apart_by_the_first_words_upper_bits() -> None:
    of_one, of_other = (
        np.array([identity_words(group, one)[0] for one in (b"1", b"2")], np.int64)
        for group in (b"orders", b"bills")
    )

    assert len({*group_part(of_one).tolist()}) == len({*group_part(of_other).tolist()}) == 1
    assert group_part(np.bitwise_xor(of_one, of_other)).all()
