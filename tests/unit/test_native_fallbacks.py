"""The sink counts each batch that the compiled part was meant for and Python wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.deciding import page_outcome
from tests.fakes.kafka import Awaits, Clock, Cluster, installed

from checkback.protocol.configuration import Settings
from checkback.protocol.records import half_headers
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.process import writer_pool as writers
from checkback.sinks.process.writer_pool import WriteRequest, Writers
from checkback.sinks.settings import SinkSettings
from checkback.state import Action

BARE = SinkSettings(Settings(native_sink=False), "query", {}, 10_000)


@pytest.mark.parametrize(
    ("wants_native", "fallbacks"), [(True, 1), (False, 0)], ids=["wanted", "turned off"]
)
def test_a_batch_without_the_compiled_part_is_counted_where_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, *, wants_native: bool, fallbacks: int
) -> None:
    monkeypatch.setattr(writers, "native", lambda: None)  # it is not there
    cluster = Cluster(Awaits(Clock()))
    for name in (BARE.topics.half, BARE.topics.op, BARE.topics.settled, "orders"):
        cluster.create_topic(name, 1)
    headers = half_headers(
        producer_group="g", transaction_id="1", real_topic="orders", properties={}
    )
    cluster.write(BARE.topics.half, 0, None, b"body", headers)
    decided = page_outcome(0, (Action.COMMIT, 0, 0, 0))

    with installed(cluster):
        pipeline = replace(BARE.pipeline, native_sink=wants_native)
        settings = replace(begin_epoch(BARE, 1, (), 0), pipeline=pipeline)
        answer = Writers().write(WriteRequest(settings, 0, 0, 0, [decided.pack()]))

    counts = answer.report.counts
    assert (counts["native_fallbacks"], counts["finals"]) == (fallbacks, 1)
