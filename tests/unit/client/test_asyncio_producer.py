"""The asyncio producer where its callers, or its listener, are cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.unit.client.producer_playing import TRANSPORT, Clients, in_a_loop, kafka

from checkback.client import (
    AsyncTransactionListener,
    AsyncTransactionMQProducer,
    LocalTransactionState,
    Message,
    asyncio_producer,
)
from checkback.client.observing.counters import ClientEvent
from checkback.protocol.errors import (
    BrokerError,
    ConfigurationError,
    InvalidMessageError,
    LifeCycleError,
    NotFoundError,
    SendError,
)

__all__ = ["kafka"]
COMMIT = LocalTransactionState.COMMIT_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW


class Listener(AsyncTransactionListener):
    """Awaits what the caller passed, and counts how many do so at once."""

    def __init__(self) -> None:
        self.under_way = 0

    async def execute_local_transaction(self, message: Any, arg: Any) -> LocalTransactionState:
        del message
        self.under_way += 1
        try:
            if arg is not None:
                await arg
        finally:
            self.under_way -= 1
        return COMMIT

    async def check_local_transaction(self, message: Any) -> LocalTransactionState:
        del message
        return COMMIT


def producer_of(listener: Any, **options: Any) -> AsyncTransactionMQProducer:
    return AsyncTransactionMQProducer(
        "g", bootstrap_servers="fake", transaction_listener=listener, **options
    )


def test_a_listener_without_coroutines_is_refused() -> None:
    class Threads:
        def execute_local_transaction(self, *_: object) -> LocalTransactionState:
            return COMMIT

    with pytest.raises(ConfigurationError, match="AsyncTransactionListener"):
        producer_of(Threads())


def test_room_for_no_send_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="sends_max"):
        producer_of(Listener(), sends_max=0)


@in_a_loop
async def test_a_cancelled_caller_gives_its_room_back_when_its_transaction_ends(
    kafka: list[Clients],
) -> None:
    listener = Listener()

    async with producer_of(listener, sends_max=1) as producer:
        gate = asyncio.get_running_loop().create_future()
        first = asyncio.create_task(producer.send_message_in_transaction(Message("t", b"x"), gate))
        while not listener.under_way:
            await asyncio.sleep(0.001)
        first.cancel()
        second = asyncio.create_task(producer.send_message_in_transaction(Message("t", b"x")))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(kafka[0].halves[0].sent) == 1
        gate.set_result(None)
        assert (await second).local_transaction_state is COMMIT
        assert len(kafka[0].ops[0].sent) == 2


@pytest.mark.parametrize("send", ["send_message_in_transaction", "send"])
@in_a_loop
async def test_a_listener_that_sends_has_the_place_of_its_own_send(
    send: str, kafka: list[Clients]
) -> None:
    """1,200 at once stood for ever: all places were held by those that waited for one."""
    async with producer_of(Listener(), sends_max=2) as producer:
        nested = [getattr(producer, send)(Message("t", b"inner")) for _ in range(5)]
        outer = [producer.send_message_in_transaction(Message("t", b"x"), one) for one in nested]
        results = await asyncio.wait_for(asyncio.gather(*outer), 60)
        assert {one.local_transaction_state for one in results} == {COMMIT}


@in_a_loop
async def test_what_a_listener_leaves_behind_waits_for_a_place_like_others(
    kafka: list[Clients],
) -> None:
    async with producer_of(Listener(), sends_max=1, send_msg_timeout_ms=100) as producer:
        gate = asyncio.get_running_loop().create_future()
        left: list[asyncio.Task[Any]] = []

        async def later() -> None:
            await gate
            await producer.send_message_in_transaction(Message("t", b"later"))

        async def leaves() -> None:
            left.append(asyncio.create_task(later()))

        await producer.send_message_in_transaction(Message("t", b"x"), leaves())
        never = asyncio.get_running_loop().create_future()
        under_way = asyncio.create_task(
            producer.send_message_in_transaction(Message("t", b"y"), never)
        )
        await asyncio.sleep(0)
        gate.set_result(None)
        with pytest.raises(SendError, match=r"\(sends_max\)") as raised:
            await left[0]
        assert raised.value.fields["in_doubt"] is False
        never.set_result(None)
        await under_way


@in_a_loop
async def test_what_a_listener_awaits_and_somebody_cancels_is_an_unknown_outcome(
    kafka: list[Clients],
) -> None:
    async with producer_of(Listener()) as producer:
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        result = await producer.send_message_in_transaction(Message("t", b"x"), other)
        assert result.local_transaction_state is UNKNOW
        assert isinstance(result.exception, RuntimeError)
        assert producer.counters.snapshot()[ClientEvent.LISTENER_FAILED] == 1


@in_a_loop
async def test_nothing_is_asked_of_the_brokers_in_the_loop(kafka: list[Clients]) -> None:
    async with producer_of(Listener()) as producer:
        await producer.send_message_in_transaction(Message("t", b"x"))
    askers = {thread for _, thread in kafka[0].opened_admin.asked}
    assert threading.get_ident() not in askers


@in_a_loop
async def test_a_missing_topic_is_asked_for_outside_the_loop(kafka: list[Clients]) -> None:
    async with producer_of(Listener()) as producer:
        kafka[0].opened_admin.missing.add("none")
        with pytest.raises(NotFoundError):
            await producer.send_message_in_transaction(Message("none", b"x"))
        with pytest.raises(BrokerError, match="does not exist"):
            await producer.send(Message("none", b"x"))
    askers = {thread for _, thread in kafka[0].opened_admin.asked}
    assert threading.get_ident() not in askers


@pytest.mark.parametrize("topic", ["", "a b", None, ["t"], "RMQ_SYS_TRANS_HALF_TOPIC"])
@in_a_loop
async def test_brokers_are_not_asked_about_what_is_no_topic(
    topic: Any, kafka: list[Clients]
) -> None:
    async with producer_of(Listener()) as producer:
        asked = len(kafka[0].opened_admin.asked)
        for send in (producer.send_message_in_transaction, producer.send):
            with pytest.raises(InvalidMessageError):
                await send(Message(topic, b"x"))
        assert len(kafka[0].opened_admin.asked) == asked


def test_a_check_does_not_wait_for_ever_for_a_loop_that_was_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop may end between the look at it and the moment in which it would begin."""
    monkeypatch.setattr(asyncio_producer, "LOOP_LOOK_S", 0.01)
    loop, asked = asyncio.new_event_loop(), threading.Event()

    class Ending:
        """What a thread sees of a loop that runs for the last time."""

        def is_running(self) -> bool:
            return True

        def is_closed(self) -> bool:
            return loop.is_closed()

        def call_soon_threadsafe(self, *call: Any, **more: Any) -> Any:
            handle = loop.call_soon_threadsafe(*call, **more)
            asked.set()
            return handle

    bridge = producer_of(Listener())._bridge
    bridge.loop = Ending()  # type: ignore[assignment]
    failed: list[Exception] = []
    asked_about: Any = None

    def check() -> None:
        try:
            bridge.check_local_transaction(asked_about)
        except RuntimeError as error:
            failed.append(error)

    thread = threading.Thread(target=check, daemon=True)
    thread.start()
    assert asked.wait(60)
    loop.close()
    thread.join(60)

    assert "closed" in str(failed[0])


@in_a_loop
async def test_a_producer_that_was_not_started_says_so() -> None:
    producer = producer_of(Listener())
    for send in (producer.send_message_in_transaction, producer.send):
        with pytest.raises(LifeCycleError):
            await send(Message("t", b"x"))


@pytest.mark.parametrize("key", [None, b"k"])
@in_a_loop
async def test_a_topic_that_brokers_do_not_tell_of_is_asked_for_outside_the_loop(
    kafka: list[Clients], key: bytes | None
) -> None:
    async with producer_of(Listener()) as producer:
        kafka[0].opened_admin.fails["t"] = TRANSPORT
        for _ in range(2):
            with pytest.raises(BrokerError, match="could not be reached"):
                await producer.send(Message("t", b"x", key=key))
    askers = {thread for topic, thread in kafka[0].opened_admin.asked if topic == "t"}
    assert threading.get_ident() not in askers


@in_a_loop
async def test_a_start_whose_caller_is_cancelled_is_shut_down_when_it_ends(
    kafka: list[Clients],
) -> None:
    """Nobody would ever shut it down: the block that it is started for is not entered."""
    asked, answer = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        answer.wait(60)

    producer = producer_of(Listener())
    kafka[0].opened_admin.fails["RMQ_SYS_TRANS_HALF_TOPIC"] = wait
    starting = asyncio.create_task(producer.start())
    while not asked.is_set():
        await asyncio.sleep(0.001)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    answer.set()
    while not (kafka[0].halves and kafka[0].halves[0].is_closed):
        await asyncio.sleep(0.001)
    with pytest.raises(LifeCycleError, match="shut down"):
        await producer.send_message_in_transaction(Message("t", b"x"))


def test_another_loop_than_the_one_that_started_it_is_refused(kafka: list[Clients]) -> None:
    """A report would wake nobody there: the half would be in doubt, and the error of asyncio's."""
    producer = producer_of(Listener())
    with asyncio.Runner() as runner:
        runner.run(producer.start())
        with pytest.raises(LifeCycleError, match="event loop"):
            asyncio.run(producer.send_message_in_transaction(Message("t", b"x")))
        assert not kafka[0].halves[0].sent
        runner.run(producer.shutdown())


@in_a_loop
async def test_what_plain_methods_of_a_listener_return_counts(kafka: list[Clients]) -> None:
    """Else its messages would all be discarded, although their transactions committed."""

    class Plain(AsyncTransactionListener):
        def execute_local_transaction(self, *_: object) -> LocalTransactionState:  # type: ignore[override]
            return COMMIT

        check_local_transaction = execute_local_transaction  # type: ignore[assignment]

    async with producer_of(Plain()) as producer:
        result = await producer.send_message_in_transaction(Message("t", b"x"))
        assert result.local_transaction_state is COMMIT
        asked_about: Any = None
        check = producer._bridge.check_local_transaction
        assert await asyncio.to_thread(check, asked_about) is COMMIT


def test_a_second_start_changes_nothing_of_the_first(kafka: list[Clients]) -> None:
    producer = producer_of(Listener())
    with asyncio.Runner() as runner:
        runner.run(producer.start())
        with pytest.raises(LifeCycleError, match="running"):
            asyncio.run(producer.start())
        result = runner.run(producer.send_message_in_transaction(Message("t", b"x")))
        assert result.local_transaction_state is COMMIT
        assert producer._bridge.loop is runner.get_loop()
        runner.run(producer.shutdown())
    assert kafka[0].halves[0].is_closed
