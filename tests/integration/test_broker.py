"""The embedded broker and its commands, for real."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaTimeoutError
from tests.integration.running import COMMAND, wait_until
from tests.programs import checkback

from checkback.deploy.admin import admin_client
from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.deploy.watcher import is_alive
from checkback.protocol.errors import BrokerError, PrerequisiteError


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """The broker of this module: no other test may see it paused or killed."""
    folder = tmp_path_factory.mktemp("broker")
    with EmbeddedBroker(folder, jvm_options=QUICK_START) as running:
        yield running


def write(servers: str, topic: str, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    producer.send(topic, value).get(timeout=30)
    producer.close()


def read_first(servers: str, topic: str) -> bytes:
    consumer = KafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
    try:
        return bytes(next(iter(consumer)).value)
    finally:
        consumer.close()


def test_records_survive_a_kill(broker: EmbeddedBroker) -> None:
    servers, first = broker.bootstrap_servers, broker.pid
    with admin_client(servers, {}) as admin:
        admin.create_topics({"kept": {}}, wait_for_metadata=True)
    write(servers, "kept", b"before")
    broker.kill()
    assert broker.pid is None

    broker.restart()

    assert broker.bootstrap_servers == servers
    assert broker.pid != first
    assert read_first(servers, "kept") == b"before"


def test_a_paused_broker_answers_when_it_goes_on(broker: EmbeddedBroker, unique: str) -> None:
    with admin_client(broker.bootstrap_servers, {}) as admin:
        admin.create_topics({unique: {}}, wait_for_metadata=True)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all")
    producer.send(unique, b"awake").get(timeout=30)

    broker.pause()
    try:
        asleep = producer.send(unique, b"asleep")
        with pytest.raises(KafkaTimeoutError):
            asleep.get(timeout=1)
    finally:
        broker.resume()

    assert asleep.get(timeout=30).offset == 1
    producer.close()


def test_no_topic_appears_by_accident(bootstrap_servers: str, unique: str) -> None:
    with admin_client(bootstrap_servers, {}) as admin:
        admin.create_topics({f"{unique}asked-for": {}}, wait_for_metadata=True)
        admin.describe_topics([unique])
        existing = admin.list_topics()

    assert f"{unique}asked-for" in existing
    assert unique not in existing


def test_everything_listens_on_one_loopback_address_alone(broker: EmbeddedBroker) -> None:
    for port in broker.node.ports:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
        with pytest.raises(OSError):  # would connect if the port listened on all addresses
            socket.create_connection(("127.0.0.2", port), timeout=2).close()


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        # The watcher that SIGKILL shows acts whatever ends its parent.
        pytest.param(signal.SIGTERM, marks=pytest.mark.nightly),
        pytest.param(signal.SIGINT, marks=pytest.mark.nightly),
    ],
)
def test_broker_ends_with_its_parent_however_that_ends(tmp_path: Path, number: int) -> None:
    program = (
        "import signal, sys, time; from checkback.deploy import broker as brokers\n"
        # Whoever runs the tests in the background lets them ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with brokers.EmbeddedBroker(sys.argv[1], jvm_options=brokers.QUICK_START) as broker:\n"
        "    print(broker.pid, flush=True); time.sleep(300)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())

        parent.send_signal(number)

        parent.wait(90)
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    """Tell whether a process lives; one that ended and that nobody waited for does not."""
    if not is_alive(pid):
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or ") Z " not in state.read_text()


def test_a_folder_in_use_is_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(PrerequisiteError, match=rf"Another broker runs on .*pid {broker.pid}"):
        EmbeddedBroker(broker.folder.path).start()


def test_a_setting_that_kafka_refuses_is_told_with_the_place_of_the_log(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, properties={"num.io.threads": "none"})

    with pytest.raises(BrokerError) as failed:
        broker.start()

    assert str(tmp_path / "logs") in str(failed.value)
    assert broker.pid is None


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, int]]:
    """A broker that the command started: its folder, address and process id."""
    folder = tmp_path_factory.mktemp("broker command") / "dépôt 📦"
    ran = checkback("broker", "start", "--data-dir", str(folder), "--output", "json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    yield folder, told["bootstrap_servers"], told["pid"]
    if is_alive(told["pid"]):
        os.kill(told["pid"], signal.SIGKILL)


class TestCommands:
    """`checkback broker start|status|stop`."""

    def test_start_leaves_a_broker_running_that_answers(
        self, started: tuple[Path, str, int]
    ) -> None:
        _, servers, pid = started

        with admin_client(servers, {}) as admin:
            assert len(admin.describe_cluster()["brokers"]) == 1
        assert is_alive(pid)

    @pytest.mark.nightly  # the watcher of test_broker_ends_with_its_parent_however_that_ends
    def test_a_start_that_is_cut_short_leaves_no_broker(self, tmp_path: Path) -> None:
        with subprocess.Popen([COMMAND, "broker", "start", "--data-dir", str(tmp_path)]) as start:
            record = tmp_path / "broker.json"
            wait_until(record.exists)
            pid = json.loads(record.read_text())["pid"]

            start.kill()

        wait_until(lambda: not is_running(pid))

    def test_a_taken_port_is_one_sentence(
        self, started: tuple[Path, str, int], tmp_path: Path
    ) -> None:
        port = started[1].rpartition(":")[2]

        ran = checkback("broker", "start", "--data-dir", str(tmp_path), "--port", port)

        assert ran.returncode == 3
        assert ran.stdout == ""
        assert ran.stderr == (
            f"checkback: Port {port} on 127.0.0.1 is taken."
            " Stop the program that listens there, or choose another port with --port.\n"
        )

    def test_status_then_stop_then_status(self, started: tuple[Path, str, int]) -> None:
        folder, servers, pid = started
        arguments = ("--data-dir", str(folder), "--output", "json")

        running = checkback("broker", "status", *arguments)
        stopped = checkback("broker", "stop", *arguments)
        gone = checkback("broker", "status", *arguments)
        again = checkback("broker", "stop", *arguments)

        assert json.loads(running.stdout) == {
            "running": True,
            "bootstrap_servers": servers,
            "pid": pid,
        }
        assert json.loads(stopped.stdout) == {"stopped": True, "pid": pid}
        assert (gone.returncode, json.loads(gone.stdout)) == (1, {"running": False})
        assert (again.returncode, json.loads(again.stdout)) == (0, {"stopped": False, "pid": None})
        wait_until(lambda: not is_running(pid))  # Kafka's lock is free a moment earlier
