"""Stores half messages: acknowledged by all replicas, never twice under one id.

On one partition librdkafka's idempotent producer repeats a send without storing the half twice. If
another partition may help, the half goes there under a new transaction id: the first partition may
have stored the half after all, and a check would commit a second half with the same id as well
(RocketMQ #9909).
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Producer
from confluent_kafka import Message as KafkaMessage

from checkback.client.kafka.broker_watch import BrokerWatch
from checkback.client.kafka.clock import BrokerClock, steady_ms
from checkback.client.kafka.delivery_reports import DeliveryReport, PolledProducer, ThreadReport
from checkback.client.kafka.errors import NOT_SAFELY_STORED, REFUSALS
from checkback.client.kafka.queue_selection import BY_KEY, choose_partition
from checkback.client.kafka.topics import TopicFacts
from checkback.client.listener import one_line
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.sending.half import Half, InDoubtIds
from checkback.metrics.log_lines import facts
from checkback.protocol.errors import ConfigurationError, SendError
from checkback.protocol.signed_content import is_in_time
from checkback.security.record_signer import RecordSigner

_log = logging.getLogger(__name__)

NOT_RUN: Final = "The local transaction did not run."
SHARE_OF_A_TRY: Final = 0.3
"""Share of the budget after which a half is tried elsewhere, when its broker is away. A try with
less left would end in doubt because of the time, not because of a broker."""
GATHER_FROM: Final = 40
"""From this many threads that wait for a half, a producer gathers halves: they share requests."""
GATHER_MS: Final = 0.5
"""How long a gathered half waits for others."""
SHARED_TURN_S: Final = 0.01
"""How long gathered halves without a key go to the same partition."""
SHORT_OF_REPLICAS_S: Final = 5.0
"""How long a partition that had too few replicas is avoided."""


OpenProducer = Callable[[Callable[[Any], None]], Producer]
AwaitReport = tuple[DeliveryReport, float]
"""A report that has to be waited for, and the longest time to wait."""


class HalfProducer:
    """Writes half messages: to the partition of the record's key; without a key by turns.

    Args:
        open_producer: opens an idempotent producer, given a callback for errors of connections.
        in_doubt: gets the ids of halves that may or may not be stored.
        counters: count further tries and halves in doubt.
        avoid_faults: whether to avoid slow and failing brokers for a while.
        signer: signs each half as it is sent, None for no signature.
        open_gathering: opens a producer that waits for further records before it sends one; None
            for never.
    """

    def __init__(
        self,
        open_producer: OpenProducer,
        half_topic: str,
        facts: TopicFacts,
        in_doubt: InDoubtIds,
        counters: Counters,
        clock: BrokerClock,
        *,
        budget_ms: int,
        tries_max: int,
        avoid_faults: bool,
        signer: RecordSigner | None = None,
        open_gathering: OpenProducer | None = None,
    ) -> None:
        self.brokers = BrokerWatch()
        self._open_producer = open_producer
        self._open_gathering = open_gathering
        self._gathering: PolledProducer | None = None
        self._is_closed = False
        self._half_topic = half_topic
        self._facts = facts
        self._in_doubt = in_doubt
        self._counters = counters
        self._clock = clock
        self._budget_s = budget_ms / 1000
        self._share_s = self._budget_s * SHARE_OF_A_TRY
        self._tries_max = tries_max
        self._avoid_faults = avoid_faults
        self._signer = signer
        self._turns = itertools.count()
        self._under_way: deque[None] = deque()
        self._short_until_s: dict[int, float] = {}
        self._renewing = threading.Lock()
        self.polled = self._open(open_producer)

    def store(
        self, half: Half, new_report: Callable[[deque[Any]], DeliveryReport]
    ) -> Generator[AwaitReport, None, None]:
        """Store a half; yield each report to wait for. The half then says where it is stored.

        Raises:
            SendError: it was not stored; with the field ``in_doubt`` true: it may have been, and
                if so the answer to its check is rollback.
        """
        tried: set[int] = set()
        by_turns = half.key is None
        # A database transaction's halves come together anyway, and those of an event loop, too.
        under_way = self._under_way if new_report is ThreadReport else deque[None]()
        under_way.append(None)
        try:
            for left in range(self._tries_max - 1, -1, -1):
                are_many = len(under_way) >= GATHER_FROM
                polled = self._gatherer() if are_many else self.polled
                partition = self._next_partition(tried, are_many) if by_turns else BY_KEY
                report: Any = new_report(polled.done)
                problem = self._hand_over(polled, half, partition, report)
                if problem is None:
                    movable = left > 0 and by_turns
                    # Another try begins only when more than that is left.
                    yield report, self._share_s
                    if report.message is None and not (
                        movable and self._leader_is_down(partition, tried)
                    ):
                        yield report, half.left_s()
                    if self._is_stored(half, report):
                        if not self._is_untimely(half, report):
                            return
                        if left == 0:
                            raise self._signed_at_wrong_time(half)
                        self._prepare_next_try(half)
                        continue
                    problem = report.error
                tried.add(partition)
                code = None if problem is None else problem.code()
                if not self._should_retry(polled, tried, partition, code, half, left):
                    raise self._given_up(half, problem)
                self._prepare_next_try(half)
        finally:
            under_way.pop()

    def doubt(self, half: Half) -> None:
        """Note that a half may be stored, and that its local transaction will not run."""
        self._in_doubt.add(half.transaction_id)
        self._counters.add(ClientEvent.SEND_IN_DOUBT)

    def renew(self, used: PolledProducer) -> None:
        """Replace a producer that librdkafka gave up (a topic was deleted and made again, say)."""
        with self._renewing:
            if self._is_closed:
                return
            if used is self.polled:
                self.polled = self._open(self._open_producer)
            elif used is self._gathering:
                self._gathering = None
            else:
                return
        _log.warning("librdkafka gave up a producer; opened another")
        used.abandon()

    def close(self, timeout_s: float) -> None:
        """Send the halves that wait, then close."""
        with self._renewing:
            self._is_closed = True
        until_s = time.monotonic() + timeout_s
        for polled in filter(None, (self.polled, self._gathering)):
            polled.close(max(0.0, until_s - time.monotonic()))

    def _gatherer(self) -> PolledProducer:
        """Return the producer that gathers halves; where it can't be opened, the other one."""
        if self._gathering is None and self._open_gathering is not None:
            self._begin_to_gather(self._open_gathering)
        return self._gathering or self.polled

    def _begin_to_gather(self, open_producer: OpenProducer) -> None:
        with self._renewing:
            if self._gathering is not None or self._is_closed:
                return
            try:
                self._gathering = self._open(open_producer)
            except (ConfigurationError, RuntimeError) as error:  # no thread is left
                _log.warning("Halves are not gathered: %s", one_line(error))

    def _open(self, open_producer: OpenProducer) -> PolledProducer:
        return PolledProducer(
            lambda: open_producer(self.brokers.connection_failed),
            f"checkback-{self._half_topic}",
            self._sample,
            is_signed=self._signer is not None,
        )

    def _hand_over(
        self, polled: PolledProducer, half: Half, partition: int, report: Any
    ) -> KafkaError | None:
        """Give a half to librdkafka; return why it did not take it, None when it did."""
        headers = half.headers
        if self._signer is not None:
            # Signed for each try: the time has changed, and perhaps the id.
            half.signed_at_ms = self._signer.now_ms()
            headers = self._signer.half(self._half_topic, half.key, half.body, headers)
        return polled.hand_over(
            topic=self._half_topic,
            value=half.body,
            key=half.key,
            partition=partition,
            on_delivery=report,
            headers=headers,
        )

    def _is_stored(self, half: Half, report: Any) -> bool:
        """Tell whether the half is stored; note where, and how safely."""
        message: Any = report.message
        if message is None:
            return False
        half.partition = message.partition()
        if report.error is None:
            offset = message.offset()
            half.offset = -1 if offset is None else offset
            return offset is not None
        status = NOT_SAFELY_STORED.get(report.error.code())
        if status is None:
            return False
        half.status = status
        self.doubt(half)
        return True

    def _is_untimely(self, half: Half, report: Any) -> bool:
        """Tell whether a pipeline would refuse the half, because it was signed with a wrong time.

        Only the first half can be: its answer brings the brokers' time.
        """
        if half.signed_at_ms is None:
            return False
        kind, stored_at_ms = report.message.timestamp()
        if kind != TIMESTAMP_LOG_APPEND_TIME or is_in_time(half.signed_at_ms, stored_at_ms):
            return False
        self._clock.learn(stored_at_ms, steady_ms())
        return True

    def _next_partition(self, tried: set[int], are_many: bool) -> int:
        """Return the next partition in turn, among those that are best to take."""
        topic = self._facts.topic(self._half_topic)
        turn = int(time.monotonic() / SHARED_TURN_S) if are_many else next(self._turns)
        if not (tried or self._short_until_s or self._avoid_faults) and self.brokers.all_there():
            return topic.led[turn % len(topic.led)]
        now_s = time.monotonic()
        for number, until_s in list(self._short_until_s.items()):
            if until_s < now_s:
                self._short_until_s.pop(number, None)
        barred = tried | self._short_until_s.keys()
        barred |= {at for at in topic.led if self.brokers.is_avoided(topic.leaders[at])}
        return choose_partition(
            topic.leaders,
            turn,
            barred=frozenset(barred),
            brokers=self.brokers if self._avoid_faults else None,
        )

    def _leader_is_down(self, partition: int, tried: set[int]) -> bool:
        """Tell whether a partition's broker is away while another partition's is not."""
        away = self.brokers.is_away(self._leader(partition))
        return away and self._has_another(tried | {partition})

    def _has_another(self, tried: set[int]) -> bool:
        topic = self._facts.topic(self._half_topic)
        others = (topic.leaders.get(number) for number in topic.led if number not in tried)
        return any(not self.brokers.is_away(leader) for leader in others)

    def _leader(self, partition: int | None) -> int | None:
        return self._facts.topic(self._half_topic).leaders.get(
            partition if partition is not None else -1
        )

    def _should_retry(
        self,
        polled: PolledProducer,
        tried: set[int],
        partition: int,
        code: int | None,
        half: Half,
        left: int,
    ) -> bool:
        """Note what the try shows about the brokers; tell whether another try may succeed."""
        self._note(polled, partition, code)
        if left == 0 or half.left_s() < self._share_s:
            return False
        if code == KafkaError._FATAL:
            return True
        if partition == BY_KEY or code in REFUSALS:
            return False
        return self._has_another(tried)

    def _note(self, polled: PolledProducer, partition: int, code: int | None) -> None:
        if code == KafkaError._FATAL:
            self.renew(polled)
        elif code == KafkaError.NOT_ENOUGH_REPLICAS:
            self._short_until_s[partition] = time.monotonic() + SHORT_OF_REPLICAS_S
        elif code not in REFUSALS:
            self.brokers.silent(self._leader(partition))
        self._facts.refresh(self._half_topic)

    def _prepare_next_try(self, half: Half) -> None:
        self._in_doubt.add(half.transaction_id)
        id_ = half.transaction_id
        _log.info(
            "The half of %s is sent again under another id", id_, extra=facts(transaction_id=id_)
        )
        half.rename()
        self._counters.add(ClientEvent.SEND_RETRIED)

    def _given_up(self, half: Half, problem: KafkaError | None) -> SendError:
        reason = problem.str() if problem is not None else "there was no answer in time"
        if problem is not None and problem.code() in REFUSALS:
            self._counters.add(ClientEvent.SEND_FAILED)
            return SendError(
                f"The half message was not stored: {reason}. {NOT_RUN}",
                remedy="Send it again when Kafka takes messages.",
                in_doubt=False,
            )
        self.doubt(half)
        return SendError(
            f"It is in doubt whether the half message was stored: {reason}. {NOT_RUN}",
            remedy="Send the message again when Kafka answers; a check settles the doubtful one.",
            in_doubt=True,
            transaction_id=half.transaction_id,
        )

    def _signed_at_wrong_time(self, half: Half) -> SendError:
        self.doubt(half)
        return SendError(
            "The half message was signed by a clock that is far from the brokers', and a pipeline"
            f" with access control refuses it. {NOT_RUN}",
            remedy="Send the message again: the brokers' time is known now. Set the clock by NTP.",
            in_doubt=True,
            transaction_id=half.transaction_id,
        )

    def _sample(self, message: KafkaMessage) -> None:
        """Learn the brokers' time and speed from one of the records that were just stored."""
        kind, stored_at_ms = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            self._clock.learn(stored_at_ms, steady_ms())
        latency_s = message.latency()
        if message.topic() == self._half_topic and latency_s is not None:
            self.brokers.answered(self._leader(message.partition()), latency_s * 1000)
