"""What the clients of the marker protocol are made with, as librdkafka reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from checkback.protocol.configuration import Settings
from checkback.sinks.kafka.transaction import marker
from checkback.sinks.kafka.transaction import producer as transaction
from checkback.sinks.kafka.transaction.marker import MarkerStore
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.settings import SinkSettings

SETTINGS = SinkSettings(Settings(), "query", {"client.id": "mine"}, 9_000)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The settings of each client that is made, as long as nobody calls it."""
    found: list[dict[str, Any]] = []
    for module, name in ((marker, "Consumer"), (transaction, "Producer")):
        monkeypatch.setattr(module, name, found.append)
    monkeypatch.setattr(MarkedProducer, "_initialise", lambda _: None)
    monkeypatch.setattr(marker, "committed_offsets", lambda *_: [])
    return found


def test_librdkafka_knows_every_setting(made: list[dict[str, Any]]) -> None:
    """It refuses a name or a value that it does not know; no broker is asked."""
    MarkedProducer(SETTINGS, 3)
    Producer(made[-1])
    MarkerStore(SETTINGS)
    Consumer(made[-1]).close()
    with pytest.raises(KafkaException, match="No such configuration property"):
        Producer({**made[0], "no.such.setting": "1"})


def test_a_producer_is_of_its_state_partition_and_bounded_by_the_settings(
    made: list[dict[str, Any]],
) -> None:
    MarkedProducer(SETTINGS, 3)

    assert contains(
        made[-1],
        {
            "transactional.id": SETTINGS.transactional_id(3),
            "transaction.timeout.ms": 9_000,
            "message.max.bytes": SETTINGS.pipeline.record_bytes_max,
            "client.id": "mine",
            "partitioner": "murmur2_random",
            "allow.auto.create.topics": False,
            "delivery.report.only.error": True,
            "retry.backoff.ms": transaction.RETRY_BACKOFF_MS,
            "queue.buffering.max.kbytes": transaction.QUEUE_KIBIBYTES_MAX,
        },
    )


def test_a_connections_settings_change_no_setting_of_the_protocol(
    made: list[dict[str, Any]],
) -> None:
    protocol = {"transactional.id": "x", "transaction.timeout.ms": 1, "retry.backoff.ms": 1}
    MarkedProducer(replace(SETTINGS, connection={**protocol, "linger.ms": 1}), 3)

    assert not made[-1].items() & protocol.items()
    assert made[-1]["linger.ms"] == 1


def test_the_compiled_part_finds_the_client_by_its_settings(made: list[dict[str, Any]]) -> None:
    native: Any = SimpleNamespace(client_settings={"client.id": "found"}, newest_client=lambda: 77)
    producer = MarkedProducer(SETTINGS, 3, native)

    assert made[-1]["client.id"] == "found"
    assert producer.client == 77


def test_only_a_hasty_look_at_markers_passes_open_transactions_over(
    made: list[dict[str, Any]],
) -> None:
    store = MarkerStore(SETTINGS)
    store.read([3])
    shared = {"group.id": SETTINGS.marker_group, "enable.auto.commit": False, "client.id": "mine"}
    assert contains(made[-1], shared | {"isolation.level": "read_committed"})

    store.read_hastily([3])

    assert contains(made[-1], shared | {"isolation.level": "read_uncommitted"})
    assert len(made) == 2


def contains(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    return {name: found.get(name) for name in expected} == expected
