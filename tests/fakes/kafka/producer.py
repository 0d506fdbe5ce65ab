"""A transactional Producer: its queue, its state, and what it tells of rejected records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Any, NamedTuple
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from tests.deciding import message
from tests.fakes.kafka.admin import Metadata, metadata_of
from tests.fakes.kafka.awaits import Fault
from tests.fakes.kafka.cluster import RECORD_BATCH_BYTES_MAX, Cluster, Topic
from tests.fakes.kafka.consumer import GroupMetadata
from tests.fakes.kafka.coordinator import FencedByCoordinatorError, NoTransactionError
from tests.fakes.kafka.errors import HangingCall, fenced, timed_out, to_abort, wrong_state
from tests.fakes.kafka.log import Headers, PartitionLog, Record, Transaction

BATCH_BYTES = 61
RECORD_BYTES = 21
HEADER_BYTES = 10
"""What message format 2 adds, at most."""
DeliveryCallback = Callable[[KafkaError | None, Message], None]


class State(IntEnum):
    """Where a transactional producer is, as librdkafka's txn_state says."""

    NEW = 0
    READY = 1
    IN_TRANSACTION = 2
    COMMITTING = 3
    ABORTING = 4


class Queued(NamedTuple):
    """A record that waits to be sent."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    queued_ms: float
    on_delivery: DeliveryCallback | None

    def bytes_max(self) -> int:
        """Return what it takes of a batch at most."""
        headers = sum(HEADER_BYTES + len(name) + len(text or b"") for name, text in self.headers)
        return RECORD_BYTES + len(self.key or b"") + len(self.value or b"") + headers


class FakeProducer:
    """A Producer of the cluster.

    Args:
        cluster: whose.
        configuration: as confluent_kafka takes it; transactional.id, transaction.timeout.ms,
            message.max.bytes, retry.backoff.ms and on_delivery matter.
    """

    def __init__(self, cluster: Cluster, configuration: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._id = str(configuration["transactional.id"])
        self._timeout_ms = float(configuration.get("transaction.timeout.ms", 60_000))
        self._bytes_max = int(configuration.get("message.max.bytes", RECORD_BATCH_BYTES_MAX))
        self._backoff_ms = float(configuration.get("retry.backoff.ms", 100))
        self._on_delivery: DeliveryCallback | None = configuration.get("on_delivery")
        self._epoch = -1
        self._state = State.NEW
        self._fatal: KafkaError | None = None
        self._failed = 0
        self._has_written = False
        self._own: Transaction | None = None
        self._added: set[PartitionLog] = set()
        self._queue: list[Queued] = []
        self._reports: list[tuple[KafkaError, Message, DeliveryCallback | None]] = []

    def __len__(self) -> int:
        """Return how many records and reports wait."""
        return len(self._queue) + len(self._reports)

    def init_transactions(self, timeout: float = -1) -> None:
        """Take the transactional id over: end the predecessor's transaction, shut it out."""
        fault = self._enter("init_transactions")
        if fault is Fault.REFUSED:
            raise timed_out("init_transactions")
        if fault is Fault.HANGS:
            self._cluster.sleep(timeout * 1_000)
            raise timed_out("init_transactions")
        coordinator = self._cluster.coordinator
        while (epoch := coordinator.initialise(self._id, self._timeout_ms)) is None:
            over = self._cluster.wait_until(
                lambda: not coordinator.is_ending(self._id), timeout * 1_000
            )
            if not over:
                raise timed_out("init_transactions")
        self._cluster.awaits.after("init_transactions")
        if fault is Fault.LOST:
            raise timed_out("init_transactions")
        self._epoch, self._state = epoch, State.READY

    def begin_transaction(self) -> None:
        """Begin one; the brokers hear of it with the first record."""
        self._enter("begin_transaction")
        self._require(State.READY)
        self._state = State.IN_TRANSACTION
        self._failed, self._has_written = 0, False
        self._own, self._added = None, set()

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Queue a record; the arguments are confluent_kafka's, in their order.

        Raises:
            BufferError: the queue is full.
            KafkaException: it is larger than the producer takes, or no transaction is open.
        """
        fault = self._enter("produce")
        if fault is Fault.REFUSED:
            raise BufferError("the queue is full")
        if self._state != State.IN_TRANSACTION:
            raise wrong_state("produce: no transaction is open")
        now_ms = self._cluster.clock.now_ms
        sent_ms = timestamp or int(now_ms)
        report = on_delivery or callback or self._on_delivery
        one = Queued(topic, partition, key, value, list(headers or []), sent_ms, now_ms, report)
        if len(value or b"") > self._bytes_max:
            error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "larger than message.max.bytes")
            raise KafkaException(error)
        self._queue.append(one)
        if self._cluster.awaits.sends_already():
            self._send()
        self._cluster.awaits.after("produce")

    def poll(self, timeout: float = -1) -> int:
        """Send, and give reports of what was rejected."""
        del timeout
        self._enter("producer.poll")
        self._send()
        return self._report()

    def flush(self, timeout: float = -1) -> int:
        """Send everything and give all reports; return how much is left after the timeout."""
        fault = self._cluster.enter("flush")
        if fault is None:
            self._send()
        if self._queue:
            self._cluster.sleep(max(0.0, timeout) * 1_000)
            self._send()
        self._cluster.awaits.after("flush")
        self._report()
        return len(self)

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: GroupMetadata, timeout: float = -1
    ) -> None:
        """Make a group's offsets part of the transaction."""
        fault = self._enter("send_offsets")
        self._require(State.IN_TRANSACTION)
        if fault is Fault.REFUSED:
            raise timed_out("send_offsets_to_transaction")
        if fault is Fault.HANGS:
            self._cluster.sleep(timeout * 1_000)
            raise HangingCall
        group = self._cluster.group(group_metadata.group)
        group.add(self._transaction(), positions, self._cluster.clock.now_ms)
        self._cluster.awaits.after("send_offsets")
        if fault is Fault.LOST:
            raise timed_out("send_offsets_to_transaction")

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commit; to be asked again after a timeout, until the answer is known."""
        fault = self._enter("commit_transaction")
        if fault is Fault.HANGS:
            self._cluster.sleep(timeout * 1_000)
            raise timed_out("commit_transaction")
        if self._state != State.COMMITTING:
            self._require(State.IN_TRANSACTION)
        self._send()
        if self._failed:
            raise to_abort(f"{self._failed} messages failed delivery")
        self._state = State.COMMITTING
        self._end("commit_transaction", fault, commits=True)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort the records that were sent, and drop those in the queue."""
        del timeout
        fault = self._enter("abort_transaction")
        if self._state != State.ABORTING:
            self._require(State.IN_TRANSACTION)
        self._queue.clear()
        self._state = State.ABORTING
        self._end("abort_transaction", fault, commits=False)

    def purge(self, **_: bool) -> None:
        """Drop what is queued."""
        self._cluster.enter("purge")
        self._queue.clear()

    def close(self) -> None:
        """End what is open, if the brokers let it, and give the connection up."""
        self._cluster.enter("producer.close")
        self._queue.clear()
        if self._state == State.IN_TRANSACTION and self._has_written and self._fatal is None:
            with suppress(FencedByCoordinatorError, NoTransactionError):
                self._cluster.coordinator.end(self._id, self._epoch, commits=False)
        self._state = State.NEW

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Metadata:
        """Return all topics."""
        del topic, timeout
        self._cluster.enter("list_topics")
        return metadata_of(self._cluster)

    def _enter(self, call: str) -> Fault | None:
        fault = self._cluster.enter(call)
        if self._fatal is not None:
            raise KafkaException(self._fatal)
        return fault

    def _require(self, state: State) -> None:
        if self._state != state:
            raise wrong_state(f"the producer is {self._state.name}, not {state.name}")

    def _end(self, call: str, fault: Fault | None, *, commits: bool) -> None:
        if fault is Fault.REFUSED:
            raise timed_out(call)
        coordinator = self._cluster.coordinator
        if fault in (Fault.LATE, Fault.TWICE) and self._has_written:
            delay_ms = self._cluster.awaits.request_delay_ms()
            coordinator.commit_late(self._id, self._epoch, delay_ms)
            # librdkafka sends it again after its backoff, if its caller waits for that.
            self._cluster.sleep(self._backoff_ms)
            if fault is Fault.LATE:
                raise timed_out(call)
        try:
            # With nothing written there is nothing to end: librdkafka asks nobody.
            if self._has_written:
                coordinator.end(self._id, self._epoch, commits=commits)
        except FencedByCoordinatorError as error:
            raise self._lost() from error
        except NoTransactionError as error:
            raise wrong_state("there is no transaction") from error
        self._cluster.awaits.after(call)
        if fault is Fault.LOST:
            raise timed_out(call)
        self._state = State.READY

    def _transaction(self) -> Transaction:
        try:
            found = self._cluster.coordinator.transaction(self._id, self._epoch)
        except FencedByCoordinatorError as error:
            raise self._lost() from error
        self._has_written = True
        return found

    def _lost(self) -> KafkaException:
        self._fatal = fenced("transactional producer fenced by newer producer instance")
        return KafkaException(self._fatal)

    def _send(self) -> None:
        """Send what is queued, one batch for each partition."""
        if not self._queue or self._fatal is not None:
            return
        batches: dict[tuple[str, int], list[Queued]] = {}
        for one in self._queue:
            batches.setdefault((one.topic, self._partition_of(one)), []).append(one)
        self._queue = []
        for (topic, partition), batch in batches.items():
            self._send_batch(topic, partition, batch)

    def _send_batch(self, topic: str, partition: int, batch: list[Queued]) -> None:
        log = self._cluster.log(topic, partition)
        if log is None:
            self._reject(batch, KafkaError.UNKNOWN_TOPIC_OR_PART)
        elif log.leaderless_until_ms > self._cluster.clock.now_ms:
            self._keep(batch)
        elif (code := _rejection(self._cluster.topics[topic], batch)) is not None:
            self._reject(batch, code)
        else:
            self._append(log, batch)

    def _append(self, log: PartitionLog, batch: list[Queued]) -> None:
        try:
            transaction = self._transaction()
        except KafkaException:
            self._reject(batch, KafkaError.INVALID_PRODUCER_EPOCH)
            return
        if self._own is not transaction and log in self._added:
            # Only a partition that it adds would let it begin one more: it was ended for it.
            self._reject(batch, KafkaError.INVALID_TXN_STATE)
            return
        self._own = transaction
        self._added.add(log)
        for one in batch:
            log.append(Record(one.key, one.value, one.headers, one.timestamp_ms, transaction))

    def _keep(self, batch: list[Queued]) -> None:
        """Wait for a leader for message.timeout.ms, which is the timeout of the transaction."""
        too_old_ms = self._cluster.clock.now_ms - self._timeout_ms
        late = [one for one in batch if one.queued_ms <= too_old_ms]
        self._reject(late, KafkaError._MSG_TIMED_OUT)
        self._queue.extend(one for one in batch if one.queued_ms > too_old_ms)

    def _partition_of(self, one: Queued) -> int:
        topic = self._cluster.topics.get(one.topic)
        if one.partition >= 0 or topic is None:
            return max(0, one.partition)
        return crc32(one.key or one.value or b"") % len(topic.partitions)

    def _reject(self, batch: Iterable[Queued], code: int) -> None:
        for one in batch:
            self._failed += 1
            made = message(topic=one.topic, partition=self._partition_of(one), key=one.key)
            self._reports.append((KafkaError(code), made, one.on_delivery))

    def _report(self) -> int:
        reports, self._reports = self._reports, []
        if reports and self._fatal is not None:
            # confluent_kafka leaves the error pending while the callback runs, which then breaks.
            raise SystemError("a result with an exception set") from KafkaException(self._fatal)
        for error, reported, on_delivery in reports:
            if on_delivery is not None:
                on_delivery(error, reported)
        return len(reports)


def _rejection(topic: Topic, batch: list[Queued]) -> int | None:
    """Return why a topic does not take a batch: a KafkaError code."""
    if topic.is_denied:
        return int(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    if topic.is_compacted and any(one.key is None for one in batch):
        return int(KafkaError.INVALID_RECORD)
    if topic.bytes_max >= RECORD_BATCH_BYTES_MAX:
        return None  # librdkafka cuts its batches smaller than that
    size = BATCH_BYTES + sum(one.bytes_max() for one in batch)
    return int(KafkaError.MSG_SIZE_TOO_LARGE) if size > topic.bytes_max else None
