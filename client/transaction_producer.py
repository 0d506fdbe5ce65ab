"""The transactional producer: half message, local transaction, op, and answers to checks."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Unpack

from checkback.client.checks.answers import CheckAnswers
from checkback.client.checks.service import CheckService
from checkback.client.kafka.clock import BrokerClock, steady_ms
from checkback.client.kafka.delivery_reports import DeliveryReport, ThreadReport
from checkback.client.kafka.own_topics import create_check_topic, require_half_and_op, topic_exists
from checkback.client.kafka.status_watch import StatusWatch
from checkback.client.listener import (
    EVENTS_BY_STATE,
    CallbackResult,
    LocalTransactionState,
    TransactionListener,
    one_line,
    result_of,
)
from checkback.client.message import Message, MessageQueue
from checkback.client.observing.counters import ClientEvent
from checkback.client.options import ProducerKeywords
from checkback.client.producer import DefaultMQProducer
from checkback.client.results import SendStatus, TransactionSendResult
from checkback.client.sending.half import ID_AT, Half, InDoubtIds
from checkback.client.sending.half_producer import GATHER_MS, HalfProducer
from checkback.client.sending.op_producer import OpProducer
from checkback.client.sending.steps import LearnTopic, RunListener, Steps, traced_steps
from checkback.client.validation import (
    IMMUNITY_TIME_MAX_S,
    asks_for_delay,
    require_content,
    require_listener,
    require_message_class,
    require_no_timers,
    require_signable,
    require_topic,
)
from checkback.metrics.log_lines import facts
from checkback.protocol import properties as names
from checkback.protocol.errors import SendError
from checkback.protocol.properties import Headers
from checkback.protocol.record_size import headers_bytes_max, record_bytes_max
from checkback.protocol.records import Op, half_headers
from checkback.protocol.topics import plan_check_topic

_log = logging.getLogger(__name__)

IMMUNITY_AT: Final = names.HALF_PROTOCOL_ORDER.index(names.CHECK_IMMUNITY_TIME_IN_SECONDS)
IMMUNITY_BYTES: Final = len(str(IMMUNITY_TIME_MAX_S))
TEMPLATES_MAX: Final = 10_000
"""Number of topics and queues whose headers are kept; for others they are made for each message."""

HALF_NOT_SAFE = CallbackResult(
    LocalTransactionState.ROLLBACK_MESSAGE,
    "the half was not safely stored, the local transaction did not run",
)


class TransactionMQProducer(DefaultMQProducer):
    """Sends messages whose visibility depends on a local transaction; plain ones as well.

    Args:
        producer_group: all processes of one application share it: any of them answers checks.
        bootstrap_servers: Kafka brokers, host:port, separated by commas.
        transaction_listener: runs local transactions and knows how they ended.
        options: see `ProducerOptions`.

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
        require_listener(transaction_listener)
        self.transaction_listener = transaction_listener
        self._clock = BrokerClock()
        self._closers: list[Callable[[Callable[[], float]], int | None]] = []
        """Close what was opened, given how much time is left; the last one first."""

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
            NotFoundError: its topic does not exist; nothing was sent.
            LifeCycleError: not started, shut down, or forked.
            SendError: the half was not stored, or that is not known (``in_doubt``), or the
                pipeline refuses new transactions; the local transaction did not run.
        """
        self._require_running()
        with self._running:
            return self._drive(self._transaction(message, arg, ThreadReport))

    def _drive(self, steps: Steps) -> TransactionSendResult:
        """Do in this thread what the steps ask for."""
        try:
            request = next(steps)
            answer: object
            while True:
                try:
                    if isinstance(request, RunListener):
                        answer = self.transaction_listener.execute_local_transaction(*request)
                    elif isinstance(request, LearnTopic):
                        answer = None
                        self._facts.prepare(request.topic)
                    else:
                        report, timeout_s = request
                        answer = report.wait(timeout_s)
                except BaseException as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as end:
            result: TransactionSendResult = end.value
            return result

    def _transaction(
        self,
        message: Message,
        arg: Any,
        new_report: Callable[[deque[Any]], DeliveryReport],
        transaction_id: str = "",
    ) -> Steps:
        """Return the steps of a transaction.

        They wait for nothing themselves, so a thread and an event loop can take the same ones.
        Without a transaction id the half gets a new one.

        Raises:
            InvalidMessageError: it can't be sent as it is.
            SendError: the pipeline refuses new transactions.
        """
        sent = self._accept(message)
        id_ = transaction_id or self._new_id()

        def begin(carrying: Message) -> Steps:
            return self._steps(carrying, arg, new_report, id_)

        tracing = self.options.tracing
        return begin(sent) if tracing is None else traced_steps(tracing, sent, id_, begin)

    def _steps(
        self,
        message: Message,
        arg: Any,
        new_report: Callable[[deque[Any]], DeliveryReport],
        transaction_id: str,
    ) -> Steps:
        if not self._facts.knows(message.topic):
            yield LearnTopic(message.topic)
        half = self._half(message, transaction_id)
        try:
            yield from self._halves.store(half, new_report)
        except SendError:
            raise
        except BaseException:  # of the wait: Ctrl-C, or the end of the loop
            self._halves.doubt(half)
            raise
        self.counters.add(ClientEvent.SENT)
        outcome = HALF_NOT_SAFE
        if half.status is SendStatus.SEND_OK:
            try:
                outcome = result_of((yield RunListener(half.message, arg)))
            except Exception as error:
                outcome = self._failed_listener(half, error)
        self._end(half, outcome)
        return self._result(half, outcome)

    def _accept(self, message: Message) -> Message:
        """Validate a message; return it as it is sent.

        Raises:
            InvalidMessageError: it can't be sent as it is.
            SendError: the pipeline refuses new transactions.
        """
        require_message_class(message)
        if self._status is not None:
            self._status.require_accepting()
        require_content(message, self.options.max_message_size)
        if (message.topic, message.queue_id) not in self._templates:
            require_topic(message.topic, self.topics)
        if message.delay_time_level or message.properties:
            return self._without_delay(message)
        return message

    def _open(self) -> None:
        self._facts.start()
        # First: with a wrong prefix the producer would leave a check topic that no one reads.
        require_half_and_op(self._facts, self.topics)
        self._facts.prepare(self.topics.half)
        servers, timeout_s = self._clients.bootstrap_servers, self.options.start_timeout_ms / 1000
        plan = plan_check_topic(
            self.topics, self.producer_group, max_message_bytes=self.options.max_message_size
        )
        create_check_topic(self._facts, plan, servers, timeout_s)
        has_status = topic_exists(self._facts.admin, self.topics.status, servers, timeout_s)
        in_doubt = InDoubtIds()
        self._open_senders(in_doubt)
        self._status = None
        if has_status:
            watch = self._status = StatusWatch(self._clients.status_consumer, self.topics.status)
            self._closers.append(lambda left_s: watch.close(left_s()))
            watch.start(timeout_s)
        self._checks = self._new_check_service(in_doubt)
        self._closers.append(lambda left_s: self._checks.close(left_s()))
        self._checks.start()

    def _open_senders(self, in_doubt: InDoubtIds) -> None:
        """Open what sends halves and ops."""
        options = self.options
        self._templates: dict[tuple[str, int | None], tuple[Headers, int]] = {}
        self._queues: dict[int, MessageQueue] = {}
        self._budget_s = options.send_msg_timeout_ms / 1000
        signer = options.signer(lambda: self._clock.now_ms(steady_ms(), time.time() * 1000))
        self._signature_bytes = 0 if signer is None else signer.headers_bytes_max()
        self._halves = HalfProducer(
            self._clients.half_producer,
            self.topics.half,
            self._facts,
            in_doubt,
            self.counters,
            self._clock,
            budget_ms=options.send_msg_timeout_ms,
            tries_max=self._tries_max,
            avoid_faults=options.send_latency_fault_enable,
            signer=signer,
            open_gathering=partial(self._clients.half_producer, linger_ms=GATHER_MS),
        )
        self._closers.append(lambda left_s: self._halves.close(left_s()))
        # Not over the halves' producer: a lost op must not cost them that.
        self._ops = OpProducer(
            self._clients.op_producer,
            lambda: self._halves.polled,
            self.topics.op,
            self.counters,
            signer,
            self._halves.renew,
        )
        self._closers.append(lambda left_s: self._ops.close(left_s()))

    def _close(self, left_s: Callable[[], float]) -> int:
        left = super()._close(left_s)
        while self._closers:
            left += self._closers.pop()(left_s) or 0
        return left

    def _new_check_service(self, in_doubt: InDoubtIds) -> CheckService:
        answers = CheckAnswers(
            listener=self.transaction_listener,
            producer_group=self.producer_group,
            in_doubt=in_doubt,
            ops=self._ops,
            counters=self.counters,
            clock=self._clock,
            try_timeout_s=self.options.send_msg_timeout_ms / 1000,
            stopping=threading.Event(),
            tracing=self.options.tracing,
        )
        check_topic = self.topics.check(self.producer_group)
        return CheckService(
            lambda name: self._clients.check_consumer(check_topic, name),
            check_topic,
            answers,
            self.counters,
            self.options,
        )

    def _half(self, message: Message, transaction_id: str) -> Half:
        """Return the half of a message, with a copy of the message for the listener.

        Raises:
            InvalidMessageError: it is too large for a topic, or can't be signed.
        """
        if self._signature_bytes:
            require_signable(message)
        template, size = self._template(message.topic, message.queue_id)
        copy = object.__new__(type(message))
        copy.__dict__.update(message.__dict__)
        copy.transaction_id = transaction_id
        headers = template.copy()
        headers[ID_AT] = (names.UNIQ_KEY, transaction_id.encode())
        if message.properties or message.keys or message.tags:
            copy.properties = dict(message.properties)
            _add_own(headers, message)
            size += headers_bytes_max(headers[len(template) :])
        key = message.record_key()
        size += len(key or b"") + len(message.body or b"")
        self._facts.require_fits(message.topic, message, size)
        self._facts.require_fits(self.topics.half, message, size)
        return Half(copy, key, headers, self._new_id, self._budget_s)

    def _template(self, topic: str, queue_id: int | None) -> tuple[Headers, int]:
        """Return the headers that all halves for that topic and queue share, and their bytes."""
        known = self._templates.get((topic, queue_id))
        if known is None:
            template = half_headers(
                producer_group=self.producer_group,
                transaction_id=self._new_id(),
                real_topic=topic,
                properties={},
                real_queue_id=queue_id,
            )
            known = (
                template,
                record_bytes_max(None, b"", template) + (IMMUNITY_BYTES + self._signature_bytes),
            )
            if len(self._templates) < TEMPLATES_MAX:
                self._templates[topic, queue_id] = known
        return known

    def _without_delay(self, message: Message) -> Message:
        """Return a message as it is sent: without a delay, which a transaction can't have.

        Raises:
            InvalidMessageError: it has a timer property.
        """
        require_no_timers(message)
        if not asks_for_delay(message):
            return message
        properties = dict(message.properties)
        properties.pop(names.DELAY, None)
        self.counters.add(ClientEvent.DELAY_DROPPED)
        _log.warning("Delay level of a transactional message dropped: %s", message.topic)
        return replace(message, properties=properties, delay_time_level=0)

    def _failed_listener(self, half: Half, error: Exception) -> CallbackResult:
        self.counters.add(ClientEvent.LISTENER_FAILED)
        transaction_id = half.transaction_id
        _log.error(
            "The local transaction of %s failed; a check will ask how it ended",
            transaction_id, exc_info=error, extra=facts(transaction_id=transaction_id),
        )  # fmt: skip
        return CallbackResult(LocalTransactionState.UNKNOW, one_line(error), error)

    def _end(self, half: Half, outcome: CallbackResult) -> None:
        """Send the op one-way, if the local transaction ran."""
        self.counters.add(EVENTS_BY_STATE[outcome.state])
        if half.status is SendStatus.SEND_OK:
            self._ops.send_one_way(
                Op(
                    half.partition, half.offset, self.producer_group, half.transaction_id,
                    int(outcome.state), remark=outcome.remark,
                )
            )  # fmt: skip

    def _result(self, half: Half, outcome: CallbackResult) -> TransactionSendResult:
        transaction_id = half.transaction_id
        return TransactionSendResult(
            send_status=half.status,
            msg_id=transaction_id,
            message_queue=self._queue(half.partition),
            queue_offset=half.offset,
            transaction_id=transaction_id,
            local_transaction_state=outcome.state,
            exception=outcome.exception,
        )

    def _queue(self, partition: int) -> MessageQueue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = MessageQueue(self.topics.half, partition)
        return queue


def _add_own(headers: Headers, message: Message) -> None:
    """Append the message's own headers to those that all halves of its topic have."""
    for name, value in message.properties.items():
        if name == names.CHECK_IMMUNITY_TIME_IN_SECONDS:
            headers[IMMUNITY_AT] = (name, names.header_value(value))
        else:
            headers.append((name, names.header_value(value)))
    if message.keys:
        headers.append((names.KEYS, message.keys.encode()))
    if message.tags:
        headers.append((names.TAGS, message.tags.encode()))
