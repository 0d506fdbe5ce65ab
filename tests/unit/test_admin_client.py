"""kafka-python's admin client: one that does not connect leaves no thread behind."""

from __future__ import annotations

import threading

import pytest
from kafka.errors import KafkaError

from checkback.sinks.kafka.cluster.kafka_python_admin import new_admin_client


def test_a_client_that_does_not_connect_leaves_no_thread_behind() -> None:
    before = threading.active_count()

    with pytest.raises(KafkaError):
        new_admin_client({"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 100})

    assert threading.active_count() == before
