"""A flood of refused records is not written twice, whatever its sender puts the bytes into."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checkback.protocol.configuration import Settings
from checkback.protocol.properties import PGROUP
from checkback.protocol.refusals import RefusedReason
from checkback.sinks.partition import records_to_send as outputs
from checkback.sinks.partition.records_to_send import BatchOutputs
from checkback.sinks.partition.rejections import KnownRejections
from checkback.sinks.records.router import Refusal
from checkback.sinks.report import BatchReport
from checkback.sinks.settings import SinkSettings
from checkback.state.steps.shares import GROUPS_AT_ONCE

SHARE = 10_000
REFUSAL = Refusal(RefusedReason.NOT_A_HALF)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> BatchOutputs:
    monkeypatch.setattr(outputs, "REFUSED_BYTES_OF_GROUP_MAX", SHARE)
    unused: Any = None
    settings = SinkSettings(Settings(), "q", {}, 1_000)
    return BatchOutputs(
        settings, unused, unused, unused, KnownRejections(), unused, BatchReport(0), 0
    )


def record(group: str, *, body: bytes = b"", header: bytes = b"") -> Any:
    headers = [(PGROUP, group.encode()), ("h", header)]
    return SimpleNamespace(key=lambda: None, value=lambda: body, headers=lambda: headers)


def copied(made: BatchOutputs, *records: Any) -> int:
    return sum(not made._is_over_its_share(one, REFUSAL) for one in records)


def test_bytes_in_headers_count_as_those_of_a_body(made: BatchOutputs) -> None:
    large = record("loud", header=bytes(SHARE // 2))

    assert copied(made, *[large] * 10) == 1
    assert copied(made, record("calm", body=b"calm")) == 1


def test_names_of_groups_that_cost_nothing_buy_no_more_than_four_shares(made: BatchOutputs) -> None:
    every = [record(f"g{number}", body=bytes(SHARE // 2)) for number in range(100)]

    assert copied(made, *every) == 2 * GROUPS_AT_ONCE - 1


def test_what_is_not_copied_of_one_group_costs_the_others_nothing(made: BatchOutputs) -> None:
    assert copied(made, *[record("loud", body=bytes(SHARE // 2))] * 100) == 1
    assert copied(made, record("calm", body=bytes(SHARE // 2))) == 1


def test_what_an_operator_may_send_again_is_always_copied(made: BatchOutputs) -> None:
    large = record("loud", body=bytes(2 * SHARE))
    decided = Refusal(RefusedReason.REAL_TOPIC_MISSING)

    assert not any(made._is_over_its_share(large, decided) for _ in range(10))
