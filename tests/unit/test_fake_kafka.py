"""What the Kafka in memory does that no test can ask of a broker: time, faults, seams."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tests.fakes.kafka.awaits import Awaits, Fault, SimulatedCrash
from tests.fakes.kafka.clock import Clock
from tests.fakes.kafka.cluster import DAY_MS, Cluster
from tests.fakes.kafka.consumer import FakeConsumer
from tests.fakes.kafka.errors import HangingCall
from tests.fakes.kafka.producer import FakeProducer
from tests.fakes.kafka.seams import SEAMS, SeamError, call_within, installed

from checkback.sinks.kafka.transaction import producer as transaction
from checkback.sinks.kafka.transaction.producer import HangingCallError

TIMEOUT_MS = 10_000
PLACE = ("t", 0)


class Scripted(Awaits):
    """Faults by call, each once."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.faults: dict[str, Fault] = {}
        self.dies_after = ""
        self.delay_ms = 0.0

    def before(self, call: str) -> Fault | None:
        return self.faults.pop(call, None)

    def after(self, call: str) -> None:
        if call == self.dies_after:
            raise SimulatedCrash

    def marker_delay_ms(self) -> float:
        return self.delay_ms


@pytest.fixture
def awaits() -> Scripted:
    return Scripted()


@pytest.fixture
def cluster(awaits: Scripted) -> Cluster:
    made = Cluster(awaits)
    made.create_topic("t", 2)
    return made


def open_producer(cluster: Cluster) -> FakeProducer:
    settings = {"transactional.id": "id", "transaction.timeout.ms": TIMEOUT_MS}
    producer = FakeProducer(cluster, settings)
    producer.init_transactions(1)
    producer.begin_transaction()
    return producer


def send(cluster: Cluster, producer: FakeProducer) -> None:
    producer.produce("t", b"a", None, 0)
    producer.produce("t", b"b", None, 1)
    assert producer.flush(1) == 0
    place = TopicPartition(*PLACE, 5, "ours")
    group = FakeConsumer(cluster, {"group.id": "g"}).consumer_group_metadata()
    producer.send_offsets_to_transaction([place], group, 1)


def visible(cluster: Cluster, partition: int) -> list[bytes | None]:
    log = cluster.topics["t"].partitions[partition]
    return [log.records[at].value for at in range(log.last_stable_offset) if log.is_visible(at)]


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(KafkaException) as failure:
        call()
    error = failure.value.args[0]
    assert isinstance(error, KafkaError)
    return int(error.code())


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(
    cluster: Cluster,
) -> None:
    producer = open_producer(cluster)
    send(cluster, producer)
    cluster.clock.now_ms += TIMEOUT_MS
    cluster.tick()

    assert visible(cluster, 0) == []
    assert cluster.topics["t"].partitions[0].last_stable_offset == 2
    assert code_of(lambda: producer.commit_transaction(1)) == KafkaError._FENCED


def test_a_commit_whose_answer_was_lost_is_asked_for_again(
    cluster: Cluster, awaits: Scripted
) -> None:
    producer = open_producer(cluster)
    send(cluster, producer)
    awaits.faults["commit_transaction"] = Fault.LOST

    assert code_of(lambda: producer.commit_transaction(1)) == KafkaError._TIMED_OUT
    assert visible(cluster, 0) == [b"a"]
    assert code_of(producer.begin_transaction) == KafkaError._STATE
    producer.commit_transaction(1)
    producer.begin_transaction()


@pytest.mark.parametrize(
    ("fault", "has_successor", "later"),
    [(Fault.REFUSED, False, []), (Fault.LATE, False, [b"a"]), (Fault.LATE, True, [])],
    ids=["never arrived", "given up", "of an older epoch"],
)
def test_a_commit_that_got_no_answer_changes_nothing_or_comes_later(
    cluster: Cluster, awaits: Scripted, fault: Fault, later: list[bytes], *, has_successor: bool
) -> None:
    producer = open_producer(cluster)
    send(cluster, producer)
    awaits.faults["commit_transaction"] = fault

    assert code_of(lambda: producer.commit_transaction(1)) == KafkaError._TIMED_OUT
    assert (visible(cluster, 0), cluster.group("g").committed) == ([], {})
    if has_successor:
        open_producer(cluster)
    cluster.sleep(1_000)
    assert visible(cluster, 0) == later


def test_the_first_request_of_a_commit_that_was_sent_twice_commits_what_is_open_when_it_comes(
    cluster: Cluster, awaits: Scripted
) -> None:
    producer = open_producer(cluster)
    send(cluster, producer)
    awaits.faults["commit_transaction"] = Fault.TWICE
    producer.commit_transaction(1)
    producer.begin_transaction()
    producer.produce("t", b"c", None, 0)
    assert producer.flush(1) == 0

    cluster.sleep(1_000)

    assert visible(cluster, 0) == [b"a", b"c"]
    # Only a partition that is added begins a transaction: here the broker refuses the record.
    producer.produce("t", b"d", None, 0)
    assert producer.flush(1) == 0
    assert code_of(lambda: producer.commit_transaction(1)) == KafkaError._INCONSISTENT


def test_initialising_may_take_all_of_its_time(cluster: Cluster, awaits: Scripted) -> None:
    producer = FakeProducer(cluster, {"transactional.id": "id"})
    awaits.faults["init_transactions"] = Fault.HANGS
    began_ms = cluster.clock.now_ms

    assert code_of(lambda: producer.init_transactions(3)) == KafkaError._TIMED_OUT
    assert cluster.clock.now_ms - began_ms == 3_000


def test_a_record_is_given_as_the_client_gives_it(cluster: Cluster) -> None:
    """By position, like to confluent_kafka's producer."""
    producer = open_producer(cluster)
    producer.produce("t", b"a", b"k", 1, None, None, 17, [("name", b"value")])
    producer.flush(1)

    [record] = cluster.topics["t"].partitions[1].records
    assert (record.timestamp_ms, record.headers) == (17, [("name", b"value")])


def test_a_decided_commit_stands_though_its_process_dies_and_its_markers_come_late(
    cluster: Cluster, awaits: Scripted
) -> None:
    producer = open_producer(cluster)
    send(cluster, producer)
    awaits.delay_ms, awaits.dies_after = 500.0, "commit_transaction"
    with pytest.raises(SimulatedCrash):
        producer.commit_transaction(1)

    assert (visible(cluster, 0), visible(cluster, 1)) == ([b"a"], [])
    assert cluster.group("g").is_pending([PLACE])
    open_producer(cluster)  # waits for the markers
    assert visible(cluster, 1) == [b"b"]
    assert cluster.group("g").committed[PLACE].offset == 5


def test_who_reads_committed_offsets_waits_for_a_transaction(cluster: Cluster) -> None:
    send(cluster, open_producer(cluster))
    began_ms = cluster.clock.now_ms
    consumer = FakeConsumer(cluster, {"group.id": "g", "isolation.level": "read_committed"})

    [found] = consumer.committed([TopicPartition(*PLACE)], 30)

    assert found.offset < 0
    assert cluster.clock.now_ms - began_ms == TIMEOUT_MS


def test_records_wait_for_a_leader_and_are_given_up_after_the_timeout(cluster: Cluster) -> None:
    producer = open_producer(cluster)
    log = cluster.topics["t"].partitions[0]
    log.leaderless_until_ms = cluster.clock.now_ms + 3_000
    producer.produce("t", b"a", None, 0)

    assert producer.flush(1) == 1
    assert producer.flush(5) == 0
    log.leaderless_until_ms = cluster.clock.now_ms + 2 * TIMEOUT_MS
    assert code_of(lambda: watermarks(cluster)) == KafkaError.NOT_LEADER_FOR_PARTITION
    producer.produce("t", b"late", None, 0)
    cluster.clock.now_ms += TIMEOUT_MS
    producer.flush(1)
    assert code_of(lambda: producer.commit_transaction(1)) != KafkaError._TIMED_OUT


def watermarks(cluster: Cluster) -> tuple[int, int]:
    return FakeConsumer(cluster, {"group.id": "g"}).get_watermark_offsets(TopicPartition("t", 0))


def test_offsets_expire_unless_a_transaction_is_about_to_set_them(cluster: Cluster) -> None:
    cluster.reset_offsets("g", [TopicPartition("t", number, 3) for number in (0, 1)])
    cluster.clock.now_ms += 8 * DAY_MS
    send(cluster, open_producer(cluster))

    cluster.expire_offsets()

    assert list(cluster.group("g").committed) == [PLACE]


def test_a_call_that_hangs_is_given_up() -> None:
    def hang() -> None:
        raise HangingCall

    with pytest.raises(HangingCallError):
        call_within(hang, 1.0)


def test_the_sink_gets_its_own_clients_back(cluster: Cluster) -> None:
    real = vars(transaction)["Producer"]
    with installed(cluster):
        assert vars(transaction)["Producer"] is not real
    assert vars(transaction)["Producer"] is real


def test_a_module_that_has_lost_a_name_is_told_of(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SEAMS, "checkback.sinks.kafka.read.record_reader", ("Consumer", "Gone"))

    with pytest.raises(SeamError, match=r"record_reader has no Gone"), installed(cluster):
        pass
