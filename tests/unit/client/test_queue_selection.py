"""Which queue is next, for given leaders, turn and what is known of brokers."""

from confluent_kafka import KafkaError

from checkback.client.kafka.broker_watch import BrokerWatch
from checkback.client.kafka.queue_selection import choose_partition

LEADERS = {0: 1, 1: 2, 2: 3}


def test_turns_take_every_partition() -> None:
    assert [choose_partition(LEADERS, turn) for turn in range(6)] == [0, 1, 2, 0, 1, 2]


def test_partitions_without_a_leader_come_last() -> None:
    leaders = {0: None, 1: 2}
    assert {choose_partition(leaders, turn) for turn in range(4)} == {1}
    assert choose_partition({0: None}, 3) == 0


def test_a_partition_that_rejected_the_message_comes_last() -> None:
    barred = frozenset({0, 1})
    assert {choose_partition(LEADERS, turn, barred=barred) for turn in range(4)} == {2}
    assert choose_partition({0: 1}, 0, barred=frozenset({0})) == 0


def taken(brokers: BrokerWatch) -> set[int]:
    return {choose_partition(LEADERS, turn, brokers=brokers) for turn in range(6)}


def away(*brokers: int) -> BrokerWatch:
    watch = BrokerWatch()
    for broker in brokers:
        watch.connection_failed(KafkaError(KafkaError._TRANSPORT, f"kafka:9092/{broker}: Failed"))
    return watch


def test_an_available_broker_is_taken_before_a_banned_one() -> None:
    now_ms = 0
    watch = BrokerWatch(lambda: now_ms)
    watch.answered(1, latency_ms=600)  # banned for 2 s
    watch.answered(3, latency_ms=600)
    now_ms = 1_000
    assert taken(watch) == {1}
    now_ms = 2_000
    assert taken(watch) == {0, 1, 2}


def test_a_reachable_broker_is_taken_before_an_unreachable_one() -> None:
    watch = away(1, 2)
    watch.silent(3)
    assert taken(watch) == {2}


def test_with_every_broker_at_fault_any_is_taken() -> None:
    assert taken(away(1, 2, 3)) == {0, 1, 2}
