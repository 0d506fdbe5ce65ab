"""A producer that the sink gives up ends at once, with its threads and connections.

The reports of its records come to a method of its owner's, so each refers to the other, and only a
garbage collection would end it: a process that makes few objects has none for thousands of batches.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from checkback.protocol.configuration import Settings
from checkback.sinks.kafka.transaction import producer as transaction
from checkback.sinks.kafka.transaction.errors import ProducerLostError
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.settings import SinkSettings

SETTINGS = SinkSettings(Settings(), "q", {}, 1_000)


class Kafka:
    """In place of confluent-kafka's producer: keeps its settings, as that does."""

    made: list[weakref.ref[Any]]

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.made.append(weakref.ref(self))

    def purge(self) -> None:
        """Do nothing."""


class Markers:
    """In place of the store of markers."""

    def __init__(self, _: SinkSettings) -> None:
        Kafka.made.append(weakref.ref(self))

    def read(self, _: list[int]) -> dict[int, Any]:
        return {}

    read_hastily = read

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Any]]]:
    Kafka.made = []
    monkeypatch.setattr(transaction, "Producer", Kafka)
    monkeypatch.setattr(transaction, "MarkerStore", Markers)
    gc.disable()
    try:
        yield Kafka.made
    finally:
        gc.enable()


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_producer_that_is_given_up_is_gone(
    monkeypatch: pytest.MonkeyPatch, made: list[weakref.ref[Any]], *, is_answered: bool
) -> None:
    """So is one that could not be initialised."""

    def initialise(_: MarkedProducer) -> None:
        if not is_answered:
            raise ProducerLostError("The brokers do not answer.")

    monkeypatch.setattr(MarkedProducer, "_initialise", initialise)

    with suppress(ProducerLostError):
        MarkedProducer(SETTINGS, 0).close()

    assert [one() for one in made] == [None, None]
