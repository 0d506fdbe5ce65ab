"""Stores what this version leaves behind, for later versions to start from.

    .venv/bin/python -m tests.upgrade.store_release

writes tests/data/releases/<version>/ and refuses to replace what is there: run it once for each
release, from its checkout. tests/integration/test_upgrade.py then starts from every folder there.

As long as this version is not released, a change of a format replaces what was stored of it:

    .venv/bin/python -m tests.upgrade.store_release --replace

Stored are the checkpoint, as a zip, and as JSON what its topics held and what its markers said. The
times after which something is forgotten or given up are long, because years may lie between.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition
from tests.integration.running import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Pipeline,
    Topics,
    wait_until,
)

from checkback import __version__
from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.protocol.properties import text_value

RELEASES: Final = Path(__file__).parents[1] / "data" / "releases"
TEN_YEARS_MS: Final = 10 * 365 * 86_400_000
GROUP: Final = "orders"
RULES: Final[Mapping[str, Any]] = {
    "transaction_timeout_ms": 1_000,
    "check_interval_ms": 2_000,
    "check_max": 1_000,
    "half_retention_ms": TEN_YEARS_MS,
    "verdict_retention_ms": TEN_YEARS_MS,
    "trigger_interval_ms": 1_000,
}
SNAPSHOTS: Final[Mapping[str, str]] = {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
}
"""So that a short run leaves snapshots, not only changelogs."""


def settings_of(topics: Topics, checkpoint: Path, application_id: str) -> Settings:
    """Settings that fit a stored release."""
    plain = topics.settings(checkpoint, application_id=application_id, **RULES)
    return replace(plain, spark={**plain.spark, **SNAPSHOTS})


def store(folder: Path) -> None:
    """Run a pipeline through transactions of every fate, and store what it leaves."""
    name = f"release-{__version__.replace('.', '-')}"
    with (
        tempfile.TemporaryDirectory() as temporary,
        EmbeddedBroker(Path(temporary) / "broker", jvm_options=QUICK_START) as broker,
    ):
        topics = Topics(broker.bootstrap_servers, f"{name}-")
        settings = settings_of(topics, Path(temporary) / "checkpoint", name)
        real = f"{name}-real"
        topics.create(settings, [real], [GROUP])
        expected = _play(topics, settings, real, Path(temporary))
        query_id = json.loads((Path(settings.checkpoint) / "metadata").read_text())["id"]
        stored = {
            "version": __version__,
            "application_id": name,
            "real_topic": real,
            "group": GROUP,
            "expected": expected,
            "markers": _markers(topics, f"{name}-marker-{query_id}"),
            "records": {
                "half": _records(topics, topics.names.half),
                "op": _records(topics, topics.names.op),
                "settled": _records(topics, topics.names.settled),
            },
        }
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "topics.json").write_text(json.dumps(stored, indent=1) + "\n")
        _zip(Path(settings.checkpoint), folder / "checkpoint.zip")


def _play(topics: Topics, settings: Settings, real: str, folder: Path) -> dict[str, Any]:
    def half(name: str, partition: int = 0) -> tuple[int, int]:
        return topics.send_half(name.encode(), real, partition=partition, group=GROUP, key=b"k")

    def op(at: tuple[int, int], name: str, state: int) -> None:
        topics.send_op(at, name, state, group=GROUP)

    asked = ["asked-0", "asked-1"]
    waits_for_answer = ["unknown-then-asked", *asked]
    with Pipeline(settings, folder) as pipeline:
        pipeline.wait_for("started")
        op(half("committed"), "committed", COMMIT)
        wait_until(lambda: topics.bodies(real) == ["committed"])
        op(half("rolled-back"), "rolled-back", ROLLBACK)
        op(half("unknown-then-asked"), "unknown-then-asked", UNKNOWN)
        places = {name: half(name, number) for number, name in enumerate(asked)}
        waiting = (1, places["asked-1"][1] + 1)
        op(waiting, "op-before-half", COMMIT)
        wait_until(
            lambda: check_counts(topics, GROUP).keys() == {*waits_for_answer}, what="their checks"
        )
        state = Path(settings.checkpoint) / "state"
        wait_until(lambda: list(state.rglob("*.sst")), what="a snapshot with a table file")
        assert pipeline.terminate() == 0, pipeline.errors()
    return {
        "committed": ["committed"],
        "rolled_back": ["rolled-back"],
        "pending": {name: max(told) for name, told in check_counts(topics, GROUP).items()},
        "waiting_op": {"transaction_id": "op-before-half", "at": waiting},
    }


def check_counts(topics: Topics, group: str) -> dict[str, list[int]]:
    """Return the numbers that check requests bore, in their order, by transaction."""
    found: dict[str, list[int]] = {}
    for message in topics.read(topics.names.check(group)):
        count = text_value(message.headers() or [], "TRANSACTION_CHECK_TIMES")
        found.setdefault((message.value() or b"").decode(), []).append(int(count or 0))
    return found


def _records(topics: Topics, topic: str) -> list[dict[str, Any]]:
    return [_record(one) for one in topics.read(topic)]


def _record(message: Message) -> dict[str, Any]:
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "key": _base64(message.key()),
        "value": _base64(message.value()),
        "headers": [[name, _base64(value)] for name, value in message.headers() or []],
    }


def _base64(content: bytes | str | None) -> str | None:
    plain = content.encode() if isinstance(content, str) else content
    return None if plain is None else base64.b64encode(plain).decode()


def _markers(topics: Topics, group: str) -> dict[str, Any]:
    consumer = Consumer({"bootstrap.servers": topics.bootstrap_servers, "group.id": group})
    wanted = [TopicPartition(topics.names.settled, number) for number in range(2)]
    found = consumer.committed(wanted, 20)
    consumer.close()
    return {"group": group, "offsets": {one.partition: [one.offset, one.metadata] for one in found}}


def _zip(checkpoint: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for path in sorted(checkpoint.rglob("*")):
            if path.is_file() and path.suffix != ".crc":
                written.write(path, path.relative_to(checkpoint))


if __name__ == "__main__":
    target = RELEASES / __version__
    if target.exists() and sys.argv[1:] != ["--replace"]:
        sys.exit(f"{target} exists; --replace replaces it as long as it is not released.")
    store(target)
    sys.stdout.write(f"{target}\n")
