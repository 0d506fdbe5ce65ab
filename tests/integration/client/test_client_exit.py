"""A process that ends without shutdown(): it ends as if it had been called, and says what is left.

Its producer group is one of its own: others of the group would wait for its session to end.
"""

from __future__ import annotations

import pytest
from tests.integration.client.playing import Checkback
from tests.programs import run_python

PROGRAM = """
import asyncio, os, sys
from checkback.client import *

servers, prefix, kind = sys.argv[1:]
COMMIT = LocalTransactionState.COMMIT_MESSAGE


class Threads(TransactionListener):
    def execute_local_transaction(self, message, arg):
        return COMMIT

    def check_local_transaction(self, message):
        return COMMIT


class Loop(AsyncTransactionListener):
    async def execute_local_transaction(self, message, arg):
        return COMMIT

    async def check_local_transaction(self, message):
        return COMMIT


def made(kind, listener, **options):
    return kind(
        prefix + "left", bootstrap_servers=servers, topic_prefix=prefix,
        transaction_listener=listener, **options
    )


async def in_a_loop():
    global producer
    producer = made(AsyncTransactionMQProducer, Loop())
    await producer.start()
    await producer.send_message_in_transaction(Message("paid", b"x"))
    asyncio.ensure_future(producer.send_message_in_transaction(Message("paid", b"y")))
    await asyncio.sleep(0)

if kind == "asyncio":
    asyncio.run(in_a_loop())
else:
    producer = made(TransactionMQProducer, Threads())
    producer.start()
    producer.send_message_in_transaction(Message("paid", b"x"))
    producer.send_async(Message("paid", b"z"))
if kind == "forked":
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    try:
        producer.send_message_in_transaction(Message("paid", b"x"))
    except Exception as error:
        assert "forked while a producer ran" in str(error)
    assert producer.shutdown() == 0
    del producer
if kind == "a cycle":
    producer.itself = producer
    del producer
"""


@pytest.mark.parametrize("kind", ["threads", "asyncio", "forked", "a cycle"])
def test_a_process_ends_without_a_shutdown(checkback: Checkback, kind: str) -> None:
    ended = run_python(PROGRAM, checkback.bootstrap_servers, checkback.prefix, kind, timeout=60)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


HANGING = """
import sys, threading
from checkback.client import *

servers, prefix = sys.argv[1:]
runs = threading.Event()


class Hanging(TransactionListener):
    def execute_local_transaction(self, message, arg):
        if arg:
            runs.set()
            threading.Event().wait()
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, message):
        return None


producer = TransactionMQProducer(
    prefix + "left", bootstrap_servers=servers, topic_prefix=prefix,
    transaction_listener=Hanging(), shutdown_timeout_ms=500,
)
producer.start()
threading.Thread(
    target=producer.send_message_in_transaction, args=(Message("paid", b"hangs"), True), daemon=True
).start()
runs.wait()
for _ in range(20):
    producer.send_message_in_transaction(Message("paid", b"x"))
"""


def test_what_a_process_leaves_is_said_in_one_warning_and_the_last_ops_are_sent(
    checkback: Checkback,
) -> None:
    """The ops of the last five milliseconds were lost, and nothing was said of the open half."""
    ended = run_python(HANGING, checkback.bootstrap_servers, checkback.prefix, timeout=60)

    [line] = ended.stderr.splitlines()
    assert "without shutdown(), while 1 sends or check answers ran" in line
    assert ended.returncode == 0
    assert (len(checkback.ops(20)), len(checkback.halves(21))) == (20, 21)
