"""The commands' admin client: what a failed connection leads to, and that no thread stays."""

from __future__ import annotations

import threading

import pytest
from kafka.errors import KafkaError

from checkback.deploy.admin import admin_client
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.kafka_python_admin import new_admin_client


@pytest.mark.parametrize("name", ["ca", "certificate", "key"])
def test_a_missing_file_is_named_before_anything_connects(name: str) -> None:
    kafka = {"security.protocol": "SSL", f"ssl.{name}.location": "/nowhere/file.pem"}
    with (
        pytest.raises(BrokerError, match=r"kafka\.ssl\.\*\.location names is missing"),
        admin_client("127.0.0.1:1", kafka),
    ):
        pass


def test_a_client_that_does_not_connect_leaves_no_thread_behind() -> None:
    before = threading.active_count()

    with pytest.raises(KafkaError):
        new_admin_client({"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 100})

    assert threading.active_count() == before
