"""Of a lost producer the error tells whether it was too slow or another job fenced it."""

from __future__ import annotations

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, FencedError
from checkback.sinks.kafka.transaction.errors import ProducerLostError, explain_loss
from checkback.sinks.settings import SinkSettings

TIMEOUT_MS = 12_000
SETTINGS = SinkSettings(Settings(), "q", {}, TIMEOUT_MS)
LOST = ProducerLostError("Somebody fenced it.", remedy="Look who.")


def test_a_producer_lost_before_its_timeout_was_fenced() -> None:
    error = explain_loss(LOST, SETTINGS, 7, TIMEOUT_MS - 1)

    assert isinstance(error, FencedError)
    assert (error.message, error.remedy) == ("Somebody fenced it.", "Look who.")


def test_a_producer_lost_after_its_timeout_was_too_slow_and_the_remedy_names_a_time() -> None:
    error = explain_loss(LOST, SETTINGS, 7, TIMEOUT_MS)

    assert isinstance(error, BrokerError)
    assert "Batch 7 took longer to write than sink_transaction_timeout_ms" in error.message
    assert f"Set sink_transaction_timeout_ms to {3 * TIMEOUT_MS} or more" in error.remedy
    assert error.fields == {"batch_id": 7, "open_ms": TIMEOUT_MS, "timeout_ms": TIMEOUT_MS}
