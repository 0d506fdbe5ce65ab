"""The reader of tests and audits sees what a consumer of committed records sees, and all of it."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.sinking import create_listed

from checkback.protocol.errors import BrokerError
from checkback.testing import Topics


@pytest.fixture
def topic(bootstrap_servers: str, unique: str) -> str:
    name = f"{unique}orders"
    create_listed(AdminClient({"bootstrap.servers": bootstrap_servers}), NewTopic(name, 2, 1))
    return name


def values(bootstrap_servers: str, topic: str) -> list[bytes]:
    return sorted(record.value() or b"" for record in Topics(bootstrap_servers, "").read(topic))


def test_an_aborted_transaction_is_not_evidence(bootstrap_servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for value, is_committed in ((b"a", True), (b"b", False), (b"c", True), (b"d", False)):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, value, partition=partition)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.flush(30)  # so that the record is there, and is aborted
            producer.abort_transaction(30)

    assert values(bootstrap_servers, topic) == [b"a", b"a", b"c", b"c"]


def test_an_empty_topic_is_read_to_its_end(bootstrap_servers: str, topic: str) -> None:
    assert values(bootstrap_servers, topic) == []


def test_a_topic_that_does_not_exist_is_an_error(bootstrap_servers: str, unique: str) -> None:
    with pytest.raises(BrokerError, match=f"{unique}nowhere"):
        values(bootstrap_servers, f"{unique}nowhere")
