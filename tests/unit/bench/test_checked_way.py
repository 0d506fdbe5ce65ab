"""The pipeline beside direct delivery: it has started before the block, and ends after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pytest

from checkback.bench import checked_way
from checkback.protocol.configuration import Settings


def test_the_block_runs_between_the_start_and_the_end_of_a_pipeline_with_topics_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []

    class Recording:
        def __init__(self, settings: Settings, folder: Path) -> None:
            assert Path(settings.checkpoint).parent == folder
            done.append(settings.topic_prefix)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            done.append("gone")

        def wait_for(self, event: str) -> None:
            done.append(event)

        def terminate(self) -> None:
            done.append("terminated")

    monkeypatch.setattr(checked_way, "PipelineProcess", Recording)
    monkeypatch.setattr(checked_way, "create_topics", lambda _: done.append("topics"))
    monkeypatch.setattr(checked_way, "create_real_topic", lambda *_: done.append("real topic"))

    with checked_way.running_pipeline("broker:9092", "bench-"):
        done.append("block")

    assert done == ["topics", "real topic", "bench-", "started", "block", "terminated", "gone"]
