"""Which error a failed connection leads to; see checkback.deploy.admin."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from checkback.deploy import admin as module
from checkback.deploy.admin import admin_client
from checkback.protocol.errors import BrokerError

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
