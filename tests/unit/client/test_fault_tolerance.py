"""RocketMQ's tables: how long each latency bans a broker."""

import pytest

from checkback.client.kafka.broker_watch import FaultTable, not_available_for_ms


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
    faults = FaultTable()
    faults.failed(1, now_ms=0, reachable=True)
    assert not faults.available(1, now_ms=9_999)
    assert faults.available(1, now_ms=10_000)


def test_a_quick_answer_does_not_shorten_a_ban() -> None:
    faults = FaultTable()
    faults.answered(1, latency_ms=2_000, now_ms=0)
    faults.answered(1, latency_ms=5, now_ms=100)
    assert not faults.available(1, now_ms=4_999)
    assert faults.available(1, now_ms=5_000)


def test_an_answer_makes_a_broker_reachable_again() -> None:
    faults = FaultTable()
    faults.failed(1, now_ms=0, reachable=False)
    assert not faults.reachable(1)
    faults.answered(1, latency_ms=5, now_ms=1)
    assert faults.reachable(1)


def test_an_unknown_broker_is_fine() -> None:
    faults = FaultTable()
    assert faults.available(7, now_ms=0)
    assert faults.reachable(7)
    assert faults.snapshot() == {}
