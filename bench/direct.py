"""How soon a committed message is visible by direct delivery, and how many a second there can be.

Sender and reader are processes of their own. In each round the client runs with direct delivery at
every rate and number of lanes. Then it runs as fast as it can with nobody who reads, and so does
the checked way: a ratio is one of neighbours that do alike. Then a pipeline delivers what goes the
checked way, at the same rates. At the end a process is killed with a transaction open, and it is
measured how long that holds up whoever reads committed messages.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from confluent_kafka import Producer

from checkback.bench import direct_process, options
from checkback.bench.checked_way import running_pipeline
from checkback.bench.client_process import REAL_TOPIC
from checkback.bench.direct_process import DIE, NUMBER_BYTES, READ, SEND, DirectRun, Sent
from checkback.protocol.errors import PrerequisiteError, UsageError

WARM_UP_SHARE: Final = 0.1
DIRECT: Final = "direct"
UNREAD: Final = "direct, unread"
CHECKED: Final = "checked way"
CHECKED_UNREAD: Final = "checked way, unread"
CHECKED_WARM_UP_SHARE: Final = 0.5
"""Of the warm-up: the broker's JVM is warm by then, only the pipeline's is not."""
_FIRST_NUMBERS: Final = itertools.count(0, 1 << 40)
"""One for each run of this process, so that no run's messages pass for another one's."""


@dataclass(frozen=True)
class DirectOptions:
    """Measure when a reader gets what is delivered directly.

    Raises:
        UsageError: ``rates`` or ``lanes`` has no numbers.
    """

    bootstrap_servers: str | None = options.bootstrap_servers()
    topic_prefix: str = options.topic_prefix()
    rates: str = options.option(
        "100,1000,5000", "Rates, in transactions per second; one run for each."
    )
    lanes: str = options.option("1,2,4", "Numbers of lanes; each rate runs with each.")
    seconds: float = options.option(10.0, "How long a run at a rate lasts.", least=1)
    warm_up_seconds: float = options.option(
        120.0, "Before anything is measured, while the broker's JVM still compiles.", least=0
    )
    threads: int = options.option(64, "Threads that send at once.", least=1)
    transactions: int = options.option(40_000, "Transactions of a run without a rate.", least=100)
    body_bytes: int = options.body_bytes(200)
    rounds: int = options.option(3, "How often all kinds of run follow each other.", least=1)
    kills: int = options.option(2, "Processes to kill in a transaction.", least=0)

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of an option that lists some.

        Raises:
            UsageError: it does not.
        """
        text: str = getattr(self, name)
        parts = text.split(",")
        if not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise UsageError(f"--{name} is {text!r}.", remedy=f"Give whole numbers: --{name} 1,2.")
        return [int(part) for part in parts]


@dataclass(frozen=True, kw_only=True)
class DirectMeasurement:
    """What came of one run.

    Args:
        kind: direct, or the checked way; "unread" with nobody who reads, and on the checked way
            also nobody who delivers.
        lanes: 0 for the checked way.
        per_s: the rate that was wanted, 0 for as much as possible.
        transactions: how many were sent.
        transactions_per_s: how many a second were, until the last was delivered; on the checked
            way until the last op was handed over.
        processor_us: processor time of the sending process for each.
        fell_back: messages that went the checked way although they were bound to a session.
        visible_p50_ms: half of the messages were seen within this time after their commit; None
            without a reader.
        visible_p99_ms: 99 of 100 were.
        visible_max_ms: all were.
    """

    kind: str
    lanes: int
    per_s: int
    transactions: int
    transactions_per_s: float
    processor_us: float
    fell_back: int
    visible_p50_ms: float | None = None
    visible_p99_ms: float | None = None
    visible_max_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class DirectFindings:
    """All that was measured.

    Args:
        runs: one by one.
        direct_to_plain: for each number of lanes, the median of the ratios of throughput at the
            limit to that of the checked way in the same round. Nobody reads in either.
        stalls_s: how long readers waited after each kill.
    """

    runs: list[DirectMeasurement]
    direct_to_plain: dict[int, float]
    stalls_s: list[float]


def measure_direct(chosen: DirectOptions, servers: str) -> DirectFindings:
    """Measure all rates and lanes in turn, then the stalls.

    Args:
        chosen: what is measured, and how often.
        servers: the brokers in use, with the topics on them.

    Raises:
        UsageError: an option holds no numbers.
        PrerequisiteError: a run failed; a broken run is not measured.
    """
    lanes, rates = chosen.numbers("lanes"), chosen.numbers("rates")
    measured = []
    _warm_up(chosen, servers, [*lanes, 0], rates, chosen.warm_up_seconds)
    for _ in range(chosen.rounds):
        for number in lanes:
            measured += [_run(chosen, servers, number, per_s) for per_s in (*rates, 0)]
        for number in (*lanes, 0):
            measured.append(_run(chosen, servers, number, 0, is_read=False))
    measured += _checked(chosen, servers, rates)
    stalls = [_stall_s(chosen, servers) for _ in range(chosen.kills)]
    return DirectFindings(runs=measured, direct_to_plain=_ratios(measured, lanes), stalls_s=stalls)


def _checked(chosen: DirectOptions, servers: str, rates: Sequence[int]) -> list[DirectMeasurement]:
    """Measure the checked way at each rate and as fast as possible, with a pipeline's finals."""
    own = replace(chosen, topic_prefix=f"{chosen.topic_prefix}checked-")
    with running_pipeline(servers, own.topic_prefix):
        _warm_up(own, servers, [0], rates, chosen.warm_up_seconds * CHECKED_WARM_UP_SHARE)
        return [_run(own, servers, 0, per_s) for _ in range(chosen.rounds) for per_s in (*rates, 0)]


def _warm_up(
    chosen: DirectOptions,
    servers: str,
    lanes: Sequence[int],
    rates: Sequence[int],
    seconds: float,
) -> None:
    """Run what is measured later: on a cold broker, 1,000 a second took three times as long."""
    until_s = time.monotonic() + seconds
    while True:
        for number in lanes:
            _run(chosen, servers, number, 0)
        for number, per_s in itertools.product(lanes, rates):
            if time.monotonic() >= until_s:
                return
            _run(chosen, servers, number, per_s)


def _ratios(measured: Sequence[DirectMeasurement], lanes: Sequence[int]) -> dict[int, float]:
    plain = [one.transactions_per_s for one in measured if one.kind == CHECKED_UNREAD]
    found = {}
    for number in lanes:
        ours = [
            one.transactions_per_s for one in measured if (one.kind, one.lanes) == (UNREAD, number)
        ]
        shares = [one / other for one, other in zip(ours, plain, strict=True)]
        found[number] = round(statistics.median(shares), 2)
    return found


def _run(
    chosen: DirectOptions, servers: str, lanes: int, per_s: int, *, is_read: bool = True
) -> DirectMeasurement:
    transactions = int(per_s * chosen.seconds) if per_s else chosen.transactions
    with tempfile.TemporaryDirectory(prefix="checkback-bench-direct-") as folder:
        sending = DirectRun(
            kind=SEND,
            bootstrap_servers=servers,
            topic_prefix=chosen.topic_prefix,
            real_topic=chosen.topic_prefix + REAL_TOPIC,
            times=str(Path(folder) / "committed"),
            first=next(_FIRST_NUMBERS),
            lanes=lanes,
            threads=chosen.threads,
            transactions=transactions,
            per_s=per_s,
            body_bytes=chosen.body_bytes,
        )
        if not is_read:
            kind = UNREAD if lanes else CHECKED_UNREAD
            return _measurement(kind, sending, Sent(**_told(sending)), [])
        reading = replace(sending, kind=READ, times=str(Path(folder) / "seen"))
        with _started(reading) as reader:
            _expect(reader, "reading")
            sent = Sent(**_told(sending))
            if reader.wait() != 0:
                raise PrerequisiteError(
                    "A reader of the bench failed.", remedy="See whether Kafka answers."
                )
        kind = DIRECT if lanes else CHECKED
        return _measurement(kind, sending, sent, _waits_ms(sending.times, reading.times))


def _waits_ms(committed: str, seen: str) -> list[float]:
    """Return how long each message took from its commit to the reader, the warm-up left out."""
    starts, ends = _times(committed), _times(seen)
    first = int(len(starts) * WARM_UP_SHARE)
    pairs = zip(starts[first:], ends[first:], strict=True)
    return [(end - start) * 1000 for start, end in pairs if end]


def _times(path: str) -> array[float]:
    times = array("d")
    times.frombytes(Path(path).read_bytes())
    return times


def _measurement(
    kind: str, run: DirectRun, sent: Sent, waits_ms: Sequence[float]
) -> DirectMeasurement:
    found = DirectMeasurement(
        kind=kind,
        lanes=run.lanes,
        per_s=int(run.per_s),
        transactions=run.transactions,
        transactions_per_s=round(run.transactions / sent.took_s, 1),
        processor_us=sent.processor_us,
        fell_back=run.transactions - sent.delivered if run.lanes else 0,
    )
    if len(waits_ms) < 2:
        return found
    shares = statistics.quantiles(waits_ms, n=100, method="inclusive")
    return replace(
        found,
        visible_p50_ms=round(shares[49], 2),
        visible_p99_ms=round(shares[98], 1),
        visible_max_ms=round(max(waits_ms), 1),
    )


def _stall_s(chosen: DirectOptions, servers: str) -> float:
    """Return how long a reader waits for a message behind a killed process's transaction."""
    with tempfile.TemporaryDirectory(prefix="checkback-bench-direct-") as folder:
        reading = DirectRun(
            kind=READ,
            bootstrap_servers=servers,
            topic_prefix=chosen.topic_prefix,
            real_topic=chosen.topic_prefix + REAL_TOPIC,
            times=str(Path(folder) / uuid.uuid4().hex),
            transactions=1,
        )
        with _started(reading) as reader:
            _expect(reader, "reading")
            with _started(replace(reading, kind=DIE)) as dying:
                dying.wait()
            died_s = time.perf_counter()
            producer = Producer({"bootstrap.servers": servers})
            producer.produce(reading.real_topic, bytes(NUMBER_BYTES), partition=0)
            producer.flush(direct_process.SETTLE_S)
            reader.wait()
        return round(_times(reading.times)[0] - died_s, 2)


@contextmanager
def _started(run: DirectRun) -> Iterator[subprocess.Popen[str]]:
    """Start a process for the block, and see that it is over afterwards."""
    command = [sys.executable, "-P", direct_process.__file__, json.dumps(asdict(run))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _expect(process: subprocess.Popen[str], line: str) -> None:
    output: IO[str] | None = process.stdout
    if output is None or output.readline().strip() != line:
        raise PrerequisiteError(
            "A reader of the bench failed to start.", remedy="See whether Kafka answers."
        )


def _told(run: DirectRun) -> dict[str, Any]:
    command = [sys.executable, "-P", direct_process.__file__, json.dumps(asdict(run))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PrerequisiteError(
            f"A run of the bench failed: {done.stderr[-2_000:]}",
            remedy="See what it says, and run it again.",
        )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
