"""A script that sends two orders, and knows at once how each ended.

    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 python plain_script.py

The topics have to be there: `checkback topics create --real-topic paid` makes them.
"""

from __future__ import annotations

import os
from typing import Any

from checkback.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
)

paid: set[str] = set()  # stands for what the application remembers; see outbox.py for a real one


class Orders(TransactionListener):
    """Pays an order, and knows afterwards whether it did."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Pay: the half message is stored, and no consumer sees it yet."""
        if arg["amount"] <= 0:
            return LocalTransactionState.ROLLBACK_MESSAGE
        paid.add(message.transaction_id)
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Say how the order ended, if its op was lost."""
        if message.transaction_id in paid:
            return LocalTransactionState.COMMIT_MESSAGE
        # Not a rollback: a process that died may have paid it.
        return LocalTransactionState.UNKNOW


def main() -> None:
    """Send an order that is paid and one that is not."""
    with TransactionMQProducer(
        "orders",
        bootstrap_servers=os.environ["CHECKBACK_BOOTSTRAP_SERVERS"],
        topic_prefix=os.environ.get("CHECKBACK_TOPIC_PREFIX", ""),
        transaction_listener=Orders(),
    ) as producer:
        for number, amount in (("o-1", 10), ("o-2", 0)):
            message = Message("paid", f"order {number}".encode(), keys=number)
            result = producer.send_message_in_transaction(message, {"amount": amount})
            print(number, result.local_transaction_state.name, result.offset_msg_id)


if __name__ == "__main__":
    main()
