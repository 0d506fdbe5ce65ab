"""Sends the half messages of a `Producer`; the application runs the local transactions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol, Unpack

from checkback.client.listener import TransactionListener
from checkback.client.message import Message
from checkback.client.options import ProducerKeywords
from checkback.client.producer import ServiceState
from checkback.client.sending.steps import LearnTopic, Request
from checkback.client.sessions.joined import Owner
from checkback.client.sessions.log_table import TransactionLog
from checkback.client.sessions.sent import SentMessage, SharedReport, awaited
from checkback.client.transaction_producer import TransactionMQProducer


class Core(Owner, Protocol):
    """Sends the half messages of a `Producer`; a test may put another one in its place."""

    @property
    def service_state(self) -> ServiceState:
        """Whether it is new, running or shut down."""
        ...

    def start(self) -> None:
        """Connect."""

    def shutdown(self) -> int:
        """Close; return how many messages and answers were left."""
        ...

    def begin(self, message: Message) -> SentMessage:
        """Begin to send a half."""
        ...


class SessionCore(TransactionMQProducer):
    """Sends halves; the caller runs their local transactions.

    Args:
        producer_group: as for TransactionMQProducer.
        bootstrap_servers: Kafka brokers, host:port, separated by commas.
        transaction_listener: answers checks.
        log: where the rows of transactions go; None where a function answers checks.
        options: see `ProducerOptions`.
    """

    def __init__(
        self,
        producer_group: str,
        *,
        bootstrap_servers: str,
        transaction_listener: TransactionListener,
        log: TransactionLog | None,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        super().__init__(
            producer_group,
            bootstrap_servers=bootstrap_servers,
            transaction_listener=transaction_listener,
            **options,
        )
        self.log = log

    def begin(self, message: Message) -> SentMessage:
        """Begin to send a half.

        Args:
            message: what is sent.

        Raises:
            InvalidMessageError: the message can't be sent as it is.
            LifeCycleError: shut down.
            SendError: librdkafka does not take the half.
        """
        self._require_running()
        transaction_id = self._new_id()
        steps = self._transaction(message, None, SharedReport, transaction_id)
        return SentMessage(message.topic, transaction_id, steps, self._running)

    def perform(self, request: Request) -> None:
        """Do in this thread what a step asks for."""
        if isinstance(request, LearnTopic):
            self._facts.prepare(request.topic)
        elif (waited := awaited(request)) is not None:
            report, timeout_s = waited
            report.wait(timeout_s)

    async def perform_in_loop(self, request: Request) -> None:
        """Do what a step asks for, without holding up the event loop."""
        if isinstance(request, LearnTopic):
            await asyncio.to_thread(self._facts.prepare, request.topic)
        elif (waited := awaited(request)) is not None:
            await _wait(*waited)


async def _wait(report: SharedReport, timeout_s: float) -> None:
    """Wait for a report at most this long."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def follow() -> None:
        with suppress(RuntimeError):  # the loop is closed: no coroutine waits
            loop.call_soon_threadsafe(future.cancel)

    report.when_awake(follow)
    await asyncio.wait([future], timeout=timeout_s)
