"""The rule for the sink's transaction timeout, and what else the settings mean for the sink."""

from __future__ import annotations

import pytest

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.streaming.start.sink_choices import sink_settings
from checkback.streaming.start.transaction_timeout import (
    LEAST_MS,
    choose_timeout_ms,
    ordinary_batch_ms,
)


def test_the_sink_knows_what_the_settings_say() -> None:
    settings = Settings(application_id="shop", master="local[3]")

    sink = sink_settings(settings, {"bootstrap.servers": "b:1"}, "6a5b")

    assert sink.marker_group == "shop-marker-6a5b"
    assert sink.processes == 3
    assert sink.transaction_timeout_ms == LEAST_MS
    assert sink.pipeline.record_bytes_max > settings.max_message_bytes


@pytest.mark.parametrize(
    ("trigger_ms", "batch_ms", "limit_ms", "chosen_ms"),
    [
        (0, None, 900_000, 60_000),
        (0, 500, 900_000, 60_000),
        (0, 20_000, 900_000, 200_000),
        (30_000, 30_100, 900_000, 60_000),
        (30_000, 40_000, 900_000, 400_000),
        (300_000, 20_000, 900_000, 300_000),
        (3_600_000, None, 900_000, 900_000),
        (0, 120_000, 900_000, 900_000),
        (3_600_000, None, None, 900_000),
        (0, None, 30_000, 30_000),
    ],
)
def test_ten_batches_or_the_trigger_interval_at_least_a_minute_at_most_what_is_allowed(
    trigger_ms: int, batch_ms: int | None, limit_ms: int | None, chosen_ms: int
) -> None:
    settings = Settings(trigger_interval_ms=trigger_ms)

    assert choose_timeout_ms(settings, limit_ms, batch_ms) == chosen_ms


def test_what_is_set_counts_up_to_what_the_brokers_allow() -> None:
    settings = Settings(sink_transaction_timeout_ms=5_000)

    assert choose_timeout_ms(settings, 5_000, 60_000) == 5_000
    assert choose_timeout_ms(settings, None, 60_000) == 5_000
    with pytest.raises(ConfigurationError) as refusal:
        choose_timeout_ms(settings, 4_999, None)
    assert refusal.value.fields["limit_ms"] == 4_999


def test_a_batch_that_a_stop_cut_in_two_is_no_ordinary_one() -> None:
    planned = {batch: 10_000 * batch for batch in range(6)}
    committed = {batch: 10_000 * batch + 700 for batch in range(4)} | {4: 99_000_000}

    assert ordinary_batch_ms(planned, committed) == 700
    assert ordinary_batch_ms(planned, {}) is None
