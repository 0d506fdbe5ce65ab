"""kafka-python's admin client: what a failed connection leads to, and that no thread stays."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

from checkback.deploy import admin as module
from checkback.deploy.admin import admin_client
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.kafka_python_admin import new_admin_client

CUT_OFF = KafkaConnectionError("socket disconnected")
TIMED_OUT = KafkaConnectionError("Connection timed out")
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "p",
}


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ([CUT_OFF, CUT_OFF], "refused the user name or the password"),
        ([CUT_OFF, TIMED_OUT, CUT_OFF], "refused the user name or the password"),
        ([TIMED_OUT], "can't be reached"),
        ([CUT_OFF, KafkaConnectionError("refused")], "can't be reached"),
    ],
)
def test_a_login_that_is_cut_off_again_and_again_counts_as_refused(
    monkeypatch: pytest.MonkeyPatch, errors: list[KafkaConnectionError], says: str
) -> None:
    """On a busy machine the client's time for connecting may end in the middle of one of them."""

    def fail(_settings: Any) -> None:
        for error in errors:
            logging.getLogger("kafka").error("Connection lost: %s (%s)", error, "bootstrap-0")
        raise KafkaTimeoutError

    monkeypatch.setattr(module, "new_admin_client", fail)

    with pytest.raises(BrokerError, match=says), admin_client("127.0.0.1:1", LOGIN):
        pass


def test_a_client_that_does_not_connect_leaves_no_thread_behind() -> None:
    before = threading.active_count()

    with pytest.raises(KafkaError):
        new_admin_client({"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 100})

    assert threading.active_count() == before
