"""Reads the check topic of a producer group and has each request answered.

All processes of the producer group are one consumer group, which has the check topic's name: any
live process answers, also for a transaction that another, dead process began. An offset is
committed once the answer is on the op topic, so a rebalance or a restart loses no request; at worst
one is answered twice, which the pipeline ignores.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from checkback.client.checks.answers import CheckAnswers
from checkback.client.checks.request import read_check_request
from checkback.client.kafka.errors import cause_of
from checkback.client.listener import one_line
from checkback.client.message import MessageExt
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.options import ProducerOptions
from checkback.metrics.log_lines import facts

_log = logging.getLogger(__name__)


class CheckOffsets:
    """The offsets of one partition of a check topic, started in order and finished in any order."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._open: set[int] = set()

    def started(self, offset: int) -> None:
        """Note that an offset was started; gaps before it (compaction, aborts) are finished."""
        self._open.add(offset)
        self._next = offset + 1

    def finished(self, offset: int) -> None:
        """Note that an offset is finished; ignore one that was never started."""
        self._open.discard(offset)

    def committable(self) -> int | None:
        """Return the offset from which a restart continues, None where nothing was started."""
        return min(self._open, default=self._next)


POLL_S: Final = 0.1
WAIT_S: Final = 0.05
"""How soon a waiting thread notices that the service was closed."""
AT_ONCE_MAX: Final = 100
PAUSE_AFTER_ERROR_S: Final = 1.0
CLOSE_S: Final = 1.0
FENCED: Final = frozenset({KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID})
"""What a consumer says once, and never reads again: another one has its name. ``fatal()`` of a
record's error is never true."""


@dataclass(frozen=True, slots=True)
class CheckJob:
    """A request and where it stands on the check topic."""

    partition: int
    offset: int
    request: MessageExt


class CheckService:
    """The thread that reads check requests, and the threads that answer them.

    Args:
        open_consumer: opens a consumer of the group that is not yet subscribed, given the name by
            which its group knows it after a restart, or "".
        counters: counts requests that came and that can't be read.
        options: how many threads answer, how many requests wait for one, the name of the process.
    """

    def __init__(
        self,
        open_consumer: Callable[[str], Consumer],
        check_topic: str,
        answers: CheckAnswers,
        counters: Counters,
        options: ProducerOptions,
    ) -> None:
        self._open_consumer = open_consumer
        self._instance_name = options.instance_name
        self._check_topic = check_topic
        self._answers = answers
        self._counters = counters
        self._offsets: dict[int, CheckOffsets] = {}
        self._committed: dict[int, int] = {}
        # None: a rebalance came, and some of the partitions may be paused.
        self._paused: bool | None = False
        self._next_consumer: Consumer | None = None
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._jobs: queue.Queue[CheckJob] = queue.Queue(options.check_request_hold_max)
        self._at_work: deque[None] = deque()
        # Daemons, which those of a ThreadPoolExecutor are not: a listener that hangs must not keep
        # the process from ending.
        self._workers = [
            threading.Thread(
                target=self._answer_all,
                name=f"checkback-check-{answers.producer_group}-{number}",
                daemon=True,
            )
            for number in range(1, options.check_thread_pool_max_size + 1)
        ]
        self._thread = threading.Thread(
            target=self._run, name=f"checkback-checks-{answers.producer_group}", daemon=True
        )

    def start(self) -> None:
        """Begin to read.

        Raises:
            ConfigurationError: librdkafka takes the settings of no consumer.
            RuntimeError: the process can start no more threads.
        """
        # Opened here, so that the caller of start() learns of settings that can't work.
        self._next_consumer = self._open_consumer(self._instance_name)
        for thread in (*self._workers, self._thread):
            thread.start()

    def close(self, timeout_s: float) -> int:
        """Stop reading, wait for answers under way; return how many are left running."""
        deadline_s = time.monotonic() + timeout_s
        self._answers.stopping.set()
        try:
            for worker in self._workers:
                # A listener may shut its producer down.
                if worker.ident is not None and worker is not threading.current_thread():
                    worker.join(max(0.0, deadline_s - time.monotonic()))
            left = len(self._at_work)
        finally:
            self._answered.set()
        # Committing and leaving the group needs a moment, even if the answers used all the time.
        if self._thread.ident is not None:
            self._thread.join(max(CLOSE_S, deadline_s - time.monotonic()))
        return left

    def _run(self) -> None:
        while not self._answers.stopping.is_set():
            try:
                self._read_until_stopped()
            except KafkaException as error:
                _log.warning("Check requests can't be read, trying again: %s", one_line(error))
                if cause_of(error).code() in FENCED:
                    self._give_name_up()
                self._answers.stopping.wait(PAUSE_AFTER_ERROR_S)
            except BaseException:  # SystemExit of a callback, too: no other thread reads requests
                _log.exception("Check requests can't be read, trying again")
                self._answers.stopping.wait(PAUSE_AFTER_ERROR_S)

    def _read_until_stopped(self) -> None:
        consumer = self._next_consumer or self._open_consumer(self._instance_name)
        self._next_consumer = None
        try:
            consumer.subscribe(
                [self._check_topic],
                on_assign=self._given,
                on_revoke=self._taken,
                on_lost=self._lost,
            )
            while not self._answers.stopping.is_set():
                self._read_once(consumer)
            self._answered.wait()
            self._commit(consumer)
        finally:
            consumer.close()
            self._forget(list(self._offsets))

    def _given(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        _log.info("Given %d partitions of %s", len(partitions), self._check_topic)
        self._paused = None

    def _taken(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit the answered offsets, so that the next owner does not answer them again."""
        try:
            self._commit(consumer)
        except KafkaException as error:
            _log.info("Answered checks are not committed: %s", one_line(error))
        self._lost(consumer, partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._forget([one.partition for one in partitions])

    def _read_once(self, consumer: Consumer) -> None:
        room = self._jobs.maxsize - self._jobs.qsize()
        if room and self._paused is not False:
            consumer.resume(consumer.assignment())
        elif not room and self._paused is not True:
            # Polling goes on while paused, or the group would take us for dead.
            consumer.pause(consumer.assignment())
        self._paused = not room
        for record in consumer.consume(min(room, AT_ONCE_MAX) or 1, POLL_S):
            error = record.error()
            if error is None:
                self._take_up(record)
            elif error.code() in FENCED:
                raise KafkaException(error)
            else:
                _tell(error)
        self._commit(consumer)

    def _give_name_up(self) -> None:
        """Read on without a name, beside the process that has taken it.

        Two processes that share one and both keep it would fence each other for ever.
        """
        if self._instance_name:
            _log.warning(
                "Another process of group %s has the instance_name %r; this one reads check "
                "requests without a name from now on. Give each process a name of its own.",
                self._answers.producer_group,
                self._instance_name,
            )
            self._instance_name = ""

    def _take_up(self, record: KafkaMessage) -> None:
        self._counters.add(ClientEvent.CHECK_RECEIVED)
        partition, offset = record.partition() or 0, record.offset() or 0
        with self._lock:
            self._offsets.setdefault(partition, CheckOffsets()).started(offset)
        try:
            request = read_check_request(
                record.key(), record.value(), record.headers() or [], record.timestamp()[1]
            )
        except Exception as error:
            # Any exception counts as read: else the same request would come again and again.
            self._counters.add(ClientEvent.CHECK_UNREADABLE)
            _log.warning("Check request at %d/%d skipped: %s", partition, offset, one_line(error))
            self._finished(partition, offset)
            return
        job = CheckJob(partition, offset, request)
        while not self._answers.stopping.is_set():
            with suppress(queue.Full):
                self._jobs.put(job, timeout=WAIT_S)
                return

    def _answer_all(self) -> None:
        while not self._answers.stopping.is_set():
            try:
                job = self._jobs.get(timeout=WAIT_S)
            except queue.Empty:
                continue
            self._at_work.append(None)
            try:
                self._answer(job)
            finally:
                self._at_work.pop()

    def _answer(self, job: CheckJob) -> None:
        try:
            done = self._answers.answer(job.request)
        except BaseException:  # SystemExit of the listener, too: other checks need the thread
            named = job.request.transaction_id
            _log.exception(
                "The check of %s was not answered", named, extra=facts(transaction_id=named)
            )
            done = True  # the next check request asks again
        if done:
            self._finished(job.partition, job.offset)

    def _finished(self, partition: int, offset: int) -> None:
        with self._lock:
            if partition in self._offsets:
                self._offsets[partition].finished(offset)

    def _commit(self, consumer: Consumer) -> None:
        with self._lock:
            due = {
                partition: offset
                for partition, offsets in self._offsets.items()
                if (offset := offsets.committable()) is not None
                and offset != self._committed.get(partition)
            }
        if due:
            places = [TopicPartition(self._check_topic, *place) for place in due.items()]
            consumer.commit(offsets=places, asynchronous=False)
            self._committed.update(due)

    def _forget(self, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                self._offsets.pop(partition, None)
                self._committed.pop(partition, None)


def _tell(error: KafkaError) -> None:
    """Log errors that librdkafka mends by itself; of connections only that all are broken."""
    known = error.code() == KafkaError._TRANSPORT
    _log.log(logging.DEBUG if known else logging.WARNING, "Check requests: %s", error.str())
