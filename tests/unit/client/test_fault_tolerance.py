"""RocketMQ's tables: how long each latency bans a broker."""

from collections.abc import Iterable

import pytest

from checkback.client.kafka.broker_watch import BrokerWatch, not_available_for_ms


@pytest.mark.parametrize(
    ("latency_ms", "ban_ms"),
    [
        (0, 0), (49, 0), (50, 0), (100, 0), (549, 0), (550, 2_000), (1_799, 2_000),
        (1_800, 5_000), (3_000, 6_000), (5_000, 10_000), (14_999, 10_000), (15_000, 30_000),
        (99_999, 30_000),
    ],
)  # fmt: skip
def test_the_ban_follows_the_table(latency_ms: int, ban_ms: int) -> None:
    assert not_available_for_ms(latency_ms) == ban_ms


def test_a_failure_counts_as_ten_seconds_of_latency() -> None:
    now_ms = [0]
    watch = BrokerWatch(lambda: now_ms[0])
    watch.silent(1)
    assert available_at(watch, now_ms, (9_999, 10_000)) == [False, True]


def test_a_quick_answer_does_not_shorten_a_ban() -> None:
    now_ms = [0]
    watch = BrokerWatch(lambda: now_ms[0])
    watch.answered(1, latency_ms=2_000)
    watch.answered(1, latency_ms=5)
    assert available_at(watch, now_ms, (4_999, 5_000)) == [False, True]


def available_at(watch: BrokerWatch, now_ms: list[int], times_ms: Iterable[int]) -> list[bool]:
    found = []
    for now_ms[0] in times_ms:
        found.append(watch.is_available(1))
    assert watch.is_available(7)  # an unknown broker is fine
    return found
