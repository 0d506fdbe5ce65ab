"""Headers of ours that a stranger sets: what the pipeline makes of a record believes none of them.

Each record here stands for what an application writes past the client, which refuses such names.
"""

from __future__ import annotations

import pytest
from tests.unit.operations.records import NAMES, record

from checkback.operations.parked.discarded import discarded_halves
from checkback.operations.topics.position import Position
from checkback.operations.transactions.history import discarded_event
from checkback.protocol import properties as names
from checkback.protocol import records
from checkback.protocol.properties import Headers
from checkback.protocol.refusals import RefusedReason, refusal_facts, refused_headers

FACTS = records.OperatorFacts("ann", "the bank was down", 42)
OF_EVERY_FINAL = {names.PGROUP, names.UNIQ_KEY, names.KEYS, names.TAGS}
POSITION = [(names.TRAN_PREPARED_QUEUE_OFFSET, b"7"), (names.TRAN_HALF_QUEUE_ID, b"1")]
HALF = records.half_headers(
    producer_group="g", transaction_id="u", real_topic="orders", properties={"a": "b"}
)
OURS = sorted(names.RESERVED_PROPERTIES - OF_EVERY_FINAL)


def strange(name: str) -> Headers:
    """A half that says it first, and last as well."""
    return [(name, b"0:9"), *HALF, (name, b"0:9")]


@pytest.mark.parametrize("name", OURS)
def test_a_final_has_none_of_our_names_but_its_own(name: str) -> None:
    assert records.final_parts(strange(name), 1, 7).headers == [
        (names.PGROUP, b"g"), (names.UNIQ_KEY, b"u"), ("a", b"b"), *POSITION,
    ]  # fmt: skip


def test_a_second_header_of_a_name_leads_nowhere_else() -> None:
    """Verification looks at the first, which alone stands at its place in protocol order."""
    twice = [*HALF, (names.REAL_TOPIC, b"another"), (names.PGROUP, b"h"), (names.UNIQ_KEY, b"v")]

    assert records.final_parts(twice, 1, 7).real_topic == "orders"
    for name in (names.REAL_TOPIC, names.PGROUP, names.UNIQ_KEY):
        assert names.text_value(twice, name) == names.text_value(HALF, name)


@pytest.mark.parametrize("name", OURS)
def test_what_a_check_request_adds_is_the_pipelines(name: str) -> None:
    told = records.check_headers(strange(name), 1, 7, 2, 60_000)

    added = told[-4:]
    assert [name for name, _ in added] == [
        names.TRANSACTION_CHECK_TIMES, names.TRANSACTION_CHECK_INTERVAL_MS,
        names.TRAN_PREPARED_QUEUE_OFFSET, names.TRAN_HALF_QUEUE_ID,
    ]  # fmt: skip
    assert all(dict(told[:-4]).get(name) is None for name, _ in added)


@pytest.mark.parametrize("name", OURS)
def test_a_discarded_record_says_why_by_the_pipelines_word_and_is_no_note(name: str) -> None:
    headers = records.discarded_headers(strange(name), 1, 7, 15, "check limit")
    found = record(NAMES.discarded, headers, at=Position(0, 4))
    other = record(
        NAMES.discarded, records.discarded_headers(HALF, 1, 8, 15, "expired"), at=Position(0, 9)
    )

    listed = {one.record.at: one for one in discarded_halves([found, other])}

    assert set(listed) == {Position(0, 4), Position(0, 9)}
    assert [one.resumed_to for one in listed.values()] == ["", ""]
    assert listed[Position(0, 4)].reason == "check limit"
    assert listed[Position(0, 4)].half_at == Position(1, 7)
    assert discarded_event(found).facts == {"reason": "check limit", "check_times": 15}


@pytest.mark.parametrize("name", OURS)
def test_a_resumed_half_says_who_resumed_it_by_the_commands_word(name: str) -> None:
    discarded = records.discarded_headers(strange(name), 1, 7, 15, "check limit")

    resumed = records.resumed_half_headers(discarded, "0:4", FACTS)

    assert resumed[-4:] == records.action_headers(names.RESUME, "0:4", FACTS)
    assert not {name for name, _ in resumed[:-4]} & names.RESUME_HEADERS


@pytest.mark.parametrize(
    "name", [*OURS, *(name for name, _ in refused_headers([], RefusedReason.NOT_A_HALF, "t", 0, 0))]
)
def test_a_refused_record_says_why_by_the_pipelines_word(name: str) -> None:
    headers = refused_headers(strange(name), RefusedReason.NOT_A_HALF, "half", 1, 7)

    told = refusal_facts(headers)

    assert told.original == strange(name)
    assert (told.facts["reason"], told.facts["topic"], told.facts["offset"]) == (
        "NOT_A_HALF", "half", "7",
    )  # fmt: skip


def test_what_a_half_of_an_older_client_says_of_its_session_goes_nowhere() -> None:
    older = [*HALF, (names.DIRECT_ID, b"checkback-direct-g-1")]

    assert records.final_parts(older, 1, 7) == records.final_parts(HALF, 1, 7)
    assert names.DIRECT_ID not in dict(records.resumed_half_headers(older, "0:4", FACTS))
