"""The asyncio producer: the same path, in the application's loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tests.integration.client.playing import Checkback, header

from checkback.client import (
    AsyncTransactionListener,
    AsyncTransactionMQProducer,
    LocalTransactionState,
    Message,
    MessageExt,
    SendStatus,
)
from checkback.client.observing.counters import ClientEvent
from checkback.protocol import properties as names
from checkback.protocol.topics import TopicPlan

COMMIT = LocalTransactionState.COMMIT_MESSAGE


class InLoop(AsyncTransactionListener):
    """Says UNKNOW first and COMMIT when asked, and keeps the threads it ran in."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.under_way = 0
        self.under_way_max = 0

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        assert message.transaction_id
        self.threads.add(threading.get_ident())
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        await asyncio.sleep(0.05)
        self.under_way -= 1
        return LocalTransactionState(arg)

    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        assert message.check_times == 1
        self.threads.add(threading.get_ident())
        return COMMIT


def producer_of(checkback: Checkback, listener: InLoop) -> AsyncTransactionMQProducer:
    return AsyncTransactionMQProducer(
        checkback.group,
        bootstrap_servers=checkback.bootstrap_servers,
        transaction_listener=listener,
        topic_prefix=checkback.prefix,
    )


def test_local_transactions_and_checks_run_in_the_loop(checkback: Checkback, unique: str) -> None:
    topic = f"{unique}plain"
    checkback.create(TopicPlan(topic, 1))
    listener = InLoop()

    async def run() -> None:
        async with producer_of(checkback, listener) as producer:
            sends = [
                producer.send_message_in_transaction(Message("paid", b"x"), arg=0) for _ in range(8)
            ]
            results = await asyncio.gather(*sends)
            assert {result.send_status for result in results} == {SendStatus.SEND_OK}
            assert (await producer.send(Message(topic, b"plain"))).queue_offset == 0
            halves = await asyncio.to_thread(checkback.halves, 8)
            await asyncio.to_thread(checkback.ask, halves[0])
            async with asyncio.timeout(15):
                while not producer.counters.snapshot()[ClientEvent.CHECK_ANSWERED]:
                    await asyncio.sleep(0.02)

    asyncio.run(run())

    assert listener.threads == {threading.get_ident()}
    assert listener.under_way_max > 1
    states = [header(op, names.COMMIT_OR_ROLLBACK) for op in checkback.ops(9)]
    assert sorted(states, key=str) == ["0"] * 8 + ["8"]


def test_a_cancelled_await_does_not_stop_the_transaction(checkback: Checkback) -> None:
    listener = InLoop()

    async def run() -> None:
        async with producer_of(checkback, listener) as producer:
            send = asyncio.create_task(
                producer.send_message_in_transaction(Message("paid", b"x"), arg=8)
            )
            while not listener.under_way:
                await asyncio.sleep(0.005)
            send.cancel()

    asyncio.run(run())

    assert [header(op, names.COMMIT_OR_ROLLBACK) for op in checkback.ops(1)] == ["8"]
