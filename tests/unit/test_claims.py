"""A claim is read from the settled topic, on which a stranger may have written first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from tests.deciding import message

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, CheckpointError
from checkback.streaming.start import topic_claim
from checkback.streaming.start.topic_claim import (
    FILE,
    HEADER,
    REPEAT_MS_MAX,
    RETRY_MS,
    Claim,
    TopicClaim,
    claimed_half_topic,
    mark_won,
)

CLAIM = Claim("id", "app", "/checkpoint", "half")


@pytest.mark.parametrize(
    "said", [b"", b"{", b"[]", b"7", b"null", b"{}", b"\xff", b"[" * 200_000, b'{"id": 1}', None]
)
def test_what_is_no_claim_ends_no_start(said: bytes | None) -> None:
    assert Claim.from_record(message(headers=[(HEADER, said)])) is None


class SettledLog:
    """The first partition of a settled topic; retention deletes from its beginning."""

    def __init__(self) -> None:
        self.first, self.records, self.is_down = 0, list[Any](), False

    def append(self, headers: list[tuple[str, bytes]]) -> Any:
        at = len(self.records)
        self.records.append(
            SimpleNamespace(offset=lambda: at, headers=lambda: headers, error=lambda: None)
        )
        return self.records[at]

    def produce_and_wait(self, *_: Any, headers: list[tuple[str, bytes]], **__: Any) -> Any:
        if self.is_down:
            raise BrokerError("no answer", remedy="")
        return self.append(headers)

    def delete_all(self) -> None:
        self.first = len(self.records)

    def claims(self) -> list[str]:
        found = [Claim.from_record(one) for one in self.records[self.first :]]
        return [one.checkpoint for one in found if one is not None]


class Reader:
    def __init__(self, log: SettledLog) -> None:
        self.log, self.at = log, 0

    def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
        return self.log.first, len(self.log.records)

    def assign(self, places: list[TopicPartition]) -> None:
        self.at = places[0].offset

    def poll(self, _: float) -> Any:
        if self.at == len(self.log.records):
            end = KafkaError(KafkaError._PARTITION_EOF)
            return SimpleNamespace(error=lambda: end)
        self.at += 1
        return self.log.records[self.at - 1]

    def close(self) -> None: ...


@dataclass
class Folder:
    """A checkpoint's own files."""

    files: dict[str, str] = field(default_factory=dict)

    def read_own(self, name: str) -> str | None:
        return self.files.get(name)

    def replace_own(self, name: str, text: str) -> None:
        self.files[name] = text

    def last_batch(self, _: str) -> int | None:
        return None


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> SettledLog:
    made = SettledLog()
    monkeypatch.setattr(topic_claim, "Consumer", lambda _: Reader(made))
    monkeypatch.setattr(topic_claim, "produce_and_wait", made.produce_and_wait)
    return made


@dataclass
class Job:
    """A checkpoint, and the job that runs over it."""

    name: str
    marks_kept_ms: int | None = None
    now_ms: int = 10**12
    folder: Any = field(default_factory=Folder)

    def __post_init__(self) -> None:
        self.settings = Settings(bootstrap_servers="b:1", checkpoint=self.name)
        kept_ms, folder = self.marks_kept_ms, self.folder
        self.claim = TopicClaim(self.settings, {}, folder, "half", kept_ms, lambda: self.now_ms)

    def start(self) -> None:
        self.claim.claim()

    def runs_for(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.claim.renew_if_due()

    @property
    def held(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.folder.files[FILE])
        return found


def test_a_running_job_repeats_its_claim_before_retention_deletes_it(log: SettledLog) -> None:
    job = Job("a", marks_kept_ms=8_000)
    job.start()
    job.runs_for(0)
    log.delete_all()

    job.runs_for(1_999)
    assert log.claims() == []
    job.runs_for(1)
    assert log.claims() == ["a"]
    with pytest.raises(CheckpointError, match="settled under checkpoint a of"):
        Job("b").start()


@pytest.mark.parametrize("kept_ms", [None, -1, 100 * REPEAT_MS_MAX])
def test_a_claim_is_repeated_every_hour(log: SettledLog, kept_ms: int | None) -> None:
    job = Job("a", kept_ms)
    job.start()
    job.runs_for(0)
    job.runs_for(REPEAT_MS_MAX - 1)
    assert log.claims() == ["a", "a"]

    job.runs_for(1)

    assert log.claims() == ["a", "a", "a"]


def test_a_claim_of_another_that_came_later_ends_a_job_and_refuses_its_start(
    log: SettledLog,
) -> None:
    older, younger = Job("a"), Job("b")
    older.start()
    log.delete_all()
    younger.start()

    with pytest.raises(CheckpointError, match="claimed by checkpoint b of") as ended:
        older.runs_for(0)
    with pytest.raises(CheckpointError, match="claimed by checkpoint b of"):
        older.start()
    assert ended.value.fields["claimed_by"] == "b"
    younger.runs_for(0)
    younger.start()


def test_the_claim_of_one_that_lost_ends_nobody(log: SettledLog) -> None:
    """Two began at the same moment: both wrote, and the first record counts."""
    winner = Job("a")
    winner.start()
    log.append([(HEADER, Claim("x", "app", "b").to_header())])

    winner.start()
    winner.runs_for(0)

    assert log.claims() == ["a", "b", "a"]


def test_a_rebuilt_checkpoint_and_one_of_an_earlier_version_claim_from_now_on(
    log: SettledLog,
) -> None:
    log.append([(HEADER, CLAIM.to_header())])
    rebuilt, earlier = Job("a"), Job("b")
    mark_won(rebuilt.folder)
    earlier.folder.replace_own(FILE, json.dumps({"id": CLAIM.claim_id, "won": True}))

    for job in (rebuilt, earlier):
        job.start()
        job.runs_for(0)

    assert rebuilt.held == {"id": rebuilt.held["id"], "won": True, "offset": 1}
    assert rebuilt.held["id"]
    assert earlier.held == {"id": CLAIM.claim_id, "won": True, "offset": 2}


def test_brokers_that_are_silent_are_asked_again_soon(log: SettledLog) -> None:
    job = Job("a")
    job.start()
    log.is_down = True
    job.runs_for(0)
    log.is_down = False

    job.runs_for(RETRY_MS - 1)
    assert log.claims() == ["a"]
    job.runs_for(1)

    assert log.claims() == ["a", "a"]


def test_the_claims_say_of_which_half_topic_the_marks_are(log: SettledLog) -> None:
    job = Job("a")
    assert claimed_half_topic(job.settings, {}) == ""
    log.append([])
    earlier = {"id": "x", "application_id": "app", "checkpoint": "a"}
    log.append([(HEADER, json.dumps(earlier).encode())])
    assert claimed_half_topic(job.settings, {}) == ""

    job.runs_for(0)

    assert claimed_half_topic(job.settings, {}) == "half"
