"""The transactional producer for asyncio: the same semantics, listener and calls as coroutines."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine
from concurrent import futures
from contextvars import ContextVar
from inspect import isawaitable, iscoroutine
from types import TracebackType
from typing import Any, Final, Self, Unpack

from checkback.client.kafka.delivery_reports import DeliveryReport
from checkback.client.listener import CallbackResult, LocalTransactionState, TransactionListener
from checkback.client.message import Message, MessageExt
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.options import ProducerKeywords
from checkback.client.producer import ServiceState
from checkback.client.results import SendResult, TransactionSendResult
from checkback.client.sending.steps import LearnTopic, Request, RunListener
from checkback.client.transaction_producer import TransactionMQProducer
from checkback.client.validation import require_message_class, require_topic
from checkback.protocol.errors import (
    BrokerError,
    ConfigurationError,
    LifeCycleError,
    NotFoundError,
    SendError,
)

LOOP_LOOK_S: Final = 1.0
"""How often a check that waits for the loop looks whether the loop still runs."""
_AROUND: ContextVar[frozenset[asyncio.Task[Any]]] = ContextVar("around", default=frozenset())
"""The transactions, of any producer, inside which this code runs."""


class AsyncTransactionListener(ABC):
    """The two callbacks as coroutines; they run in the loop that started the producer."""

    @abstractmethod
    async def execute_local_transaction(
        self, message: Message, arg: Any
    ) -> LocalTransactionState | CallbackResult | None:
        """As `TransactionListener.execute_local_transaction`."""

    @abstractmethod
    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState | None:
        """As `TransactionListener.check_local_transaction`."""


class AsyncTransactionMQProducer:
    """A transactional producer whose calls are awaited and whose listener has coroutines.

    Underneath is a `TransactionMQProducer`; no thread waits for a transaction under way.
    If the task that awaits a transaction is cancelled, the transaction goes on: the producer still
    sends its op, but only the listener learns how it ended.

    Args:
        producer_group: as for TransactionMQProducer.
        bootstrap_servers: Kafka brokers, host:port, separated by commas.
        transaction_listener: runs local transactions and knows how they ended.
        sends_max: sends under way at once; more wait their turn, for send_msg_timeout_ms at most.
            A send by the listener of a send under way has the place of that one.
        options: see `ProducerOptions`.

    Raises:
        ConfigurationError: the group, the listener or an option is not usable.
    """

    def __init__(
        self,
        producer_group: str,
        *,
        bootstrap_servers: str,
        transaction_listener: AsyncTransactionListener,
        sends_max: int = 1_000,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        if not isinstance(transaction_listener, AsyncTransactionListener):
            raise ConfigurationError(
                f"transaction_listener is a {type(transaction_listener).__name__}.",
                remedy="Give an object of a class derived from AsyncTransactionListener.",
            )
        if sends_max < 1:
            raise ConfigurationError(
                f"sends_max is {sends_max}.", remedy="It must be at least 1.", key="sends_max"
            )
        self._bridge = _Bridge(transaction_listener)
        self._listener = transaction_listener
        self._producer = _LoopProducer(
            producer_group,
            bootstrap_servers=bootstrap_servers,
            transaction_listener=self._bridge,
            **options,
        )
        self._room = asyncio.Semaphore(sends_max)
        self._sends_max = sends_max
        self._under_way: set[asyncio.Task[TransactionSendResult]] = set()

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
    def producer_group(self) -> str:
        """The group that the producer belongs to."""
        return self._producer.producer_group

    @property
    def counters(self) -> Counters:
        """What the producer counts."""
        return self._producer.counters

    async def start(self) -> None:
        """As `TransactionMQProducer.start`; the listener runs in this loop from now on.

        If this is cancelled, the producer is shut down once its start has ended.
        """
        if self._producer.service_state is ServiceState.CREATE_JUST:
            loop = self._bridge.loop = asyncio.get_running_loop()
            self._producer.loop_reports = EventLoopReports(loop)
        try:
            await asyncio.to_thread(self._producer.start)
        except asyncio.CancelledError:
            # The thread that starts it goes on, and nothing else would shut it down.
            threading.Thread(target=self._producer.shutdown, daemon=True).start()
            raise

    async def shutdown(self) -> int:
        """As `TransactionMQProducer.shutdown`; the loop goes on serving the listener."""
        return await asyncio.to_thread(self._producer.shutdown)

    async def send_message_in_transaction(
        self, message: Message, arg: Any = None
    ) -> TransactionSendResult:
        """As `TransactionMQProducer.send_message_in_transaction`."""
        has_own_place = await self._take_place()
        task = asyncio.create_task(self._transact(message, arg))
        self._under_way.add(task)
        # Not where it is awaited: it goes on when that is cancelled.
        task.add_done_callback(self._under_way.discard)
        if has_own_place:
            task.add_done_callback(lambda _: self._room.release())
        return await asyncio.shield(task)

    async def send(self, message: Message) -> SendResult:
        """As `TransactionMQProducer.send`, by turns or by key."""
        has_own_place = await self._take_place()
        try:
            await self._producer.learn_topic(message)
            return await asyncio.wrap_future(self._producer.send_async(message))
        except NotFoundError as error:
            raise BrokerError(error.message, remedy=error.remedy, topic=message.topic) from error
        finally:
            if has_own_place:
                self._room.release()

    async def _transact(self, message: Message, arg: Any) -> TransactionSendResult:
        """Take the steps of a transaction, in a task of its own."""
        task = asyncio.current_task()
        if task is not None:
            _AROUND.set(_AROUND.get() | {task})
        return await self._producer.transact(self._listener, message, arg)

    async def _take_place(self) -> bool:
        """Wait for a place; return False where the transaction around this send has one.

        If a listener's send waited for a place of its own, as many transactions as there are
        places would wait for each other for ever.

        Raises:
            SendError: no place came free within send_msg_timeout_ms.
        """
        if not self._under_way.isdisjoint(_AROUND.get()):
            return False
        if not self._room.locked():
            return await self._room.acquire()
        try:
            async with asyncio.timeout(self._producer.options.send_msg_timeout_ms / 1000):
                return await self._room.acquire()
        except TimeoutError:
            self.counters.add(ClientEvent.SEND_FAILED)
            raise SendError(
                f"{self._sends_max} sends are under way already (sends_max).",
                remedy="Slow down, or raise sends_max.",
                in_doubt=False,
            ) from None


class _LoopProducer(TransactionMQProducer):
    """The producer, with the steps of a transaction in an event loop."""

    loop_reports: EventLoopReports

    async def learn_topic(self, message: Message) -> None:
        """Ask the brokers about an unknown topic in a thread: waiting would block the loop.

        Raises:
            BrokerError: this user may not describe it, or Kafka does not answer.
            InvalidMessageError: no message may be sent there.
            LifeCycleError: not started, shut down, or forked.
            NotFoundError: there is no such topic.
        """
        self._require_running()
        require_message_class(message)
        topic = message.topic
        if not self._facts.knows(topic):
            require_topic(topic, self.topics)
            await asyncio.to_thread(self._facts.prepare, topic)
        if not self._facts.knows_leaders(topic):
            await asyncio.to_thread(self._facts.topic, topic)

    async def transact(
        self, listener: AsyncTransactionListener, message: Message, arg: Any
    ) -> TransactionSendResult:
        """Do what `send_message_in_transaction` does, and wait in the loop."""
        self._require_running()
        if self.loop_reports.loop is not asyncio.get_running_loop():
            raise LifeCycleError(
                f"The producer of group {self.producer_group} was started in another event loop.",
                remedy="Make and start a producer in each event loop.",
            )
        with self._running:
            steps = self._transaction(message, arg, self.loop_reports.report)
            try:
                request = next(steps)
                while True:
                    try:
                        answer = await self._await(request, listener)
                    except BaseException as error:
                        request = steps.throw(error)
                    else:
                        request = steps.send(answer)
            except StopIteration as end:
                result: TransactionSendResult = end.value
                return result

    async def _await(self, request: Request, listener: AsyncTransactionListener) -> object:
        if isinstance(request, RunListener):
            return await _call(listener, request)
        if isinstance(request, LearnTopic):
            return await asyncio.to_thread(self._facts.prepare, request.topic)
        report, timeout_s = request
        return await report.wait(timeout_s)


async def _call(listener: AsyncTransactionListener, request: RunListener) -> object:
    try:
        returned: Any = listener.execute_local_transaction(*request)
        # A plain method is no coroutine; its answer counts all the same.
        return await returned if isawaitable(returned) else returned
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Not this transaction was cancelled, but something that the listener awaited.
        raise RuntimeError("something that the listener awaited was cancelled") from error


class _Bridge(TransactionListener):
    """Runs a listener's coroutines in the application's loop, and waits for them in a thread."""

    def __init__(self, listener: AsyncTransactionListener) -> None:
        self._listener = listener
        self.loop: asyncio.AbstractEventLoop | None = None

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState | None:
        return self._run(self._listener.execute_local_transaction(message, arg))

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState | None:
        return self._run(self._listener.check_local_transaction(message))

    def _run(self, returned: Any) -> LocalTransactionState | None:
        if not iscoroutine(returned):  # by a plain method
            answer: LocalTransactionState | None = returned
            return answer
        callback: Coroutine[Any, Any, LocalTransactionState | None] = returned
        loop = self.loop
        if loop is None or not loop.is_running():
            callback.close()
            raise RuntimeError("the event loop of the producer does not run")
        try:
            future = asyncio.run_coroutine_threadsafe(callback, loop)
        except RuntimeError:  # it was closed just now
            callback.close()
            raise
        while True:
            done, _ = futures.wait([future], LOOP_LOOK_S)
            if done:
                return future.result()
            if loop.is_closed():
                # The loop ended before it began the coroutine: nothing would ever end this wait.
                callback.close()
                raise RuntimeError("the event loop of the producer was closed")


class EventLoopReport(DeliveryReport):
    """A report that one coroutine waits for."""

    __slots__ = ("_future", "_loop_reports")

    def __init__(self, done: deque[Any], loop_reports: EventLoopReports) -> None:
        super().__init__(done)
        self._loop_reports = loop_reports
        self._future: asyncio.Future[None] = loop_reports.loop.create_future()

    def wake(self) -> None:
        """Ask the loop to continue the coroutine; called in the thread that polls."""
        self._loop_reports.put(self)

    def finish(self) -> None:
        """Continue the coroutine; called in the loop."""
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Wait for the report, at most this long."""
        timer = self._loop_reports.loop.call_later(timeout_s, self.finish)
        try:
            await self._future
        finally:
            timer.cancel()
        if self.message is None:
            self._future = self._loop_reports.loop.create_future()  # there may be a second wait


class EventLoopReports:
    """Reports on their way into a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._reports: list[EventLoopReport] = []

    def report(self, done: deque[Any]) -> EventLoopReport:
        """Return a new report."""
        return EventLoopReport(done, self)

    def put(self, report: EventLoopReport) -> None:
        """Take a report; the first one wakes the loop, which then finds the others, too.

        Called in the thread that polls.
        """
        with self._lock:
            self._reports.append(report)
            if len(self._reports) > 1:
                return
        try:
            self.loop.call_soon_threadsafe(self._hand_out)
        except RuntimeError:
            self._reports.clear()  # the loop is closed: no coroutine waits

    def _hand_out(self) -> None:
        with self._lock:
            reports, self._reports = self._reports, []
        for report in reports:
            report.finish()
