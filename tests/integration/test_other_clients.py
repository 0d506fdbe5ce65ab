"""Clients of other makers read finals of every kind, and nothing that was aborted.

The finals are written by the sink's compiled part, by its Python part, and by a relay; bodies and
keys that are missing are among them. What Kafka Connect makes of headers is in docs/concepts.md.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from kafka.admin import ConfigResource, ConfigResourceType
from tests.integration.relay.relaying import relay_stage
from tests.integration.running import Topics, require_share_groups, wait_until
from tests.integration.sinking import Found, World, commits, make_world

from checkback.deploy.admin import admin_client
from checkback.deploy.broker import QUICK_START, free_ports
from checkback.deploy.broker_files import render
from checkback.deploy.jars import ensure_jars
from checkback.deploy.java import find_java

pytestmark = [
    pytest.mark.versions,
    pytest.mark.nightly,  # fetches jars, compiles, and starts a JVM for each client
    pytest.mark.skipif(shutil.which("javac") is None, reason="runs from source: needs a JDK"),
]
HERE: Final = Path(__file__).parent
BODIES: Final = (b"one", b"", None, b"\x00\xff")


@pytest.fixture
def finals(bootstrap_servers: str, unique: str) -> Iterator[dict[str, Found]]:
    """Finals of every kind, by real topic, as they have to be read."""
    made: dict[str, Found] = {}
    for name, is_native in (("c-", True), ("p-", False)):
        world = make_world(bootstrap_servers, f"{unique}{name}", native_sink=is_native)
        try:
            write_finals(world)
            made[world.real] = world.read(world.real)
        finally:
            world.close()
    topics = Topics(bootstrap_servers, f"{unique}r-")
    with relay_stage(topics) as stage:
        stage.take_all()
        stage.ready_relay()
        stage.commit("relayed", key=b"k")
        stage.settle()
        read = topics.read(stage.real)
        made[stage.real] = [(one.key(), one.value(), one.headers() or []) for one in read]
    for topic in made:
        abort(bootstrap_servers, topic)
    yield made
    assert {topic: len(found) for topic, found in made.items()} == {
        f"{unique}c-orders": 2 * len(BODIES),
        f"{unique}p-orders": 2 * len(BODIES),
        f"{unique}r-paid": 1,
    }


def write_finals(world: World) -> None:
    world.halves(BODIES)
    world.halves(BODIES, keyed=False)
    world.writer().write([commits(*range(2 * len(BODIES)))], 0)


def abort(servers: str, topic: str) -> None:
    """Write a message that is aborted behind the finals."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-aborted"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)


def share_committed(servers: str, group: str) -> None:
    settings = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
    with admin_client(servers, {}) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType["GROUP"], group, settings)])


def lines(finals: Mapping[str, Found]) -> Iterator[str]:
    """Yield finals as OtherReaders.java prints them."""
    for topic, found in finals.items():
        for key, value, headers in found:
            named = [f"{name}={shown(bytes(one))}" for name, one in headers]
            yield " ".join([topic, shown(key), shown(value), *named])


def shown(value: bytes | None) -> str:
    return "-" if value is None else f"x{base64.b64encode(value).decode()}"


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_finals_of_every_kind_are_read_as_they_are(
    kind: str, bootstrap_servers: str, unique: str, finals: dict[str, Found], tmp_path: Path
) -> None:
    group = f"{unique}{kind}"
    if kind == "share":
        require_share_groups(bootstrap_servers)
        share_committed(bootstrap_servers, group)
    count = str(sum(map(len, finals.values())))
    jars = os.pathsep.join(map(str, [*ensure_jars("kafka"), *ensure_jars("streams")]))
    ran = subprocess.run(
        [
            find_java(), "-Xmx256m", *QUICK_START, f"-Djava.io.tmpdir={tmp_path}", "-cp", jars,
            HERE / "OtherReaders.java", kind, bootstrap_servers, group, count, *finals,
        ],
        capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr[-3_000:]
    read = [line for line in ran.stdout.splitlines() if line.startswith(unique)]
    assert sorted(read) == sorted(lines(finals))


SENT: Final = {"whole": "1", "large": "300", "money": "1.50", "yes": "true", "list": "[1,2]",
               "day": "2026-11-28", "text": "a b"}  # fmt: skip
GUESSED: Final = {
    "whole": "int8=1", "large": "int16=300", "money": "float32=1.5", "yes": "boolean=true",
    "list": "array=[1, 2]", "day": "int32=Sat Nov 28 00:00:00 UTC 2026", "text": "string=a b",
    "TRAN_PREPARED_QUEUE_OFFSET": "int8=0", "TRAN_HALF_QUEUE_ID": "int8=0", "PGROUP": "string=g",
}  # fmt: skip
CONVERTERS: Final = {
    "guessing": "org.apache.kafka.connect.storage.SimpleHeaderConverter",  # Connect's own choice
    "text": "org.apache.kafka.connect.storage.StringConverter",
    "bytes": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


def test_connect_s_file_sink_has_every_committed_final_and_guesses_types_of_headers(
    bootstrap_servers: str, unique: str, finals: dict[str, Found], tmp_path: Path
) -> None:
    topics = Topics(bootstrap_servers, f"{unique}h-")
    with relay_stage(topics) as stage:
        stage.take_all()
        stage.ready_relay()
        half = topics.send_half(b"typed", stage.real, properties=SENT)
        topics.send_op(half, "typed", 8)
        stage.settle()
    wanted = [*finals, stage.real]
    count = sum(map(len, finals.values())) + 1

    with connect_sinks(bootstrap_servers, unique, wanted, tmp_path) as files:
        wait_until(lambda: all(len(read(file)) >= count for file in files.values()), 90)

    for name, file in files.items():
        found = read(file)
        assert len(found) == count, name
        assert not [one for one in found if one.startswith("aborted")]
    typed = {name: headers_of(file) for name, file in files.items()}
    assert {name: typed["guessing"].get(name) for name in GUESSED} == GUESSED
    assert {typed["text"][name] for name in SENT} == {f"string={one}" for one in SENT.values()}
    assert typed["text"]["TRAN_PREPARED_QUEUE_OFFSET"] == "string=0"
    assert {typed["bytes"][name] for name in SENT} == {f"bytes={one}" for one in SENT.values()}


def read(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []


def headers_of(file: Path) -> dict[str, str]:
    """Return type and value by name of the header, of the final that was sent with all types."""
    [line] = [one for one in read(file) if one.startswith("typed\t")]
    return dict(one.split(":", 1) for one in line.split("\t")[1:])


@contextmanager
def connect_sinks(
    servers: str, unique: str, topics: Iterable[str], folder: Path
) -> Iterator[dict[str, Path]]:
    """Run a Connect with a file sink for each converter of headers; yield their files."""
    jars = ensure_jars("connect")
    class_path = os.pathsep.join(map(str, [folder, *jars]))
    subprocess.run(
        ["javac", "-cp", class_path, "-d", folder, HERE / "HeaderTypes.java"], check=True
    )
    as_bytes = CONVERTERS["bytes"]
    worker = {
        "bootstrap.servers": servers, "consumer.isolation.level": "read_committed",
        "key.converter": as_bytes, "value.converter": as_bytes,
        "offset.storage.file.filename": folder / "offsets", "offset.flush.interval.ms": 1_000,
        "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
    }  # fmt: skip
    connectors = {
        name: {
            "name": f"{unique}{name}", "topics": ",".join(topics), "tasks.max": 1,
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": folder / f"{name}.txt", "header.converter": converter,
            "transforms": "shown", "transforms.shown.type": "checkback.tests.HeaderTypes",
        }
        for name, converter in CONVERTERS.items()
    }  # fmt: skip
    files = []
    for name, settings in {"worker": worker, **connectors}.items():
        files.append(folder / f"{name}.properties")
        files[-1].write_text(render({key: str(one) for key, one in settings.items()}))
    command: list[str | Path] = [
        find_java(), "-Xmx256m", *QUICK_START, "-Duser.timezone=UTC", "-cp", class_path,
        "org.apache.kafka.connect.cli.ConnectStandalone", *files,
    ]  # fmt: skip
    with (folder / "connect.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield {name: folder / f"{name}.txt" for name in CONVERTERS}
    except BaseException:
        print((folder / "connect.log").read_text()[-5_000:])
        raise
    finally:
        process.terminate()
        process.wait(60)
