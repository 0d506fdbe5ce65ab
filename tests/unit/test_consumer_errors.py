"""Readers go on after errors that pass by themselves, and end with a remedy after others."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.read.errors import require_passing


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        (KafkaError._PARTITION_EOF, True),
        (KafkaError._ALL_BROKERS_DOWN, True),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError._UNKNOWN_TOPIC, False),
    ],
)
def test_only_errors_that_do_not_pass_end_a_reading(code: int, passes: bool) -> None:
    error = KafkaError(code)
    if passes:
        require_passing(error, "orders", 3)
        return
    with pytest.raises(BrokerError, match=r"Reading orders-3 failed") as raised:
        require_passing(error, "orders", 3)
    assert raised.value.fields["code"] == error.name()
