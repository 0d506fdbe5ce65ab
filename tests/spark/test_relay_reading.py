"""What a relay accepts is what decoder and verification accept, whatever bytes a record has.

The records, and the plain reading that the decoder is compared with, are those of
test_decode_reference.py.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from tests.seeds import chosen_seed
from tests.spark.harness import KafkaRow
from tests.spark.plain_reading import BODY_BYTES_MAX, OP_RANGES, PlainReading
from tests.spark.test_decode_reference import names_a_system_topic, records
from tests.spark.test_verification_reference import random_rules

from checkback.protocol.properties import Headers
from checkback.protocol.topics import TopicNames
from checkback.relay.reading import RecordRules, parsed_op
from checkback.relay.record_verifier import RecordVerifier
from checkback.security import AccessControl
from checkback.state import EventKind
from checkback.state.formats.identity import identity_words


@dataclass
class Record:
    row: KafkaRow

    def key(self) -> bytes | None:
        return self.row.key

    def value(self) -> bytes | None:
        return self.row.value

    def headers(self) -> Headers | None:
        return self.row.headers  # type: ignore[return-value]  # values may be null, as Kafka's

    def timestamp(self) -> tuple[int, int]:
        return 2, self.row.time_ms


def differing(
    names: TopicNames, rules: AccessControl | None, given: list[KafkaRow]
) -> list[object]:
    """Return the records that one of the two accepts, or that they understand differently."""
    reading = PlainReading(names, 1_024, rules)
    verifier = None if rules is None else RecordVerifier(rules, names)
    relay = RecordRules(names, BODY_BYTES_MAX, verifier)
    found: list[object] = []
    accepted = 0
    for row in given:
        # An op that relays take is judged as any other.
        event = reading.op(row) if row.topic == names.op else reading.event(row)
        if row.topic == names.half:
            assert event is not None
            identity = relay.half(Record(row))
            words = None if identity is None else identity_words(*identity)
            is_half = event.kind == EventKind.HALF
            wanted = (event.identity, event.identity_rest) if is_half else None
            accepted += is_half
            if words != wanted:
                found.append((row, wanted, words))
        elif row.topic == names.op:
            assert event is not None
            said = parsed_op(Record(row))
            # Which halves an op may name is the job's to know: a relay has them in memory.
            first, end = OP_RANGES.get(row.partition, (0, 2**63))
            may_name = said.named is not None and first <= said.named < end
            is_op = event.kind == EventKind.OP
            accepted += is_op
            if (relay.accepts_op(Record(row), said, row.partition) and may_name) != is_op:
                found.append((row, event, said))
            elif is_op:
                words = identity_words(*said.identity)
                told = (said.named, said.state, *words)
                if told != (event.offset, event.detail, event.identity, event.identity_rest):
                    found.append((row, event, said))
    assert accepted > 20
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_relay_accepts_what_the_decoder_accepts(seed: int) -> None:
    chance = random.Random(chosen_seed(seed))
    names = TopicNames("p-", rules="p-rules")

    assert differing(names, None, records(chance, names)) == []


@pytest.mark.parametrize("seed", range(6))
def test_with_access_control_it_accepts_what_the_rules_and_the_decoder_accept(seed: int) -> None:
    chance = random.Random(chosen_seed(seed))
    names, rules = TopicNames(rules="rules"), random_rules(chance)
    given = [row for row in records(chance, names, rules) if not names_a_system_topic(row)]

    assert differing(names, rules, given) == []
