"""Spans of transactions and checks, and the trace context that goes with the half."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider
from tests.unit.client.producer_playing import (
    COMMIT,
    TRANSPORT,
    Clients,
    Committing,
    kafka,
    producer_of,
)

from checkback.client import LocalTransactionState, Message, MessageExt
from checkback.client.observing.tracing import TracedStep
from checkback.client.opentelemetry import OpenTelemetryTracing
from checkback.protocol.errors import SendError

__all__ = ["kafka"]
GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: InMemorySpanExporter) -> OpenTelemetryTracing:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OpenTelemetryTracing(provider)


def finished(exporter: InMemorySpanExporter) -> dict[str, Any]:
    return {span.name: span for span in exporter.get_finished_spans()}


def send(tracing: OpenTelemetryTracing, message: Message) -> Message:
    """Go through the steps as a producer does; return what would be sent."""
    with tracing.transaction(message) as carrying:
        carrying.transaction_id = "t-1"
        with tracing.step(TracedStep.HALF, carrying):
            pass
        with tracing.step(TracedStep.LOCAL_TRANSACTION, carrying) as told:
            told.ended(COMMIT, None)
        with tracing.step(TracedStep.OP, carrying):
            pass
    return carrying


def test_the_message_carries_the_transactions_context_and_a_given_one_is_its_parent(
    tracing: OpenTelemetryTracing, exporter: InMemorySpanExporter
) -> None:
    sent = send(tracing, Message("paid", b"x", properties={"traceparent": GIVEN, "a": "b"}))

    whole = finished(exporter)["transaction paid"]
    _, trace_id, span_id, _ = str(sent.properties["traceparent"]).split("-")
    assert trace_id == GIVEN.split("-")[1]
    assert int(span_id, 16) == whole.context.span_id
    assert f"{whole.parent.span_id:016x}" == GIVEN.split("-")[2]
    assert sent.properties["a"] == "b"


def test_a_check_goes_on_with_the_trace_of_its_half(
    tracing: OpenTelemetryTracing, exporter: InMemorySpanExporter
) -> None:
    sent = send(tracing, Message("paid", b"x"))
    request = MessageExt("paid", b"x", properties=sent.properties, check_times=2)
    with tracing.check(request) as told:
        told.ended(LocalTransactionState.UNKNOW, ValueError("no database"))

    spans = finished(exporter)
    whole, check = spans["transaction paid"], spans["check paid"]
    assert check.context.trace_id == whole.context.trace_id
    assert check.parent.span_id == whole.context.span_id
    assert check.attributes["checkback.check_times"] == 2
    assert not check.status.is_ok
    assert check.events[0].attributes["exception.message"] == "no database"


def test_a_process_without_a_tracer_sends_the_message_as_it_is() -> None:
    sent = send(OpenTelemetryTracing(NoOpTracerProvider()), Message("paid", b"x"))

    assert sent.properties == {}


@pytest.mark.parametrize("fails", ["", "half", "local transaction"])
def test_a_producer_takes_its_steps_in_spans(
    kafka: list[Clients], tracing: OpenTelemetryTracing, exporter: InMemorySpanExporter, fails: str
) -> None:
    listener = Committing(ValueError() if fails else None)
    with producer_of(listener, tracing=tracing) as producer:
        kafka[0].halves[0].refuses = TRANSPORT if fails == "half" else None
        try:
            sent = producer.send_message_in_transaction(Message("paid", b"x"))
        except SendError:
            sent = None

    spans = finished(exporter)
    names = ["half", "local transaction", "op", "transaction paid"]
    assert list(spans) == (names if sent else [names[0], names[-1]])
    failed = {name for name, span in spans.items() if not span.status.is_ok}
    assert failed == {"": set(), "half": {names[0], names[-1]}, names[1]: {names[1]}}[fails]
    whole = spans.pop("transaction paid")
    assert all(span.parent.span_id == whole.context.span_id for span in spans.values())
    if sent is not None:
        ids = {span.attributes.get("checkback.transaction_id") for span in spans.values()}
        assert ids == {sent.transaction_id}
        told = spans["local transaction"].attributes["checkback.state"]
        assert told == sent.local_transaction_state.name
