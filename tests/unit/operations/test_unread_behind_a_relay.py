"""What is unread on the decided topic counts, in doctor and console."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from checkback.console.facts import KafkaFacts
from checkback.operations.doctor.doctor import Doctor
from checkback.protocol.configuration import Settings

SETTINGS = Settings(bootstrap_servers="localhost:1")
HALF, OP, DECIDED = (SETTINGS.topics.half, SETTINGS.topics.op, SETTINGS.topics.decided)
READ = {HALF: {0: 9}, OP: {0: 9}, DECIDED: {0: 4}}


@pytest.fixture(autouse=True)
def _topics_that_end_at_9(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(_: Settings, topics: Sequence[str]) -> dict[tuple[str, int], int]:
        return {(topic, 0): 9 for topic in topics if topic in READ}

    for module in ("operations.doctor.doctor", "console.facts"):
        monkeypatch.setattr(f"checkback.{module}.topic_ends", ends)
    monkeypatch.setattr("checkback.operations.doctor.doctor.oldest_unread_ms", lambda *_: 7_000)
    monkeypatch.setattr("checkback.console.facts.published_offsets", lambda *_: READ)


def test_doctor_counts_what_a_relay_decided_and_the_job_has_not_read() -> None:
    plan = SimpleNamespace(ends=READ, timestamp_ms=9_000)
    store: Any = SimpleNamespace(last_batch=lambda _: 1, planned=lambda _: plan)
    (finding,) = Doctor(SETTINGS, lambda: 10_000)._unread(store)

    assert finding.says.startswith(f"5 on {DECIDED}, the oldest for 3s;")


def test_the_console_s_lag_has_the_decided_topic() -> None:
    pending: Any = None
    found = KafkaFacts(SETTINGS, pending, lambda: 0).lag()

    assert {one.topic: one.lag for one in found} == {HALF: 0, OP: 0, DECIDED: 5}
