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
    Place,
    Record,
    Transaction,
    Trust,
    refused,
)
from tests.fuzz.signing import Signing
from tests.fuzz.trusting import Trusting
from tests.fuzz.witness import Sight

from checkback.protocol.refusals import ACCESS_REASONS, RefusedReason
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
        makers = (maker.wild, OpMaker(chance).op, Trusting(chance, maker).wild)
        return [one() for _ in range(200) for one in makers]

    assert made(3) == made(3)
    assert made(3) != made(4)


def test_what_nobody_may_say_has_to_be_refused_by_every_rule_of_access() -> None:
    chance = Random(5)
    maker = HalfMaker(chance, Places("p-"), TopicNames("p-"))
    signing = Signing(chance, {Place.HALF: "halves", Place.OP: "ops", Place.SETTLED: "marks"})
    halves = [maker.plain("half", b"wild").half for _ in range(400)]
    for half in halves:
        half.trust = Trust.DISTRUSTED
        signing.prepare(half)

    assert {name for one in halves for name in one.expected.reasons} == {
        one.name for one in ACCESS_REASONS
    }
    assert all(one.expected.must_show for one in halves)


def test_what_is_signed_rightly_stays_what_it_was() -> None:
    maker = HalfMaker(Random(5), Places("p-"), TopicNames("p-"))
    half = maker.plain("half", b"wild").half
    before = list(half.headers)

    Signing(Random(5), {Place.HALF: "halves"}).prepare(half)

    assert (half.expected, half.headers[: len(before)]) == (FINAL, before)
    assert half.headers[-1][0] == b"Signature"
