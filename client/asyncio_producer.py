"""The transactional producer for asyncio: the same semantics, listener and calls as coroutines."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from checkback.client.counters import Counters
from checkback.client.listener import LocalTransactionState, TransactionListener
from checkback.client.message import Message, MessageExt
from checkback.client.options import ProducerKeywords
from checkback.client.results import SendResult, TransactionSendResult
from checkback.client.transaction_producer import TransactionMQProducer

Result = TypeVar("Result")


class AsyncTransactionListener(ABC):
    """The two callbacks as coroutines; they run in the loop that started the producer."""

    @abstractmethod
    async def execute_local_transaction(
        self, message: Message, arg: Any
    ) -> LocalTransactionState | None:
        """As :meth:`TransactionListener.execute_local_transaction`."""

    @abstractmethod
    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState | None:
        """As :meth:`TransactionListener.check_local_transaction`."""


class AsyncTransactionMQProducer:
    """A transactional producer whose calls are awaited and whose listener has coroutines.

    Underneath is a :class:`TransactionMQProducer`: one thread waits per transaction under way.
    A transaction that has begun goes on when the task that awaits it is cancelled; its outcome
    is then known to the listener alone, and sent as an op all the same.

    Args:
        producer_group: as for TransactionMQProducer.
        bootstrap_servers: Kafka brokers, host:port, separated by commas.
        transaction_listener: runs local transactions and knows how they ended.
        sends_max: sends under way at once; more wait their turn.
        options: see :class:`ProducerOptions`.

    Raises:
        ConfigurationError: the group, the listener or an option is not usable.
    """

    def __init__(
        self,
        producer_group: str,
        *,
        bootstrap_servers: str,
        transaction_listener: AsyncTransactionListener,
        sends_max: int = 64,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        self._bridge = _Bridge(transaction_listener)
        self._producer = TransactionMQProducer(
            producer_group,
            bootstrap_servers=bootstrap_servers,
            transaction_listener=self._bridge,
            **options,
        )
        self._threads = ThreadPoolExecutor(sends_max, f"checkback-async-{producer_group}")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()

    @property
    def counters(self) -> Counters:
        """What the producer counts."""
        return self._producer.counters

    async def start(self) -> None:
        """As :meth:`TransactionMQProducer.start`; the listener runs in this loop from now on."""
        self._bridge.loop = asyncio.get_running_loop()
        await self._in_thread(self._producer.start)

    async def shutdown(self) -> int:
        """As :meth:`TransactionMQProducer.shutdown`; the loop goes on serving the listener."""
        left = await self._in_thread(self._producer.shutdown)
        self._threads.shutdown(wait=False)
        return left

    async def send_message_in_transaction(
        self, message: Message, arg: Any = None
    ) -> TransactionSendResult:
        """As :meth:`TransactionMQProducer.send_message_in_transaction`."""
        send = self._producer.send_message_in_transaction
        return await self._in_thread(lambda: send(message, arg))

    async def send(self, message: Message) -> SendResult:
        """As :meth:`TransactionMQProducer.send`, by turns or by key."""
        return await self._in_thread(lambda: self._producer.send(message))

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


class _Bridge(TransactionListener):
    """Runs a listener's coroutines in the application's loop, and waits for them in a thread."""

    def __init__(self, listener: AsyncTransactionListener) -> None:
        self._listener = listener
        self.loop: asyncio.AbstractEventLoop | None = None

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState | None:
        return self._run(self._listener.execute_local_transaction(message, arg))

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState | None:
        return self._run(self._listener.check_local_transaction(message))

    def _run(
        self, callback: Coroutine[Any, Any, LocalTransactionState | None]
    ) -> LocalTransactionState | None:
        loop = self.loop
        if loop is None or not loop.is_running():
            callback.close()
            raise RuntimeError("the event loop of the producer does not run")
        return asyncio.run_coroutine_threadsafe(callback, loop).result()
