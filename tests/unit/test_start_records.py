"""The record that a start begins with."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.streaming.start import announce


class Producer:
    """Reports every record as refused."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.reports: list[Callable[[], None]] = []

    def produce(self, *_: object, on_delivery: Callable[..., None], **__: Any) -> None:
        error = SimpleNamespace(str=lambda: "no such rights")
        self.reports.append(lambda: on_delivery(error, None))

    def flush(self, _: float) -> int:
        for report in self.reports:
            report()
        return 0


def test_a_start_that_may_not_write_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announce, "Producer", Producer)

    with pytest.raises(BrokerError, match=r"no such rights.*that this user may write"):
        announce.write_tick(Settings(bootstrap_servers="b:1"))
