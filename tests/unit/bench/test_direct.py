"""The bench of direct delivery: its options and what it says of the runs."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from checkback.bench import direct
from checkback.bench.direct import CHECKED_UNREAD, DIRECT, UNREAD, DirectMeasurement, DirectOptions
from checkback.bench.direct_process import SEND, DirectRun, Sent
from checkback.protocol.errors import UsageError


def limit(kind: str, lanes: int, per_s: float) -> DirectMeasurement:
    return DirectMeasurement(
        kind=kind, lanes=lanes, per_s=0, transactions=1, transactions_per_s=per_s,
        processor_us=1, fell_back=0,
    )  # fmt: skip


def test_throughput_is_compared_within_a_round() -> None:
    runs = [
        limit(UNREAD, 1, 50), limit(UNREAD, 2, 80), limit(CHECKED_UNREAD, 0, 100),
        limit(UNREAD, 1, 10), limit(UNREAD, 2, 6), limit(CHECKED_UNREAD, 0, 10),
    ]  # fmt: skip

    assert direct._ratios(runs, [1, 2]) == {1: 0.75, 2: 0.7}


@pytest.mark.parametrize("name", ["rates", "lanes"])
def test_what_is_no_list_of_numbers_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"--{name} is '1,x'"):
        DirectOptions(**{name: "1,x"}).numbers(name)  # type: ignore[arg-type]


def test_messages_of_the_warm_up_and_those_never_seen_have_no_time(tmp_path: Path) -> None:
    committed, seen = tmp_path / "committed", tmp_path / "seen"
    committed.write_bytes(array("d", [1.0] * 10).tobytes())
    seen.write_bytes(array("d", [9.0] + [1.002] * 8 + [0.0]).tobytes())

    waits = direct._waits_ms(str(committed), str(seen))

    assert [round(one, 3) for one in waits] == [2.0] * 8


def test_shares_are_of_the_waits() -> None:
    run = DirectRun(
        kind=SEND, bootstrap_servers="", topic_prefix="", real_topic="", times="", lanes=1,
        transactions=200,
    )  # fmt: skip
    sent = Sent(took_s=2.0, processor_us=5.0, delivered=199, fell_back=1)

    found = direct._measurement(DIRECT, run, sent, [float(one) for one in range(101)])

    assert (found.transactions_per_s, found.fell_back) == (100.0, 1)
    assert (found.visible_p50_ms, found.visible_p99_ms, found.visible_max_ms) == (50, 99, 100)
