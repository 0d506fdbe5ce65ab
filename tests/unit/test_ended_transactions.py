"""Brokers that refuse records because the transaction is over have nothing against the records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from tests.deciding import page_outcome
from tests.unit.test_touched_markers import BARE, NAMES, finals

from checkback.protocol.records import half_headers
from checkback.sinks.kafka.epoch import begin_epoch
from checkback.sinks.kafka.transaction import ABORTED_CODES
from checkback.sinks.writers import WriteRequest, Writers
from checkback.state import Action
from checkback.testing.fake_kafka import Awaits, Clock, Cluster, installed, producer


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(Awaits(Clock()))
    for name in (NAMES.half, NAMES.op, NAMES.refused, NAMES.settled, "orders"):
        made.create_topic(name, 1)
    headers = half_headers(
        producer_group="g", transaction_id="0", real_topic="orders", properties={}
    )
    made.write(NAMES.half, 0, None, b"0", headers)
    with installed(made):
        yield made


@pytest.mark.parametrize("code", sorted(ABORTED_CODES), ids=lambda code: KafkaError(code).name())
def test_a_batch_whose_transaction_was_ended_is_written_by_the_next_producer(
    cluster: Cluster, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = begin_epoch(BARE, 1, (), 0)
    codes = [code]
    monkeypatch.setattr(producer, "_rejection", lambda *_: codes.pop() if codes else None)

    decided = page_outcome(0, (Action.COMMIT, 0, 0, 0))
    Writers().write(WriteRequest(settings, 0, 0, 0, [decided.pack()]))

    assert not codes
    assert finals(cluster) == [b"0"]
    assert cluster.topics[NAMES.refused].partitions[0].end == 0
