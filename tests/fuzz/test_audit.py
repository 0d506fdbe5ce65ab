"""The audit of a fuzz run sees what is lost, twice or for another reason; a seed repeats itself."""

from __future__ import annotations

from random import Random

import pytest
from tests.fuzz.audit import is_accounted
from tests.fuzz.halves import HalfMaker
from tests.fuzz.ops import OpMaker
from tests.fuzz.places import Places
from tests.fuzz.records import (
    FINAL,
    NOWHERE,
    Expected,
    Fate,
    Record,
    Transaction,
    refused,
)
from tests.fuzz.witness import Sight

from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import TopicNames

SEEN_FINAL = Sight(Fate.FINAL, "", "orders", 0.0)
SEEN_REFUSED = Sight(Fate.REFUSED, "HALF_BODY_EMPTY", "refused", 0.0)


@pytest.mark.parametrize(
    ("expected", "sights", "is_sound"),
    [
        (FINAL, [SEEN_FINAL], True),
        (FINAL, [], False),
        (FINAL, [SEEN_FINAL, SEEN_FINAL], False),
        (FINAL, [SEEN_REFUSED], False),
        (NOWHERE, [], True),
        (NOWHERE, [SEEN_FINAL], False),
        (refused(RefusedReason.HALF_BODY_EMPTY), [SEEN_REFUSED], True),
        (refused(RefusedReason.NOT_A_HALF), [SEEN_REFUSED], False),
        (refused(), [SEEN_REFUSED, SEEN_FINAL], False),
    ],
)
def test_a_record_is_accounted_for_once(
    expected: Expected, sights: list[Sight], *, is_sound: bool
) -> None:
    assert is_accounted(expected, sights) == is_sound


def test_a_seed_writes_the_same_again() -> None:
    def made(seed: int) -> list[Transaction | Record]:
        chance = Random(seed)
        maker = HalfMaker(chance, Places("p-"), TopicNames("p-"))
        makers = (maker.wild, OpMaker(chance).op)
        return [one() for _ in range(200) for one in makers]

    assert made(3) == made(3)
    assert made(3) != made(4)
