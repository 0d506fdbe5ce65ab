"""Reads the check topic of a producer group and has each request answered.

The consumer group is the producer group: any live process answers, also for a transaction that
another, dead process began. An offset is committed once the answer is on the op topic, so a
rebalance or a restart loses no request; at worst one is answered twice, which the pipeline ignores.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from checkback.client.check_answer import CheckAnswers
from checkback.client.check_group import CheckGroup
from checkback.client.check_offsets import CheckOffsets
from checkback.client.check_pool import CheckPool
from checkback.client.check_request import read_check_request
from checkback.client.counters import Counters, Event
from checkback.client.message import MessageExt
from checkback.client.options import ProducerOptions
from checkback.client.outcome import remark_of
from checkback.protocol.errors import BrokerError, InvalidMessageError

_log = logging.getLogger(__name__)

POLL_TIMEOUT_MS: Final = 100
PAUSE_AFTER_ERROR_S: Final = 1.0
STUCK_LOOK_S: Final = 0.1
CLOSE_TIMEOUT_MS: Final = 1_000
TOPIC_SEEN_TIMEOUT_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class CheckJob:
    """A request and where it stands on the check topic."""

    partition: TopicPartition
    offset: int
    request: MessageExt


class CheckService:
    """The thread that reads check requests, and the pool that answers them.

    Args:
        open_consumer: opens a consumer of the group that is not yet subscribed.
        check_topic: the group's.
        answers: answers one request.
        counters: counts requests that came and that can't be read.
        options: sizes of the pool and of its queue.
    """

    def __init__(
        self,
        open_consumer: Callable[[], Any],
        check_topic: str,
        answers: CheckAnswers,
        counters: Counters,
        options: ProducerOptions,
    ) -> None:
        self._open_consumer = open_consumer
        self._check_topic = check_topic
        self._answers = answers
        self._counters = counters
        self._offsets: dict[TopicPartition, CheckOffsets] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._check_interval_ms = options.check_interval_ms
        self._join_max_ms = options.check_session_timeout_ms
        self._pool: CheckPool[CheckJob] = CheckPool(
            f"checkback-check-{answers.producer_group}",
            least=options.check_thread_pool_min_size,
            most=options.check_thread_pool_max_size,
            held=options.check_request_hold_max,
            work=self._work,
        )
        self._thread = threading.Thread(
            target=self._run, name=f"checkback-checks-{answers.producer_group}", daemon=True
        )

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self, timeout_s: float) -> int:
        """Stop reading, wait for answers under way; return how many are left running."""
        deadline_s = time.monotonic() + timeout_s
        self._answers.stopping.set()
        left = self._pool.close(timeout_s)
        self._answered.set()
        # Committing and leaving the group takes a moment, also when the pool took all the time.
        self._thread.join(max(CLOSE_TIMEOUT_MS / 1000, deadline_s - time.monotonic()))
        return left

    def _run(self) -> None:
        while not self._answers.stopping.is_set():
            try:
                self._read_until_stopped_or_stuck()
                self._wait_while_stuck()
            except (KafkaError, BrokerError) as error:
                _log.warning("Check requests can't be read, trying again: %s", remark_of(error))
                self._answers.stopping.wait(PAUSE_AFTER_ERROR_S)
            except Exception:
                _log.exception("Check requests can't be read, trying again")
                self._answers.stopping.wait(PAUSE_AFTER_ERROR_S)

    def _read_until_stopped_or_stuck(self) -> None:
        consumer = self._open_consumer()
        group = CheckGroup(self._forget)
        try:
            self._subscribe(consumer, group)
            while not self._answers.stopping.is_set() and not self._stuck():
                if self._join_is_lost(group):
                    return
                self._read_once(consumer)
            if self._answers.stopping.is_set():
                self._answered.wait()
            self._commit(consumer)
        finally:
            consumer.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)
            self._forget(list(self._offsets))

    def _subscribe(self, consumer: Any, group: CheckGroup) -> None:
        """Subscribe, and wait until the topic is seen.

        A consumer that joins before is given nothing, and joins again as soon as it sees it.
        """
        consumer.subscribe([self._check_topic], listener=group)
        consumer.end_offsets([TopicPartition(self._check_topic, 0)], TOPIC_SEEN_TIMEOUT_MS)

    def _join_is_lost(self, group: CheckGroup) -> bool:
        """Tell whether a join takes longer than the brokers wait for a member that is silent.

        kafka-python 3.0.12 forgets a join that began because the topic's partitions had changed,
        when a poll ends between its two answers. It sends no heartbeats then, is put out of the
        group, and never comes back by itself.
        """
        if group.joining_for_ms(time.monotonic()) <= self._join_max_ms:
            return False
        self._counters.add(Event.CHECKS_REJOINED)
        _log.warning("Joining the group for its checks took too long, joining anew")
        return True

    def _stuck(self) -> bool:
        """Tell whether no thread has answered for as long as one check follows the other."""
        return self._pool.stuck_for_s(time.monotonic()) * 1000 > self._check_interval_ms

    def _wait_while_stuck(self) -> None:
        """Stay out of the group while the listener hangs, so that others get its checks."""
        if not self._stuck():
            return
        self._counters.add(Event.CHECKS_GIVEN_UP)
        _log.error(
            "check_local_transaction hangs; checks are left to other processes until it ends"
        )
        while self._stuck() and not self._answers.stopping.wait(STUCK_LOOK_S):
            pass

    def _read_once(self, consumer: Any) -> None:
        room = self._pool.room()
        paused = consumer.paused()
        if room and paused:
            consumer.resume(*paused)
        elif not room and not paused:
            # Polling goes on while paused, or the group would take us for dead.
            consumer.pause(*consumer.assignment())
        for partition, records in consumer.poll(POLL_TIMEOUT_MS, max_records=room or 1).items():
            for record in records:
                self._take_up(partition, record)
        self._commit(consumer)

    def _take_up(self, partition: TopicPartition, record: Any) -> None:
        self._counters.add(Event.CHECK_RECEIVED)
        with self._lock:
            self._offsets.setdefault(partition, CheckOffsets()).started(record.offset)
        try:
            request = read_check_request(record.key, record.value, record.headers, record.timestamp)
        except InvalidMessageError as error:
            self._counters.add(Event.CHECK_UNREADABLE)
            _log.warning("Check request at %s/%d skipped: %s", partition, record.offset, error)
            self._finished(partition, record.offset)
        else:
            self._pool.offer(CheckJob(partition, record.offset, request))

    def _work(self, job: CheckJob) -> None:
        try:
            done = self._answers.answer(job.request)
        except Exception:
            _log.exception("The check of %s was not answered", job.request.transaction_id)
            done = True  # the next check request asks again
        if done:
            self._finished(job.partition, job.offset)

    def _finished(self, partition: TopicPartition, offset: int) -> None:
        with self._lock:
            if partition in self._offsets:
                self._offsets[partition].finished(offset)

    def _commit(self, consumer: Any) -> None:
        with self._lock:
            due = {
                partition: offset
                for partition, offsets in self._offsets.items()
                if (offset := offsets.committable()) is not None
                and offset != self._committed.get(partition)
            }
        if due:
            consumer.commit(
                {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in due.items()}
            )
            self._committed.update(due)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            for partition in partitions:
                self._offsets.pop(partition, None)
                self._committed.pop(partition, None)
