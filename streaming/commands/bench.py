"""``checkback bench``: measure on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from checkback.bench.client import ClientMeasurement, measure_client
from checkback.deploy.broker import EmbeddedBroker
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import UsageError
from checkback.streaming.commands.bench_verbs import VERBS
from checkback.streaming.commands.frame import Output, output_option

COLUMNS = ("threads", "transactions/s", "p50 ms", "p99 ms", "max ms", "own share")


@click.group(help="Measure on this machine.")
def command() -> None:
    """Group the verbs."""


for _verb in VERBS:
    command.add_command(_verb)


@command.command()
@click.option("--bootstrap-servers", help="Use this Kafka instead of starting one.")
@click.option("--topic-prefix", default="bench-", show_default=True, help="Of the topics used.")
@click.option("--threads", default="1,8,64", show_default=True, help="One run for each number.")
@click.option(
    "--transactions", type=click.IntRange(100), default=6_400, show_default=True,
    help="Transactions per run, all threads together.",
)  # fmt: skip
@click.option(
    "--body-bytes", type=click.IntRange(1), default=200, show_default=True, help="Message size."
)
@output_option
def client(
    bootstrap_servers: str | None,
    topic_prefix: str,
    threads: str,
    transactions: int,
    body_bytes: int,
    output: Output,
) -> None:
    """Send transactions that commit at once; say how many, how fast, and whose time it took."""
    numbers = _numbers(threads)
    with _brokers(bootstrap_servers) as servers:
        create_topics(Settings(bootstrap_servers=servers, topic_prefix=topic_prefix))
        runs = [
            measure_client(
                servers,
                threads=number,
                transactions=-(-transactions // number),
                body_bytes=body_bytes,
                topic_prefix=topic_prefix,
            )
            for number in numbers
        ]
    output.show({"runs": [asdict(run) for run in runs]}, _table(runs))


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--threads is {text!r}.", remedy="Give whole numbers: --threads 1,8,64.")
    return [int(part) for part in parts]


@contextmanager
def _brokers(bootstrap_servers: str | None) -> Iterator[str]:
    """Give the brokers to use: those named, or one of our own for as long as it is needed."""
    if bootstrap_servers is not None:
        yield bootstrap_servers
        return
    with (
        tempfile.TemporaryDirectory(prefix="checkback-bench-") as folder,
        EmbeddedBroker(Path(folder)) as broker,
    ):
        yield broker.bootstrap_servers


def _table(runs: list[ClientMeasurement]) -> str:
    rows = [COLUMNS] + [
        (
            str(run.threads),
            f"{run.transactions_per_s:,.0f}",
            f"{run.latency_p50_ms:.1f}",
            f"{run.latency_p99_ms:.1f}",
            f"{run.latency_max_ms:.1f}",
            f"{run.own_share:.0%}",
        )
        for run in runs
    ]
    return "\n".join("  ".join(cell.rjust(14) for cell in row) for row in rows)
