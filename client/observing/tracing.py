"""The hooks by which a producer reports its steps to a tracing library.

Nothing here knows a tracing library. `checkback.client.opentelemetry` has the adapter for one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from checkback.client.listener import LocalTransactionState
from checkback.client.message import Message, MessageExt


class TracedStep(StrEnum):
    """What happens inside a transaction; the values name the spans."""

    HALF = "half"
    LOCAL_TRANSACTION = "local transaction"
    OP = "op"


class StepSpan(Protocol):
    """Receives how a step ended."""

    def ended(self, state: LocalTransactionState, error: Exception | None) -> None:
        """Note the state that the step ended with, and what the listener raised, if it did."""


class Tracing(ABC):
    """The steps of a producer as context managers, which several threads may enter at once.

    What a block raises ends the call of the sender. If the local transaction has run by then, no
    op is sent, and a check asks for the outcome.
    """

    @abstractmethod
    def transaction(self, message: Message) -> AbstractContextManager[Message]:
        """Enclose a transaction; yield the message to send, with the trace in its properties."""

    @abstractmethod
    def step(self, step: TracedStep, message: Message) -> AbstractContextManager[StepSpan]:
        """Enclose a step of the transaction that encloses it."""

    @abstractmethod
    def check(self, request: MessageExt) -> AbstractContextManager[StepSpan]:
        """Enclose the answer to a check request; the request has the half's properties."""
