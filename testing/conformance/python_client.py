"""Checkback's Python client as a program that the kit judges; a model for other languages."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from checkback.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
)
from checkback.protocol.errors import CheckbackError, NotFoundError, SendError, UsageError
from checkback.testing.conformance.program import coded, decoded

STATES: Final = {
    "commit": LocalTransactionState.COMMIT_MESSAGE,
    "rollback": LocalTransactionState.ROLLBACK_MESSAGE,
    "unknown": LocalTransactionState.UNKNOW,
}
NAMES: Final = {state: name for name, state in STATES.items()}


class Streams:
    """The JSON lines of this program: commands in, answers and questions out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[str]] = {}

    def write(self, **line: object) -> None:
        """Write a line, whole."""
        with self._lock:
            print(json.dumps(line), flush=True)

    def ask(self, what: str, message: Message) -> str:
        """Ask the kit something about a message and wait for the answer."""
        number = next(self._numbers)
        future = self._asked[number] = Future()
        self.write(ask=what, id=number, message=fields_of(message))
        return future.result()

    def answered(self, command: dict[str, Any]) -> None:
        """Take the kit's answer."""
        self._asked.pop(command["id"]).set_result(command["state"])


def fields_of(message: Message) -> dict[str, object]:
    """Return a message as the kit reads it."""
    fields: dict[str, object] = {
        "transaction_id": message.transaction_id,
        "topic": message.topic,
        "body": coded(message.body),
        "key": coded(message.record_key()),
        "keys": message.keys,
        "tags": message.tags,
        "properties": [
            [name, coded(value if isinstance(value, bytes) else value.encode())]
            for name, value in message.properties.items()
        ],
        "queue_id": message.queue_id,
    }
    if isinstance(message, MessageExt):
        fields |= {
            "check_times": message.check_times,
            "partition": message.half_queue,
            "offset": message.queue_offset,
        }
    return fields


class AskingListener(TransactionListener):
    """Asks the kit how each local transaction ends."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def execute_local_transaction(self, message: Message, _: Any) -> LocalTransactionState:
        """Ask how the local transaction ends."""
        return self._state("execute", message)

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Ask for the answer to a check."""
        return self._state("check", message)

    def _state(self, what: str, message: Message) -> LocalTransactionState:
        said = self._streams.ask(what, message)
        if said == "raise":
            raise RuntimeError("as the kit wished")
        return STATES[said]


class JudgedClient:
    """Runs the kit's commands, several at a time."""

    def __init__(self) -> None:
        self._streams = Streams()
        self._producer: TransactionMQProducer | None = None
        self._threads = ThreadPoolExecutor(16)

    def run(self) -> None:
        """Read commands until the kit closes the stream."""
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "answer":
                self._streams.answered(command)
            else:
                self._threads.submit(self._do, command)
        os._exit(0)

    def _do(self, command: dict[str, Any]) -> None:
        number = command.pop("id")
        try:
            done = getattr(self, f"_{command.pop('do')}")(**command)
            self._streams.write(id=number, **done)
        except Exception as error:
            self._streams.write(id=number, failed=kind_of(error), text=str(error))

    def _start(self, group: str, **options: Any) -> dict[str, object]:
        # The kit starts programs while others take all cores; it judges no time of a start.
        options = {"start_timeout_ms": 60_000, **options}
        producer = TransactionMQProducer(
            group, transaction_listener=AskingListener(self._streams), **options
        )
        producer.start()
        self._producer = producer
        return {}

    def _send(
        self, topic: str, body: str | None, key: str | None, properties: Any, **more: Any
    ) -> dict[str, object]:
        named = {name: decoded(value) or b"" for name, value in properties}
        message = Message(topic, decoded(body), key=decoded(key), properties=named, **more)
        result = self._running.send_message_in_transaction(message)
        queue = result.message_queue
        return {
            "transaction_id": result.transaction_id,
            "partition": -1 if queue is None else queue.queue_id,
            "offset": result.queue_offset,
            "state": NAMES[result.local_transaction_state],
        }

    def _shutdown(self) -> dict[str, object]:
        return {"left": self._running.shutdown()}

    @property
    def _running(self) -> TransactionMQProducer:
        if self._producer is None:
            raise RuntimeError("start comes first")
        return self._producer


def kind_of(error: Exception) -> str:
    """Return the kit's word for an error of the client."""
    if isinstance(error, NotFoundError):
        return "missing"
    if isinstance(error, UsageError):
        return "invalid"
    if isinstance(error, SendError):
        if error.fields.get("code") == "NO_PERMISSION":
            return "refused"
        return "in_doubt" if error.fields.get("in_doubt") else "not_stored"
    return "failed" if isinstance(error, CheckbackError) else "broken"


if __name__ == "__main__":
    JudgedClient().run()
