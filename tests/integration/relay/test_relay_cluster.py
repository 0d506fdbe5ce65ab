"""Relays over three brokers that die in turn: coordinators and leaders move in mid-commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deciding import decided_op
from tests.integration.relay.relaying import RelayStage, relay_process, relay_stage
from tests.integration.running import Topics, wait_until

from checkback.protocol.decided import OpKind
from checkback.testing.broker import Cluster

PROPERTIES = {"replica.lag.time.max.ms": "1500", "broker.session.timeout.ms": "3000"}
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "brokers", properties=PROPERTIES, heap_mb=256) as running:
        yield running


def test_brokers_die_in_turn_and_nothing_is_lost_or_doubled(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Each broker coordinates some of the six transactional ids; one coordinates the group."""
    topics, sent, is_over = (
        Topics(cluster.bootstrap_servers, "moved-"),
        list[str](),
        threading.Event(),
    )
    with relay_stage(topics) as stage:
        stage.take_all()
        relays = [relay_process(stage.settings, tmp_path / f"{at}", at) for at in (0, 1)]
        for relay in relays:
            relay.start()
            relay.wait_for("started")

        def send() -> None:
            while not is_over.is_set():
                stage.commit(f"m{len(sent)}", len(sent) % 2)
                sent.append(f"m{len(sent)}")

        sender = threading.Thread(target=send)
        sender.start()
        for number in (1, 2, 3):
            time.sleep(5)
            cluster.broker(number).kill()
            time.sleep(10)
            cluster.broker(number).restart()
        time.sleep(5)
        is_over.set()
        sender.join()
        wait_until(lambda: {*sent} <= {*decided(stage)}, what="a record of each op")

        def is_delivered() -> bool:
            sent.append(f"m{len(sent)}")
            stage.commit(sent[-1])
            wait_until(lambda: sent[-1] in {*decided(stage)}, what="a record of the last op")
            return sent[-1] in stage.finals()

        wait_until(is_delivered, what="a commit that a relay delivers")
        assert [relay.is_alive for relay in relays] == [True, True], [
            one.errors() for one in relays
        ]
        kinds, finals = stage.kinds(), stage.finals()
        assert [relay.terminate() for relay in relays] == [0, 0]
    print(f"{len(sent)} sent, {kinds.count(OpKind.DELIVERED)} delivered")

    assert len({*finals}) == len(finals) == kinds.count(OpKind.DELIVERED)
    assert {*finals} <= {*sent}


def decided(stage: RelayStage) -> Iterator[str]:
    """Yield the transaction ids of the ops that have a record."""
    for record in stage.topics.read(stage.names.decided):
        if decided_op(record.headers() or []) is not None:
            yield (record.key() or b"").decode()
