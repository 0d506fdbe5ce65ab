"""The transactional producer: half message, local transaction, op, and answers to checks."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

from checkback.client.broker_clock import BrokerClock
from checkback.client.check_answer import CheckAnswers
from checkback.client.check_service import CheckService
from checkback.client.counters import Event
from checkback.client.doubt_settler import Doubt, DoubtSettler
from checkback.client.half_sender import HalfRecord, HalfSender, StoredHalf
from checkback.client.kafka_channel import RenewedChannel, close_producer
from checkback.client.listener import LocalTransactionState, TransactionListener
from checkback.client.message import Message, MessageQueue
from checkback.client.op_sender import OpSender
from checkback.client.options import ProducerKeywords
from checkback.client.outcome import EVENTS_BY_STATE, Outcome, run_listener
from checkback.client.producer import DefaultMQProducer
from checkback.client.results import SendStatus, TransactionSendResult
from checkback.client.topic_limits import record_bytes
from checkback.client.topic_setup import create_topic, require_half_and_op
from checkback.client.validation import check_message, check_timers, drop_delay
from checkback.protocol import properties as names
from checkback.protocol.errors import ConfigurationError, SendError
from checkback.protocol.records import Op, half_headers
from checkback.protocol.topics import plan_check_topic

_log = logging.getLogger(__name__)

NOT_RUN = Outcome(
    LocalTransactionState.ROLLBACK_MESSAGE,
    "the half was not safely stored, the local transaction did not run",
)


class TransactionMQProducer(DefaultMQProducer):
    """Sends messages whose visibility depends on a local transaction; plain ones as well.

    Args:
        producer_group: all processes of one application share it: any of them answers checks.
        bootstrap_servers: Kafka brokers, host:port, separated by commas.
        transaction_listener: runs local transactions and knows how they ended.
        options: see :class:`ProducerOptions`.

    Raises:
        ConfigurationError: the group, the listener or an option is not usable.
    """

    def __init__(
        self,
        producer_group: str,
        *,
        bootstrap_servers: str,
        transaction_listener: TransactionListener,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        super().__init__(producer_group, bootstrap_servers=bootstrap_servers, **options)
        if not isinstance(transaction_listener, TransactionListener):
            raise ConfigurationError(
                f"transaction_listener is {transaction_listener!r}.",
                remedy="Give an object of a class derived from TransactionListener.",
            )
        self.transaction_listener = transaction_listener
        self._clock = BrokerClock()

    def send_message_in_transaction(
        self, message: Message, arg: Any = None
    ) -> TransactionSendResult:
        """Store a half message, run the local transaction, and say how it ended.

        The half is stored by all replicas before the local transaction runs. The op is sent
        without waiting: if it is lost, a check asks for the outcome later.

        Args:
            message: what the consumer of its topic gets once committed.
            arg: passed to the listener.

        Returns:
            Where the half is, and how the local transaction ended. With a send status other than
            SEND_OK it did not run, and the half is rolled back (as RocketMQ does).

        Raises:
            InvalidMessageError: the message can't be sent as it is; nothing was sent.
            LifeCycleError: not started, shut down, or forked.
            SendError: the half was not stored, or nobody knows (field ``in_doubt``); the local
                transaction did not run.
        """
        self._require_running()
        with self._running:
            message = self._checked(message)
            half = self._store(message)
            outcome = NOT_RUN
            if half.status is SendStatus.SEND_OK:
                outcome = self._run_local_transaction(message, arg)
                self._ops.send_one_way(self._op(message, half, outcome))
            self.counters.add(EVENTS_BY_STATE[outcome.state])
            return self._result(message, half, outcome)

    def broker_latencies_ms(self) -> dict[int, float]:
        """Return how long each leader broker took for its last answer to half messages.

        Raises:
            LifeCycleError: not started, shut down, or forked.
        """
        self._require_running()
        faults = self._channel.faults.snapshot()
        return {broker: fault.latency_ms for broker, fault in faults.items()}

    def _open(self) -> None:
        self._create_check_topic()
        options = self.options
        self._channel = RenewedChannel(
            self._clients.idempotent_producer,
            self.topics.half,
            options.send_msg_timeout_ms / 1000,
        )
        try:
            require_half_and_op(self._channel.current(), self.topics)
            # Apart from the halves': a lost op must not cost them their producer.
            self._op_producer = self._clients.op_producer()
        except BaseException:
            self._channel.close(0)
            raise
        self._halves = HalfSender(
            self._channel,
            self.topics.half,
            self.counters,
            self._clock,
            budget_ms=options.send_msg_timeout_ms,
            tries_max=self._tries_max,
            avoid_faults=options.send_latency_fault_enable,
        )
        self._ops = OpSender(self._op_producer, self.topics.op, self.counters, self._clock)
        self._doubts = DoubtSettler(
            self._clients.reader, self.topics.half, self.producer_group, self._ops, self.counters
        )
        self._doubts.start()
        self._checks = self._new_check_service()
        self._checks.start()

    def _close(self, left_s: Callable[[], float]) -> int:
        left = super()._close(left_s) + self._checks.close(left_s())
        self._doubts.close(left_s())
        self._channel.close(left_s())
        close_producer(self._op_producer, left_s())
        return left

    def _create_check_topic(self) -> None:
        plan = plan_check_topic(
            self.topics, self.producer_group, max_message_bytes=self.options.max_message_size
        )
        admin = self._clients.admin()
        try:
            create_topic(admin, plan)
        finally:
            admin.close()

    def _new_check_service(self) -> CheckService:
        answers = CheckAnswers(
            listener=self.transaction_listener,
            producer_group=self.producer_group,
            ops=self._ops,
            counters=self.counters,
            clock=self._clock,
            check_interval_ms=self.options.check_interval_ms,
            try_timeout_s=self.options.send_msg_timeout_ms / 1000,
            stopping=threading.Event(),
        )
        return CheckService(
            lambda: self._clients.check_consumer(self.producer_group),
            self.topics.check(self.producer_group),
            answers,
            self.counters,
            self.options,
        )

    def _checked(self, message: Message) -> Message:
        """Return the message as it is sent, with its transaction id.

        Raises:
            InvalidMessageError: it can't be sent as it is.
        """
        check_message(message, self.topics, self.options.max_message_size)
        check_timers(message)
        properties = dict(message.properties)
        if drop_delay(message):
            properties.pop(names.DELAY, None)
            self.counters.add(Event.DELAY_DROPPED)
            _log.warning("Delay level of a transactional message dropped: %s", message.topic)
        return replace(
            message, properties=properties, delay_time_level=0, transaction_id=uuid.uuid4().hex
        )

    def _half_record(self, message: Message) -> HalfRecord:
        """Return the half of a message.

        Raises:
            InvalidMessageError: it is too large for the half topic, or would be for the real one.
        """
        properties = dict(message.properties)
        if message.keys:
            properties[names.KEYS] = message.keys
        if message.tags:
            properties[names.TAGS] = message.tags
        headers = half_headers(
            producer_group=self.producer_group,
            transaction_id=message.transaction_id,
            real_topic=message.topic,
            properties=properties,
            real_queue_id=message.queue_id,
        )
        half = HalfRecord(message.body, message.record_key(), headers)
        size = record_bytes(half.body, half.key, half.headers)
        for topic in (self.topics.half, message.topic):
            self._limits.check(topic, message, size)
        return half

    def _store(self, message: Message) -> StoredHalf:
        """Store the half; one of which it is not known where it is, is rolled back when found."""
        sent_at_ms = self._clock.now_ms(time.time() * 1000)
        partition: object = None
        try:
            half = self._halves.send(self._half_record(message))
            if half.status is not SendStatus.SEND_OK:
                partition = half.partition
        except SendError as error:
            partition = error.fields.get("partition")
            raise
        finally:
            if isinstance(partition, int):
                self._doubts.settle(Doubt(partition, message.transaction_id, sent_at_ms))
        self.counters.add(Event.SENT)
        return half

    def _run_local_transaction(self, message: Message, arg: Any) -> Outcome:
        outcome = run_listener(
            lambda: self.transaction_listener.execute_local_transaction(message, arg)
        )
        if outcome.exception is not None:
            self.counters.add(Event.LISTENER_FAILED)
            _log.error(
                "The local transaction of %s failed; a check will ask how it ended",
                message.transaction_id, exc_info=outcome.exception,
            )  # fmt: skip
        return outcome

    def _op(self, message: Message, half: StoredHalf, outcome: Outcome) -> Op:
        return Op(
            half_partition=half.partition,
            half_offset=half.offset,
            producer_group=self.producer_group,
            transaction_id=message.transaction_id,
            state=int(outcome.state),
            remark=outcome.remark,
        )

    def _result(
        self, message: Message, half: StoredHalf, outcome: Outcome
    ) -> TransactionSendResult:
        return TransactionSendResult(
            send_status=half.status,
            msg_id=message.transaction_id,
            message_queue=MessageQueue(self.topics.half, half.partition),
            queue_offset=half.offset,
            transaction_id=message.transaction_id,
            local_transaction_state=outcome.state,
            exception=outcome.exception,
        )
