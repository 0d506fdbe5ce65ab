"""The steps of a transaction: what a thread or an event loop has to do or wait for, in order."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from checkback.client.listener import CallbackResult, LocalTransactionState, one_line, result_of
from checkback.client.message import Message
from checkback.client.observing.tracing import TracedStep, Tracing
from checkback.client.results import TransactionSendResult
from checkback.client.sending.half_producer import AwaitReport


class LearnTopic(NamedTuple):
    """A topic that the brokers have to be asked about."""

    topic: str


class RunListener(NamedTuple):
    """A local transaction that the listener has to run; the answer is what it returns."""

    message: Message
    arg: Any


Request = LearnTopic | AwaitReport | RunListener
Steps = Generator[Request, Any, TransactionSendResult]


def traced_steps(
    tracing: Tracing, message: Message, transaction_id: str, begin: Callable[[Message], Steps]
) -> Steps:
    """Take the steps of a transaction, each in its span.

    Args:
        tracing: makes the spans.
        message: what the caller sends.
        transaction_id: of its half.
        begin: returns the steps of a message, which carries the trace.
    """
    with tracing.transaction(message) as carrying:
        steps = begin(carrying)
        with tracing.step(TracedStep.HALF, replace(carrying, transaction_id=transaction_id)):
            request = yield from _until_listener(steps, steps.__next__)
        if not isinstance(request, RunListener):
            return request
        with tracing.step(TracedStep.LOCAL_TRANSACTION, request.message) as span:
            try:
                answer = yield request
            except Exception as error:
                outcome = CallbackResult(LocalTransactionState.UNKNOW, one_line(error), error)
                go_on = partial(steps.throw, error)
            else:
                outcome = result_of(answer)
                go_on = partial(steps.send, answer)
            span.ended(outcome.state, outcome.exception)
        with tracing.step(TracedStep.OP, request.message):
            return cast("TransactionSendResult", (yield from _until_listener(steps, go_on)))


def _until_listener(
    steps: Steps, go_on: Callable[[], Request]
) -> Generator[Request, Any, RunListener | TransactionSendResult]:
    """Pass requests on; return the request to run the listener, or the result."""
    try:
        while not isinstance(request := go_on(), RunListener):
            try:
                answer = yield request
            except BaseException as error:
                go_on = partial(steps.throw, error)
            else:
                go_on = partial(steps.send, answer)
    except StopIteration as end:
        result: TransactionSendResult = end.value
        return result
    return request
