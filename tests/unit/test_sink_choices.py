"""What the settings mean for the sink."""

from __future__ import annotations

from checkback.protocol.configuration import Settings
from checkback.streaming.start.sink_choices import sink_settings
from checkback.streaming.start.transaction_timeout import LEAST_MS


def test_the_sink_knows_what_the_settings_say() -> None:
    settings = Settings(application_id="shop", master="local[3]")

    sink = sink_settings(settings, {"bootstrap.servers": "b:1"}, "6a5b")

    assert sink.marker_group == "shop-marker-6a5b"
    assert sink.processes == 3
    assert sink.transaction_timeout_ms == LEAST_MS
    assert sink.message_bytes_max > settings.max_message_bytes
