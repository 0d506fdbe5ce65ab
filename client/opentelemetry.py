"""Spans of a producer for OpenTelemetry; needs `pip install 'checkback[opentelemetry]'`.

    producer = TransactionMQProducer("orders", ..., tracing=OpenTelemetryTracing())

The span of a transaction has the half, the local transaction and the op below it. The half carries
its context as `traceparent`, which the pipeline passes on untouched. So consumers of the final
message continue the trace, and so does the span of a check, in any process that answers it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from checkback.client.listener import LocalTransactionState
from checkback.client.message import Message, MessageExt
from checkback.client.observing.tracing import StepSpan, TracedStep, Tracing


class _OpenTelemetrySpan:
    def __init__(self, span: Span) -> None:
        self._span = span

    def ended(self, state: LocalTransactionState, error: Exception | None) -> None:
        """Put the state on the span, and the error if there is one."""
        self._span.set_attribute("checkback.state", state.name)
        if error is not None:
            self._span.record_exception(error)
            self._span.set_status(Status(StatusCode.ERROR, type(error).__name__))


class OpenTelemetryTracing(Tracing):
    """Makes spans by OpenTelemetry.

    Args:
        tracer_provider: makes the tracer; the process's own if not given.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("checkback.client", tracer_provider=tracer_provider)

    @contextmanager
    def transaction(self, message: Message) -> Iterator[Message]:
        """Enclose a transaction; a `traceparent` among the message's properties is its parent."""
        is_given = "traceparent" in message.properties
        parent = propagate.extract(_texts(message)) if is_given else None
        attributes = {"messaging.system": "kafka", "messaging.destination.name": message.topic}
        with self._tracer.start_as_current_span(
            f"transaction {message.topic}", parent, SpanKind.PRODUCER, attributes
        ):
            carried: dict[str, str] = {}
            propagate.inject(carried)
            yield replace(message, properties={**message.properties, **carried})

    @contextmanager
    def step(self, step: TracedStep, message: Message) -> Iterator[StepSpan]:
        """Enclose a step."""
        attributes = {"checkback.transaction_id": message.transaction_id}
        with self._tracer.start_as_current_span(step.value, attributes=attributes) as span:
            yield _OpenTelemetrySpan(span)

    @contextmanager
    def check(self, request: MessageExt) -> Iterator[StepSpan]:
        """Enclose the answer to a check request, as part of the trace of its transaction."""
        attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.destination.name": request.topic,
            "checkback.transaction_id": request.transaction_id,
            "checkback.check_times": request.check_times,
        }
        parent = propagate.extract(_texts(request))
        with self._tracer.start_as_current_span(
            f"check {request.topic}", parent, SpanKind.CONSUMER, attributes
        ) as span:
            yield _OpenTelemetrySpan(span)


def _texts(message: Message) -> dict[str, str]:
    return {name: text for name, text in message.properties.items() if isinstance(text, str)}
