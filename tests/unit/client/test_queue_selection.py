"""Which queue is next, for given leaders, faults, turn and clock."""

from checkback.client.kafka.broker_watch import FaultTable
from checkback.client.kafka.queue_selection import choose_partition

LEADERS = {0: 1, 1: 2, 2: 3}


def test_turns_take_every_partition() -> None:
    assert [choose_partition(LEADERS, turn) for turn in range(6)] == [0, 1, 2, 0, 1, 2]


def test_the_broker_of_the_last_try_is_avoided() -> None:
    chosen = {choose_partition(LEADERS, turn, last_broker=2) for turn in range(9)}
    assert chosen == {0, 2}


def test_the_broker_of_the_last_try_is_taken_when_there_is_no_other() -> None:
    assert choose_partition({0: 1, 1: 1}, 1, last_broker=1) == 1


def test_partitions_without_a_leader_come_last() -> None:
    leaders = {0: None, 1: 2}
    assert {choose_partition(leaders, turn) for turn in range(4)} == {1}
    assert choose_partition({0: None}, 3) == 0


def test_a_partition_that_rejected_the_message_comes_last() -> None:
    barred = frozenset({0, 1})
    assert {choose_partition(LEADERS, turn, barred=barred) for turn in range(4)} == {2}
    assert choose_partition({0: 1}, 0, barred=frozenset({0})) == 0


def test_an_available_broker_is_taken_before_a_banned_one() -> None:
    faults = FaultTable()
    faults.answered(1, latency_ms=600, now_ms=0)  # banned for 2 s
    faults.answered(3, latency_ms=600, now_ms=0)
    chosen = {choose_partition(LEADERS, turn, faults=faults, now_ms=1_000) for turn in range(6)}
    assert chosen == {1}
    after = {choose_partition(LEADERS, turn, faults=faults, now_ms=2_000) for turn in range(6)}
    assert after == {0, 1, 2}


def test_the_broker_of_the_last_try_is_avoided_before_an_available_one_is_looked_for() -> None:
    """RocketMQ's two filters hold together: available and not the last, reachable and not it."""
    faults = FaultTable()
    faults.answered(1, latency_ms=600, now_ms=0)  # banned for 2 s, but reachable
    faults.failed(3, now_ms=0, reachable=False)
    chosen = {choose_partition(LEADERS, turn, last_broker=2, faults=faults) for turn in range(6)}
    assert chosen == {0}


def test_with_all_others_at_fault_the_broker_of_the_last_try_is_one_of_any() -> None:
    faults = FaultTable()
    for broker in (1, 3):
        faults.failed(broker, now_ms=0, reachable=False)
    chosen = {choose_partition(LEADERS, turn, last_broker=2, faults=faults) for turn in range(6)}
    assert chosen == {0, 1, 2}


def test_a_reachable_broker_is_taken_before_an_unreachable_one() -> None:
    faults = FaultTable()
    faults.failed(1, 0, reachable=False)
    faults.failed(2, 0, reachable=False)
    faults.failed(3, 0, reachable=True)
    assert {choose_partition(LEADERS, turn, faults=faults) for turn in range(6)} == {2}


def test_with_every_broker_at_fault_any_is_taken() -> None:
    faults = FaultTable()
    for broker in (1, 2, 3):
        faults.failed(broker, 0, reachable=False)
    chosen = {choose_partition(LEADERS, turn, faults=faults) for turn in range(6)}
    assert chosen == {0, 1, 2}
