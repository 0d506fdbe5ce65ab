"""The fake check service calls a listener as the client does."""

from __future__ import annotations

from typing import Any

import pytest

from checkback.client import LocalTransactionState, Message, TransactionListener
from checkback.client.message import MessageExt
from checkback.protocol.errors import ConfigurationError, InvalidMessageError
from checkback.testing.check_service import Crash, FakeCheckService, Verdict

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
MESSAGE = Message("orders", b"b", keys="k-1 k-2", tags="t", properties={"mine": "yes"}, queue_id=1)


class Scripted(TransactionListener):
    """Gives its answers one after the other; remembers the check requests."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.args: list[Any] = []
        self.requests: list[MessageExt] = []

    def execute_local_transaction(
        self,
        message: Message,  # noqa: ARG002 - the script has all answers
        arg: Any,
    ) -> LocalTransactionState | None:
        self.args.append(arg)
        return self._next()

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState | None:
        self.requests.append(message)
        return self._next()

    def _next(self) -> LocalTransactionState | None:
        answer = self.answers.pop(0)
        assert answer is None or isinstance(answer, LocalTransactionState | Exception)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_what_the_local_transaction_says_is_the_verdict() -> None:
    listener = Scripted(COMMIT, ROLLBACK)
    service = FakeCheckService(listener)

    assert service.send(MESSAGE, arg=7).verdict is Verdict.COMMIT
    assert service.send(MESSAGE).verdict is Verdict.ROLLBACK
    assert listener.args == [7, None]
    assert [message.body for message in service.finals] == [b"b"]


def test_a_check_brings_the_message_as_a_check_topic_does() -> None:
    listener = Scripted(UNKNOW, None, COMMIT)
    transaction = FakeCheckService(listener, group="g").send(MESSAGE)

    assert transaction.ask() is None
    assert transaction.ask() is Verdict.COMMIT
    first, second = listener.requests
    assert (first.check_times, second.check_times) == (1, 2)
    assert (first.topic, first.body, first.keys, first.tags) == ("orders", b"b", "k-1 k-2", "t")
    assert (first.key, first.properties, first.queue_id) == (b"k-1", {"mine": "yes"}, 1)
    assert first.transaction_id == first.msg_id == transaction.message.transaction_id
    assert first.producer_group == "g"


def test_a_settled_transaction_is_not_asked_about() -> None:
    listener = Scripted(COMMIT)
    transaction = FakeCheckService(listener).send(MESSAGE)

    assert transaction.ask(5) is Verdict.COMMIT
    assert not listener.requests


@pytest.mark.parametrize("crash", list(Crash))
def test_a_crash_leaves_the_verdict_to_a_check(crash: Crash) -> None:
    before_local = crash is Crash.BEFORE_LOCAL_TRANSACTION
    listener = Scripted(*([] if before_local else [COMMIT]), ROLLBACK)
    transaction = FakeCheckService(listener).send(MESSAGE, crash=crash)

    assert len(listener.args) == (0 if before_local else 1)
    assert transaction.verdict is None
    assert transaction.ask() is Verdict.ROLLBACK


def test_an_exception_means_unknown_and_is_kept() -> None:
    broken = ValueError("broken")
    transaction = FakeCheckService(Scripted(broken, broken, COMMIT)).send(MESSAGE)

    assert transaction.ask() is None
    assert transaction.failures == [broken, broken]
    assert transaction.ask_until_settled() is Verdict.COMMIT


def test_after_check_max_requests_the_half_is_discarded() -> None:
    listener = Scripted(*[UNKNOW] * 3)
    transaction = FakeCheckService(listener, check_max=2).send(MESSAGE)

    assert transaction.ask(2) is None
    assert transaction.ask() is Verdict.DISCARD
    assert len(listener.requests) == 2


def test_any_process_of_the_group_answers() -> None:
    service = FakeCheckService(Scripted(UNKNOW))
    transaction = service.send(MESSAGE, crash=Crash.BEFORE_OP)
    service.listener = Scripted(COMMIT)

    assert transaction.ask() is Verdict.COMMIT


def test_what_a_producer_refuses_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        FakeCheckService(Scripted(), group="")
    with pytest.raises(InvalidMessageError):
        FakeCheckService(Scripted()).send(Message("RMQ_SYS_TRANS_HALF_TOPIC", b"b"))


def test_a_delay_is_dropped_as_the_producer_drops_it() -> None:
    delayed = Message("orders", b"b", properties={"DELAY": "3", "a": "b"}, delay_time_level=3)
    sent = FakeCheckService(Scripted(COMMIT)).send(delayed).message
    assert (sent.properties, sent.delay_time_level) == ({"a": "b"}, 0)
    assert delayed.properties["DELAY"] == "3"
