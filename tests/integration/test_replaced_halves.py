"""Other halves stand where those that were decided stood: none is taken for one of them."""

from __future__ import annotations

import pytest
from tests.integration.bad_records import bodies, refused
from tests.integration.sinking import World, commits, ids_of_halves, of_halves, outcome

from checkback.state import Action


def test_another_half_at_the_offset_of_a_committed_one_is_not_delivered(either: World) -> None:
    either.halves([b"a", b"b", b"c"])
    either.make_half_topic_again()
    either.halves([b"not a"], ids="other")
    either.halves([b"not b", b"not b either"], ids="id")
    decided = of_halves(commits(0, 1, 2), ids_of_halves(3))

    report = either.writer().write([decided], 0)

    assert bodies(either, either.real) == []
    found = refused(either)
    assert [body for body, _ in found] == [b"not a", b"not b", b"not b either"]
    assert {facts["reason"] for _, facts in found} == {"HALF_REPLACED"}
    assert all((facts["message"] or "").endswith(": commit") for _, facts in found)
    assert report.counts["finals"] == 0
    assert report.counts["finals_refused"] == 3


def test_the_same_transaction_in_a_topic_made_again_is_delivered(either: World) -> None:
    either.halves([b"a", b"b"])
    either.make_half_topic_again()
    either.halves([b"a", b"b"])

    either.writer().write([of_halves(commits(0, 1), ids_of_halves(2))], 0)

    assert sorted(bodies(either, either.real)) == [b"a", b"b"]
    assert refused(either) == []


def test_a_half_of_the_same_id_of_another_group_is_another_half(either: World) -> None:
    either.halves([b"a"], group="h")

    either.writer().write([of_halves(commits(0), ids_of_halves(1))], 0)

    assert bodies(either, either.real) == []
    assert [facts["reason"] for _, facts in refused(either)] == ["HALF_REPLACED"]


def test_no_owner_is_asked_about_another_half(either: World) -> None:
    either.halves([b"a", b"b"])
    either.make_half_topic_again()
    either.halves([b"not a"], ids="other")
    either.halves([b"b"], ids="another")
    identities = [*ids_of_halves(1), *ids_of_halves(1, "another")]
    decided = outcome((Action.CHECK, 0, 1), (Action.CHECK, 1, 1))

    report = either.writer().write([of_halves(decided, identities)], 0)

    assert bodies(either, either.names.check("g")) == [b"b"]
    assert [value for _, value, _ in either.read(either.names.feedback)] == [b"0"]
    assert report.asked_groups == {"g": 1}


@pytest.mark.parametrize("action", [Action.DISCARD_EXPIRED, Action.DISCARD_CHECK_LIMIT])
def test_another_half_is_not_discarded(either: World, action: Action) -> None:
    either.halves([b"a"])
    either.make_half_topic_again()
    either.halves([b"not a"], ids="other")

    either.writer().write([of_halves(outcome((action, 0, 1)), ids_of_halves(1))], 0)

    assert bodies(either, either.names.discarded) == []
    [(body, facts)] = refused(either)
    assert (body, facts["reason"]) == (b"not a", "HALF_REPLACED")
    assert (facts["message"] or "").endswith(action.name.lower())
