"""Which of the application's Kafka settings reach librdkafka. Nothing is connected to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from checkback.client.kafka.connections import KafkaClients
from checkback.client.options import MOST, ProducerOptions
from checkback.protocol.errors import ConfigurationError

OPENED: dict[str, Callable[[KafkaClients], Any]] = {
    "halves": lambda clients: clients.half_producer(print),
    "plain messages": lambda clients: clients.plain_producer(print),
    "ops": lambda clients: clients.op_producer(print, print),
}

WAITING = """
import time
from checkback.client.kafka.connections import KafkaClients
from checkback.client.options import ProducerOptions

# librdkafka has a cluster for tests: one broker here, which answers after a while.
broker = {"test.mock.num.brokers": "1", "test.mock.broker.rtt": "150"}
clients = KafkaClients("127.0.0.1:1", "test", ProducerOptions(kafka=broker))
clients._base["allow.auto.create.topics"] = True
producer = clients.half_producer(print)
before_s = time.process_time()
for number in range(600):
    producer.produce("half", b"x", partition=number % 3)
    time.sleep(0.003)
assert producer.flush(10) == 0
print(time.process_time() - before_s)
"""
"""Sends halves to three partitions while halves are under way, and prints the processor time."""


def clients(kafka: dict[str, str], retries: int = 2) -> KafkaClients:
    options = ProducerOptions(kafka=kafka, retry_times_when_send_failed=retries)
    return KafkaClients("127.0.0.1:1", "test", options)


def given(
    monkeypatch: pytest.MonkeyPatch, what: str, kafka: dict[str, str], retries: int = 2
) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "checkback.client.kafka.connections.Producer", lambda settings, **_: seen.append(settings)
    )
    OPENED[what](clients(kafka, retries))
    return seen[0]


@pytest.mark.parametrize("what", OPENED)
@pytest.mark.parametrize(
    "kafka",
    [
        {"enable.idempotence": "true"},
        {"enable.idempotence": "false"},
        {"acks": "1"},
        {"enable.gapless.guarantee": "true"},
        {"delivery.report.only.error": "true"},
    ],
    ids=str,
)
def test_no_setting_takes_a_promise_away(
    what: str, kafka: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = given(monkeypatch, what, kafka)
    monkeypatch.undo()

    assert settings["acks"] == "all"
    # librdkafka gives an idempotent one up: only that of halves is replaced then.
    assert settings["enable.idempotence"] is (what == "halves")
    assert settings["delivery.report.only.error"] is (what == "ops")
    assert OPENED[what](clients(kafka)) is not None, "librdkafka takes them together"


@pytest.mark.parametrize("kafka", [{"stats_cb": "x"}, {"throttle_cb": "x"}, {"linger": "x"}])
def test_a_setting_that_librdkafka_does_not_take_is_an_error_of_the_configuration(
    kafka: dict[str, str],
) -> None:
    with pytest.raises(ConfigurationError, match="librdkafka does not take"):
        clients(kafka).half_producer(print)


def test_a_transactional_id_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.transactional\.id"):
        clients({"transactional.id": "x"})


@pytest.mark.parametrize(
    "options",
    [
        {"send_msg_timeout_ms": 300_001},
        {"max_message_size": 1_000_000_000},
        {"check_session_timeout_ms": 300_001},
        {"compression_type": "lzma"},
    ],
    ids=str,
)
def test_an_option_that_librdkafka_would_refuse_is_refused_by_its_name(
    options: dict[str, Any],
) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        ProducerOptions(**options)


def test_the_largest_options_are_taken() -> None:
    widest = KafkaClients("127.0.0.1:1", "test", ProducerOptions(**MOST))  # type: ignore[arg-type]
    for open_one in OPENED.values():
        open_one(widest)
    widest.check_consumer("g").close()


@pytest.mark.parametrize("retries", [0, 2])
def test_librdkafka_tries_a_plain_message_as_often_as_the_option_says(
    retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert given(monkeypatch, "plain messages", {}, retries)["retries"] == retries


def test_no_thread_spins_while_halves_wait_for_others() -> None:
    """In a process of its own, because other tests leave threads that poll."""
    ran = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, check=True)
    assert float(ran.stdout) < 0.15
