"""A fake check service for unit tests of a listener or a producer: no Kafka, no Spark, no waiting.

It calls the listener as the client does: the message has passed through the same headers as in a
check request, and an exception counts as unknown. A producer sends to it instead of Kafka.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from checkback.client.checks.request import read_check_request
from checkback.client.listener import (
    CallbackResult,
    LocalTransactionState,
    TransactionListener,
    run_listener,
)
from checkback.client.message import Message, MessageQueue
from checkback.client.producer import CallsInFlight, ServiceState
from checkback.client.results import SendStatus, TransactionSendResult
from checkback.client.sending.steps import Request, RunListener, Steps
from checkback.client.sessions.log_table import TransactionLog
from checkback.client.sessions.producer import Producer
from checkback.client.sessions.sent import SentMessage
from checkback.client.validation import require_group, require_message, require_no_timers
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.properties import Headers
from checkback.protocol.records import check_headers, half_headers
from checkback.protocol.topics import TopicNames

CHECKED_AT_MS: Final = 1_700_000_000_000


class Crash(Enum):
    """Where the application's process crashes."""

    BEFORE_LOCAL_TRANSACTION = "before the local transaction"
    BEFORE_OP = "after the local transaction, before the op"


class Verdict(Enum):
    """The verdict of a transaction."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    DISCARD = "discard"


VERDICTS: Final = {
    LocalTransactionState.COMMIT_MESSAGE: Verdict.COMMIT,
    LocalTransactionState.ROLLBACK_MESSAGE: Verdict.ROLLBACK,
}


class FakeTransaction:
    """One transaction of a FakeCheckService.

    Args:
        service: it has the listener that answers.
        message: the message as the listener got it, with its transaction id.
        offset: the half's offset.
    """

    def __init__(self, service: FakeCheckService, message: Message, offset: int) -> None:
        self.message = message
        self.verdict: Verdict | None = None
        self.check_times = 0
        self.failures: list[Exception] = []
        self._service = service
        self._offset = offset

    def ask(self, times: int = 1) -> Verdict | None:
        """Send check requests to the listener until it gives a verdict or the number is used up.

        After ``check_max`` requests the half is discarded instead.

        Args:
            times: send at most this many requests.

        Returns:
            The verdict, None if there is none yet.
        """
        for _ in range(times):
            if self.verdict is not None:
                break
            if self.check_times >= self._service.check_max:
                self.verdict = Verdict.DISCARD
            else:
                self.check_times += 1
                self.take(run_listener(self._check))
        return self.verdict

    def ask_until_settled(self) -> Verdict:
        """Send check requests until there is a verdict: a discard after ``check_max`` of them."""
        verdict = self.ask(self._service.check_max + 1)
        if verdict is None:
            raise AssertionError("not settled after check_max requests")
        return verdict

    def take(self, result: CallbackResult) -> None:
        """Note the result of a callback of the listener."""
        self.verdict = VERDICTS.get(result.state)
        if result.exception is not None:
            self.failures.append(result.exception)

    def _check(self) -> LocalTransactionState | None:
        half = _half_headers(self.message, self._service.group)
        headers = check_headers(half, 0, self._offset, self.check_times)
        key, body = self.message.record_key(), self.message.body
        request = read_check_request(key, body, headers, CHECKED_AT_MS)
        return self._service.listener.check_local_transaction(request)


class FakeCheckService:
    """Sends transactions to a listener, crashes where a test says so, and sends check requests.

    Given a `Producer`, it takes what that one sends; ``listener`` is then what answers its checks.

    Args:
        listener: the application's listener; a test may replace it by that of another process. Or
            the application's producer.
        group: producer group.
        check_max: number of requests after which a half is discarded; default: the pipeline's.

    Attributes:
        loses_ops: set it where the producer's process dies between the commit and the ops.

    Raises:
        ConfigurationError: no producer may have this group name.
    """

    def __init__(
        self,
        listener: TransactionListener | Producer,
        group: str = "group",
        check_max: int | None = None,
    ) -> None:
        require_group(group)
        self.listener: TransactionListener
        if isinstance(listener, Producer):
            self.listener = listener.listener
            listener.send_by(_FakeCore(self, listener.log))
        else:
            self.listener = listener
        self.group = group
        self.check_max = Settings().check_max if check_max is None else check_max
        self.loses_ops = False
        self.transactions: list[FakeTransaction] = []

    @property
    def finals(self) -> list[Message]:
        """The messages that consumers see, in the order of sending."""
        return [one.message for one in self.transactions if one.verdict is Verdict.COMMIT]

    def send(
        self, message: Message, arg: Any = None, crash: Crash | None = None
    ) -> FakeTransaction:
        """Store a half, run the local transaction, and process the op, as the producer does.

        Args:
            message: the message to send.
            arg: passed to the listener.
            crash: where the process ends; then there is no verdict until a check request.

        Raises:
            InvalidMessageError: a producer would refuse the message.
        """
        transaction = self.store(message)
        sent = transaction.message
        if crash is Crash.BEFORE_LOCAL_TRANSACTION:
            return transaction
        result = run_listener(lambda: self.listener.execute_local_transaction(sent, arg))
        if crash is None:
            transaction.take(result)
        return transaction

    def store(self, message: Message) -> FakeTransaction:
        """Store a half.

        Raises:
            InvalidMessageError: a producer would refuse the message.
        """
        require_message(message, TopicNames(), Settings().max_message_bytes)
        require_no_timers(message)
        kept = {name: text for name, text in message.properties.items() if name != names.DELAY}
        sent = replace(
            message, properties=kept, delay_time_level=0, transaction_id=uuid.uuid4().hex
        )
        transaction = FakeTransaction(self, sent, len(self.transactions))
        self.transactions.append(transaction)
        return transaction


class _FakeCore:
    """What a producer sends by instead of Kafka."""

    service_state = ServiceState.RUNNING

    def __init__(self, service: FakeCheckService, log: TransactionLog | None) -> None:
        self._service = service
        self.log = log

    def start(self) -> None:
        """Nothing has to be started."""

    def shutdown(self) -> int:
        """Nothing is left."""
        return 0

    def begin(self, message: Message) -> SentMessage:
        """Store a half."""
        transaction = self._service.store(message)
        sent = transaction.message
        return SentMessage(
            sent.topic, sent.transaction_id, self._steps(transaction), CallsInFlight()
        )

    def _steps(self, transaction: FakeTransaction) -> Steps:
        sent = transaction.message
        result = yield RunListener(sent, None)
        if not self._service.loses_ops:
            transaction.take(result)
        return TransactionSendResult(
            send_status=SendStatus.SEND_OK,
            msg_id=sent.transaction_id,
            message_queue=MessageQueue(TopicNames().half, 0),
            queue_offset=self._service.transactions.index(transaction),
            transaction_id=sent.transaction_id,
            local_transaction_state=result.state,
        )

    def perform(self, request: Request) -> None:
        """Never called: a half is stored at once."""

    async def perform_in_loop(self, request: Request) -> None:
        """Never called: a half is stored at once."""


def _half_headers(message: Message, group: str) -> Headers:
    properties = dict(message.properties)
    if message.keys:
        properties[names.KEYS] = message.keys
    if message.tags:
        properties[names.TAGS] = message.tags
    return half_headers(
        producer_group=group,
        transaction_id=message.transaction_id,
        real_topic=message.topic,
        properties=properties,
        real_queue_id=message.queue_id,
    )
