"""Starts that fail, shutdowns at bad moments, and sends that are interrupted."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.client.producer_playing import (
    TRANSPORT,
    Clients,
    Committing,
    QuietProducer,
    kafka,
    producer_of,
)

from checkback.client import (
    DefaultMQProducer,
    LocalTransactionState,
    Message,
    ServiceState,
    TransactionMQProducer,
)
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.opentelemetry import OpenTelemetryTracing
from checkback.client.sending.op_producer import OpProducer
from checkback.protocol.errors import (
    BrokerError,
    ConfigurationError,
    InvalidMessageError,
    LifeCycleError,
    PrerequisiteError,
)
from checkback.testing import wait_until

__all__ = ["kafka"]
STATUS = "RMQ_SYS_TRANS_STATUS_TOPIC"


def test_a_start_that_fails_leaves_nothing_open(kafka: list[Clients]) -> None:
    producer = producer_of()
    kafka[0].opened_admin.fails[STATUS] = TRANSPORT
    for _ in range(3):
        with pytest.raises(BrokerError, match="could not be reached"):
            producer.start()
    assert all(one.is_closed for one in kafka[0].halves + kafka[0].ops)

    kafka[0].opened_admin.fails.clear()
    producer.start()
    assert producer.send_message_in_transaction(Message("t", b"x")).queue_offset == 7
    assert producer.shutdown() == 0


@pytest.mark.parametrize(
    ("module", "question"),
    [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")],
)
def test_a_process_whose_threads_were_replaced_is_refused(
    kafka: list[Clients], monkeypatch: pytest.MonkeyPatch, module: str, question: str
) -> None:
    """In gevent's workers a start() froze the whole process."""
    is_patched = {"threading": True, "thread": True}
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{question: is_patched.pop}))
    producer = producer_of()

    with pytest.raises(PrerequisiteError, match=r"has replaced this process's threads.*gthread"):
        producer.start()

    assert kafka[0].halves == []
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{question: lambda _: False}))
    producer.start()
    assert producer.shutdown() == 0


def test_a_property_that_no_signature_binds_is_refused_before_sending(
    kafka: list[Clients],
) -> None:
    """Moved into another property, its end had the same signature."""
    message = Message("t", b"x", properties={"a": b"1\xff2"})
    signing: dict[str, Any] = {"access_key": "a", "secret_key": "secret-of-a"}
    for options, is_sent in ((signing, False), ({}, True)):
        producer = producer_of(**options)
        producer.start()
        with nullcontext() if is_sent else pytest.raises(InvalidMessageError, match="a byte ff"):
            producer.send_message_in_transaction(message)
        assert bool(kafka[-1].halves[0].sent) is is_sent
        producer.shutdown()


def test_one_producer_of_a_group_runs_in_a_process(kafka: list[Clients]) -> None:
    """A check went to either; the one whose listener did not know the order rolled it back."""
    first = producer_of()
    first.start()
    for second in (producer_of(), DefaultMQProducer("g", bootstrap_servers="other")):
        with pytest.raises(LifeCycleError, match=r"Another producer of group g runs"):
            second.start()
        second.shutdown()
    assert first.send_message_in_transaction(Message("t", b"x")).queue_offset == 7
    elsewhere = producer_of(topic_prefix="eu.")
    elsewhere.start()
    elsewhere.shutdown()
    assert first.shutdown() == 0

    failing = producer_of()
    kafka[-1].opened_admin.fails[STATUS] = TRANSPORT
    with pytest.raises(BrokerError):
        failing.start()
    last = producer_of()
    last.start()
    assert last.shutdown() == 0


def started_in_a_child(producer: TransactionMQProducer) -> bool:
    """Tell whether a forked child can start a producer."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            producer.start()
        except LifeCycleError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_starts_a_producer_unless_one_ran_in_its_parent(kafka: list[Clients]) -> None:
    parents, own = producer_of(), producer_of(topic_prefix="another-")
    assert started_in_a_child(parents)
    parents.start()
    assert not started_in_a_child(own)
    parents.shutdown()
    assert started_in_a_child(own)


@pytest.mark.parametrize("started", range(6))
def test_a_start_that_lacks_threads_says_so_and_leaves_none_behind(
    kafka: list[Clients], monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    producer, left, start = producer_of(), [started], threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", limited)
        with pytest.raises(PrerequisiteError, match="can't start new thread"):
            producer.start()
    names = ("checkback-RMQ", "checkback-status", "checkback-check", "checkback-topics")
    wait_until(
        lambda: not [one for one in threading.enumerate() if one.name.startswith(names)],
        60, "the end of all threads",
    )  # fmt: skip

    producer.start()
    assert producer.send_message_in_transaction(Message("t", b"x")).queue_offset == 7
    assert producer.shutdown() == 0


def test_a_shutdown_that_is_interrupted_leaves_nothing_open(
    kafka: list[Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = producer_of()
    producer.start()
    producer.send(Message("t", b"x"))

    def interrupt(*_: object) -> int:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("checkback.client.producer.CallsInFlight.wait_until_idle", interrupt)
    with pytest.raises(KeyboardInterrupt):
        producer.shutdown()

    assert all(one.is_closed for one in kafka[0].halves + kafka[0].ops + kafka[0].plain)


def test_a_forked_child_may_shut_down_a_producer_that_another_thread_starts(
    kafka: list[Clients],
) -> None:
    """The child has the lock that the thread held, and not the thread."""
    producer, asked, answer = producer_of(), threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        answer.wait(60)

    kafka[0].opened_admin.fails[STATUS] = wait
    starting = threading.Thread(target=producer.start, daemon=True)
    starting.start()
    assert asked.wait(60)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        os._exit(producer.shutdown())
    assert os.waitpid(child, 0)[1] == 0
    answer.set()
    starting.join(60)
    assert producer.shutdown() == 0


def test_the_last_ops_are_sent_although_the_time_of_a_shutdown_is_over() -> None:
    class Late(QuietProducer):
        """Sends its op a moment later."""

        purged = False
        looks = 3

        def purge(self) -> None:
            self.purged = self.looks > 0

        def __len__(self) -> int:
            self.looks -= 1
            return int(self.looks > 0)

    late: Any = Late()
    ops = OpProducer(lambda *_: late, lambda: None, "op", Counters())  # type: ignore[arg-type,return-value]
    ops.close(0)
    assert not late.purged


def test_a_half_that_nobody_waits_for_any_more_is_in_doubt(
    kafka: list[Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its local transaction never runs: a check must not ask the application."""
    with producer_of() as producer:
        kafka[0].halves[0].is_silent = True

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("checkback.client.kafka.delivery_reports.ThreadReport.wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            producer.send_message_in_transaction(Message("t", b"x"))
        assert producer.counters.snapshot()[ClientEvent.SEND_IN_DOUBT] == 1
        kafka[0].halves[0].is_silent = False


def test_settings_that_only_the_checks_can_not_take_fail_the_start(
    kafka: list[Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that the producer would send, and nobody would answer its checks."""
    producer = producer_of()

    def refuse(*_: str) -> None:
        raise ConfigurationError("librdkafka does not take the Kafka settings.")

    monkeypatch.setattr(kafka[0], "check_consumer", refuse)
    with pytest.raises(ConfigurationError):
        producer.start()
    assert producer.service_state is ServiceState.CREATE_JUST
    assert all(one.is_closed for one in kafka[0].halves + kafka[0].ops)


def test_a_plain_send_beside_a_shutdown_opens_nothing(kafka: list[Clients]) -> None:
    """Its thread has seen the producer running, and comes to open a sender when it has ended."""
    producer = producer_of()
    producer.start()
    producer.shutdown()

    with pytest.raises(LifeCycleError):
        producer._plain_sender()
    assert not kafka[0].plain


def test_a_listener_with_coroutines_is_refused() -> None:
    """Nobody would await them: no local transaction would run, and no check be answered."""

    class Awaiting(Committing):
        async def check_local_transaction(self, message: Any) -> LocalTransactionState:  # type: ignore[override]
            raise NotImplementedError

    with pytest.raises(ConfigurationError, match="coroutines") as raised:
        producer_of(Awaiting())
    assert "AsyncTransactionMQProducer" in raised.value.remedy


@pytest.mark.parametrize("properties", [None, {"traceparent": 5}, {7: "a"}])
def test_a_message_that_can_not_be_sent_is_refused_before_it_is_traced(
    kafka: list[Clients], properties: Any
) -> None:
    with (
        producer_of(tracing=OpenTelemetryTracing()) as producer,
        pytest.raises(InvalidMessageError),
    ):
        producer.send_message_in_transaction(Message("t", b"x", properties=properties))
    assert not kafka[0].halves[0].sent


@pytest.mark.parametrize("tracing", [None, OpenTelemetryTracing()])
@pytest.mark.parametrize("raised", [ValueError("x"), StopIteration(), StopIteration(7)])
def test_whatever_a_listener_raises_its_op_says_unknown(
    kafka: list[Clients], raised: Exception, tracing: OpenTelemetryTracing | None
) -> None:
    with producer_of(Committing(raised), tracing=tracing) as producer:
        result = producer.send_message_in_transaction(Message("t", b"x"))
        assert producer.counters.snapshot()[ClientEvent.LISTENER_FAILED] == 1

    assert result.local_transaction_state is LocalTransactionState.UNKNOW
    assert result.exception is raised
    [op] = kafka[0].ops[0].sent
    assert dict(op["headers"])["COMMIT_OR_ROLLBACK"] == b"0"
    assert dict(op["headers"])["REMARK"].startswith(type(raised).__name__.encode())


def test_a_listener_that_ends_its_process_sends_no_op(kafka: list[Clients]) -> None:
    with producer_of(Committing(SystemExit())) as producer:
        with pytest.raises(SystemExit):
            producer.send_message_in_transaction(Message("t", b"x"))
        assert producer.counters.snapshot()[ClientEvent.SEND_IN_DOUBT] == 0
    assert not kafka[0].ops[0].sent
