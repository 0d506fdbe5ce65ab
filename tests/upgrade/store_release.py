"""Stores what a version leaves behind, for later versions to start from.

    .venv/bin/python -m tests.upgrade.store_release NAME

writes tests/data/releases/NAME/ and refuses to replace what is there: run it once for each release,
from its checkout. tests/integration/test_upgrade.py then starts from every folder there.

Stored are the checkpoint, as a zip, and as JSON what its topics held and what its markers said. The
job is killed in the middle of a batch that is planned and not committed, and records that it never
read follow on each topic. That of commit 641b9cc has messages, too, that clients delivered
themselves. The times after which something is forgotten or given up are long,
because years may lie between.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition
from tests.integration.running import COMMIT, ROLLBACK, UNKNOWN, Pipeline, Topics, wait_until

from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.protocol.properties import text_value
from checkback.protocol.records import undelivered_check_headers

RELEASES: Final = Path(__file__).parents[1] / "data" / "releases"
TEN_YEARS_MS: Final = 10 * 365 * 86_400_000
QUIET_MS: Final = 240_000
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
NEVER_ASKED: Final = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "240"}
LATER_HALVES: Final = 3
"""How many follow in partition 1."""
KILL_TIMEOUT_S: Final = 60.0


def settings_of(topics: Topics, checkpoint: Path, application_id: str) -> Settings:
    """Settings that fit a stored release."""
    plain = topics.settings(checkpoint, application_id=application_id, **RULES)
    return replace(plain, spark={**plain.spark, **SNAPSHOTS})


def store(name: str, folder: Path) -> None:
    """Run a pipeline through transactions of every fate, and store what it leaves."""
    application_id = f"release-{name}"
    with (
        tempfile.TemporaryDirectory() as temporary,
        EmbeddedBroker(Path(temporary) / "broker", jvm_options=QUICK_START) as broker,
    ):
        topics = Topics(broker.bootstrap_servers, f"{application_id}-")
        settings = settings_of(topics, Path(temporary) / "checkpoint", application_id)
        real = f"{application_id}-real"
        topics.create(settings, [real], [GROUP])
        expected = Play(topics, settings, real, Path(temporary)).run()
        query_id = json.loads((Path(settings.checkpoint) / "metadata").read_text())["id"]
        kept = (*topics.names.read, topics.names.settled, real)
        stored = {
            "application_id": application_id,
            "prefix": topics.prefix,
            "real_topic": real,
            "group": GROUP,
            "expected": expected,
            "markers": _markers(topics, f"{application_id}-marker-{query_id}"),
            "records": {topic: _records(topics, topic) for topic in kept},
        }
        folder.mkdir(parents=True)
        (folder / "topics.json").write_text(json.dumps(stored, indent=1) + "\n")
        _zip(Path(settings.checkpoint), folder / "checkpoint.zip")


@dataclass
class Play:
    """Transactions of every fate, and a job that is killed among them.

    Args:
        topics: of the broker.
        settings: of the job.
        real: the real topic.
        folder: for the job's files.
    """

    topics: Topics
    settings: Settings
    real: str
    folder: Path
    at: dict[str, tuple[int, int]] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        """Play all, and return what a job that goes on has to make of it."""
        with Pipeline(self.settings, self.folder) as pipeline:
            pipeline.wait_for("started")
            self._ask_back()
            assert pipeline.terminate() == 0, pipeline.errors()
        # Long enough that the batch to be killed asks nobody; what starts from it later asks all.
        slow = replace(self.settings, check_interval_ms=QUIET_MS)
        asked = check_counts(self.topics, GROUP)
        with Pipeline(slow, self.folder) as pipeline:
            pipeline.wait_for("started")
            wait_until(lambda: self._is_asked_after(asked), what="the checks of the second run")
            self._kill_in_batch(pipeline)
        self._add_unread()
        counts = {name: max(told) for name, told in check_counts(self.topics, GROUP).items()}
        never_asked = ("young", "planned-pending", "unread-pending")
        return {
            "finals_before": self.topics.bodies(self.real),
            "finals_of_records": [
                "planned-one",
                "planned-read-before",
                "planned-zero",
                "unread-committed",
                "unread-read-before",
            ],
            "rolled_back": ["rolled-back", "unread-rolled-back"],
            "pending": {
                name: counts.get(name, 0)
                for name in (*never_asked, "unknown-then-asked", "asked-0", "asked-1", "given-back",
                             "direct-asked")
            },
            "given_back": "given-back",
            "waiting_op": {"name": "op-before-half", "at": self.at["op-before-half"]},
        }  # fmt: skip

    def half(self, name: str, partition: int = 0, **properties: str) -> None:
        self.at[name] = self.topics.send_half(
            name.encode(), self.real, partition=partition, group=GROUP, key=b"k",
            properties=properties,
        )  # fmt: skip

    def op(self, name: str, state: int) -> None:
        self.topics.send_op(self.at[name], name, state, group=GROUP)

    def _ask_back(self) -> None:
        topics, waits = self.topics, ["unknown-then-asked", "asked-0", "asked-1", "given-back"]
        self.half("committed")
        self.op("committed", COMMIT)
        wait_until(lambda: topics.bodies(self.real) == ["committed"])
        self.half("rolled-back")
        self.op("rolled-back", ROLLBACK)
        for number, name in enumerate(waits):
            self.half(name, number % 2)
        self.op("unknown-then-asked", UNKNOWN)
        for number, name in enumerate(
            ["young", "planned-read-before", "unread-read-before", "unread-rolled-back"]
        ):
            self.half(name, number % 2, **NEVER_ASKED)
        # An op that arrives before its half, which is the next one of its partition in the end.
        self.at["op-before-half"] = (1, self.at["unread-rolled-back"][1] + LATER_HALVES + 1)
        self.op("op-before-half", COMMIT)
        wait_until(lambda: check_counts(topics, GROUP).keys() == {*waits}, what="their checks")
        state = Path(self.settings.checkpoint) / "state"
        wait_until(lambda: list(state.rglob("*.sst")), what="a snapshot with a table file")

    def _is_asked_after(self, before: Mapping[str, list[int]]) -> bool:
        now = check_counts(self.topics, GROUP)
        return all(len(now[name]) > len(told) for name, told in before.items())

    def _kill_in_batch(self, pipeline: Pipeline) -> None:
        """Send what the batch is to read, and kill the job when the first final can be seen."""
        done = self._last("commits")
        wait_until(lambda: self._last("commits") > done + 1, what="quiet batches")
        watch = Consumer({**self.topics.connection, "group.id": "watch", "fetch.wait.max.ms": 5})
        watch.assign(
            [
                TopicPartition(self.real, number, end)
                for number in range(2)
                for _, end in [watch.get_watermark_offsets(TopicPartition(self.real, number), 20)]
            ]
        )
        os.kill(pipeline.pid, signal.SIGSTOP)  # the batch reads all of them
        for number, name in enumerate(["planned-pending", "planned-zero", "planned-one"]):
            self.half(name, (number + 1) % 2)
        for name in ("planned-zero", "planned-one", "planned-read-before"):
            self.op(name, COMMIT)
        sent = self._ends()
        os.kill(pipeline.pid, signal.SIGCONT)
        deadline_s = time.monotonic() + KILL_TIMEOUT_S
        while not (seen := watch.poll(0.01)) or not (seen.value() or b"").startswith(b"planned"):
            assert time.monotonic() < deadline_s, "no final of the batch"
        pipeline.kill()
        watch.close()
        assert self._last("offsets") == self._last("commits") + 1, "the batch was done already"
        plan = Path(self.settings.checkpoint) / "offsets" / str(self._last("offsets"))
        planned = json.loads(plan.read_text().splitlines()[-1])
        assert sent.items() <= planned.items(), "not all was in the killed batch"

    def _ends(self) -> dict[str, dict[str, int]]:
        """Return the ends of the topics that clients write to, as Spark writes them."""
        names, consumer = (
            self.topics.names,
            Consumer({**self.topics.connection, "group.id": "ends"}),
        )
        ends = {
            topic: {
                str(number): consumer.get_watermark_offsets(TopicPartition(topic, number), 20)[1]
                for number in range(2)
            }
            for topic in (names.half, names.op)
        }
        consumer.close()
        return ends

    def _last(self, log: str) -> int:
        folder = Path(self.settings.checkpoint) / log
        return max(int(one.name) for one in folder.iterdir() if one.name.isdigit())

    def _add_unread(self) -> None:
        self.half("unread-pending", 1)
        assert self.at["unread-pending"][1] + 1 == self.at["op-before-half"][1]
        self.half("unread-committed", 0)
        self.op("unread-committed", COMMIT)
        self.op("unread-read-before", COMMIT)
        self.op("unread-rolled-back", ROLLBACK)
        partition, offset = self.at["given-back"]
        times = max(check_counts(self.topics, GROUP)["given-back"])
        headers = undelivered_check_headers(times)
        self.topics.send_raw(self.topics.names.feedback, b"%d" % offset, headers, partition)


def check_counts(topics: Topics, group: str) -> dict[str, list[int]]:
    """Return the numbers that check requests bore, in their order, by transaction."""
    found: dict[str, list[int]] = {}
    for message in topics.read(topics.names.check(group)):
        count = text_value(message.headers() or [], "TRANSACTION_CHECK_TIMES")
        found.setdefault((message.value() or b"").decode(), []).append(int(count or 0))
    return found


def _records(topics: Topics, topic: str) -> list[dict[str, Any]]:
    """Return a topic's records, each with the offset after it: a transaction's end takes one."""
    read = sorted(topics.read(topic), key=lambda record: (record.partition(), record.offset()))
    consumer = Consumer({**topics.connection, "group.id": "ends"})
    found = [_record(record) for record in read]
    for record, following in zip(found, [*found[1:], None], strict=True):
        if following is not None and following["partition"] == record["partition"]:
            record["next"] = following["offset"]
        else:
            place = TopicPartition(topic, record["partition"])
            record["next"] = consumer.get_watermark_offsets(place, 20)[1]
    consumer.close()
    return found


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
    if len(sys.argv) != 2 or (RELEASES / sys.argv[1]).exists():
        sys.exit("Name a folder of tests/data/releases that does not exist.")
    store(sys.argv[1], RELEASES / sys.argv[1])
    sys.stdout.write(f"{RELEASES / sys.argv[1]}\n")
