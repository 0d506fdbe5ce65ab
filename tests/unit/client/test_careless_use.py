"""What a careless application does to the messages that it gives and gets: it costs nobody."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.client.producer_playing import COMMIT, Clients, kafka, producer_of

from checkback.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionSendResult,
)
from checkback.client.checks.answers import CheckAnswers
from checkback.client.kafka.clock import BrokerClock
from checkback.client.observing.counters import Counters
from checkback.client.sending.half import InDoubtIds
from checkback.protocol import properties as names
from checkback.protocol.errors import InvalidMessageError

__all__ = ["kafka"]


class Scribbling(TransactionListener):
    """Writes over everything that it is given."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        del arg
        message.topic, message.body, message.key = "other", b"other", b"other"
        message.transaction_id = "other"
        return COMMIT

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.execute_local_transaction(message, None)
        message.half_queue, message.queue_offset = 9, 99
        message.requested_at_ms = 0
        return COMMIT


def sent(kafka: list[Clients], message: Message) -> tuple[TransactionSendResult, Clients]:
    with producer_of(Scribbling()) as producer:
        return producer.send_message_in_transaction(message), kafka[0]


def header(record: dict[str, Any], name: str) -> str:
    value: bytes = dict(record["headers"])[name]
    return value.decode()


def test_a_listener_that_writes_over_its_message_changes_no_op(kafka: list[Clients]) -> None:
    result, clients = sent(kafka, Message("paid", b"x"))

    (half,), (op,) = clients.halves[0].sent, clients.ops[0].sent
    transaction_id = header(half, names.UNIQ_KEY)
    assert (op["key"].decode(), header(op, names.UNIQ_KEY)) == (transaction_id, transaction_id)
    assert (result.transaction_id, result.msg_id) == (transaction_id, transaction_id)


def test_a_listener_that_writes_over_a_check_changes_no_answer() -> None:
    answered: list[tuple[int, int, str]] = []

    def confirm(op: Any, _: float) -> bool:
        answered.append((op.half_partition, op.half_offset, op.transaction_id))
        return True

    ops: Any = SimpleNamespace(send_confirmed=confirm)
    answers = CheckAnswers(
        listener=Scribbling(), producer_group="g", in_doubt=InDoubtIds(), ops=ops,
        counters=Counters(), clock=BrokerClock(), try_timeout_s=1, stopping=threading.Event(),
    )  # fmt: skip
    request = MessageExt("paid", b"x", transaction_id="u", half_queue=1, queue_offset=7)

    assert answers.answer(request)

    assert answered == [(1, 7, "u")]


@pytest.mark.parametrize("queue_id", ["3", [3], {}, 3.0, float("nan"), b"3"])
def test_a_queue_id_that_is_no_whole_number_is_refused_as_a_message(
    queue_id: Any, kafka: list[Clients]
) -> None:
    with pytest.raises(InvalidMessageError, match="queue_id is a"):
        sent(kafka, Message("paid", b"x", queue_id=queue_id))
