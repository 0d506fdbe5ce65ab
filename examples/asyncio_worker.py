"""An asyncio worker that does jobs, and announces each job that is done.

    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 python asyncio_worker.py

The topics have to be there: `checkback topics create --real-topic done` makes them.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from checkback.client import (
    AsyncTransactionListener,
    AsyncTransactionMQProducer,
    LocalTransactionState,
    Message,
    MessageExt,
)

done: set[str] = set()  # stands for what the application remembers; see outbox.py for a real one


class Jobs(AsyncTransactionListener):
    """Does jobs in the event loop, many at a time."""

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Do the job."""
        await asyncio.sleep(arg)
        done.add(message.transaction_id)
        return LocalTransactionState.COMMIT_MESSAGE

    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Say whether the job was done; UNKNOW means that a check asks again."""
        if message.transaction_id in done:
            return LocalTransactionState.COMMIT_MESSAGE
        return LocalTransactionState.UNKNOW


async def main() -> None:
    """Do ten jobs at once."""
    async with AsyncTransactionMQProducer(
        "workers",
        bootstrap_servers=os.environ["CHECKBACK_BOOTSTRAP_SERVERS"],
        topic_prefix=os.environ.get("CHECKBACK_TOPIC_PREFIX", ""),
        transaction_listener=Jobs(),
    ) as producer:
        jobs = [
            producer.send_message_in_transaction(Message("done", b"job %d" % number), arg=0.1)
            for number in range(10)
        ]
        for result in await asyncio.gather(*jobs):
            print(result.transaction_id, result.local_transaction_state.name)


if __name__ == "__main__":
    asyncio.run(main())
