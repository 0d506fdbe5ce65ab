"""``checkback bench``: measure on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from checkback.bench.client import (
    ClientOptions,
    ClientRatio,
    create_real_topic,
    measure_in_turn,
    ratios,
)
from checkback.bench.client_process import ClientMeasurement
from checkback.bench.options import CommonOptions, Verb
from checkback.bench.verbs import all_verbs
from checkback.commands.bench_options import (
    click_options,
    options_command,
    options_from,
    verb_command,
)
from checkback.commands.bench_stage import bench_stage, say, show
from checkback.commands.core import CommandOutput
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.testing.broker import Broker

COLUMNS = ("", "threads", "transactions/s", "processor µs", "p50 ms", "p99 ms", "max ms")
RATIO_COLUMNS = ("measure", "threads", "median", "least", "most")


@click.group(help="Measure on this machine.")
def command() -> None:
    """Group the verbs."""


def _run_verb(verb: Verb, common: CommonOptions, options: Any, output: CommandOutput) -> None:
    own = asdict(options)
    changes = {"batch_events_max": own["batch_events"]} if "batch_events" in own else {}
    with bench_stage(common, **changes) as stage:
        findings = verb.bench(stage, options, say).run()
    show(verb.name, common, options, findings, stage, output)


def _run_client(output: CommandOutput, **given: Any) -> None:
    options: ClientOptions = options_from(ClientOptions, given)
    options.thread_counts()  # refused before a broker is started
    with _brokers(options.bootstrap_servers) as servers:
        settings = Settings(bootstrap_servers=servers, topic_prefix=options.topic_prefix)
        create_topics(settings)
        create_real_topic(servers, options.topic_prefix, settings.half_partitions)
        measured = measure_in_turn(options, servers)
    found = ratios(measured)
    result = {"runs": [asdict(run) for run in measured], "ratios": [asdict(one) for one in found]}
    output.show(result, _table(measured, found))


for _verb in all_verbs():
    command.add_command(verb_command(_verb, _run_verb))
command.add_command(
    options_command("client", ClientOptions, click_options(ClientOptions), _run_client)
)


@contextmanager
def _brokers(bootstrap_servers: str | None) -> Iterator[str]:
    """Yield the addresses of the named brokers, or of an embedded one for the block."""
    if bootstrap_servers is not None:
        yield bootstrap_servers
        return
    with (
        tempfile.TemporaryDirectory(prefix="checkback-bench-") as folder,
        Broker(Path(folder)) as broker,
    ):
        yield broker.bootstrap_servers


def _table(runs: list[ClientMeasurement], found: list[ClientRatio]) -> str:
    rows = [COLUMNS] + [
        (
            run.kind,
            str(run.threads),
            f"{run.transactions_per_s:,.0f}",
            f"{run.processor_us:.0f}",
            f"{run.latency_p50_ms:.2f}",
            f"{run.latency_p99_ms:.1f}",
            f"{run.latency_max_ms:.1f}",
        )
        for run in runs
    ]
    shares = [RATIO_COLUMNS] + [
        (one.measure, str(one.threads), f"{one.median:g}", f"{one.least:g}", f"{one.most:g}")
        for one in found
    ]
    return "\n".join("  ".join(cell.rjust(16) for cell in row) for row in [*rows, (), *shares])
