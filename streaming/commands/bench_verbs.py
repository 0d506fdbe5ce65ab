"""The verbs of ``checkback bench`` that measure the pipeline; ``--smoke`` makes each short."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import click

from checkback.bench.bodies import BodiesBench
from checkback.bench.latency import LatencyBench
from checkback.bench.pending import PendingBench
from checkback.bench.pipeline import COMPARISONS, USUAL_COMPARISONS, PipelineBench
from checkback.bench.scale import ScaleBench
from checkback.bench.storm import StormBench
from checkback.protocol.errors import UsageError
from checkback.streaming.commands.bench_stage import (
    Common,
    batch_events_option,
    bench_stage,
    common_options,
    count_option,
    rate_option,
    runs_option,
    say,
    seconds_option,
    show,
    transactions_option,
    warm_up_option,
    was_given,
)
from checkback.streaming.commands.frame import Output, output_option


@click.command()
@common_options
@transactions_option(1_000_000)
@count_option(
    "--warm-up-transactions",
    2_000_000,
    "In each run before those that are measured: so long the JVM goes on compiling.",
    least=1,
)
@count_option("--page-size-1-transactions", 20_000, "In a run with one offset per state row.")
@runs_option
@batch_events_option(1_000_000)
@click.option(
    "--compare",
    default=",".join(USUAL_COMPARISONS),
    show_default=True,
    help="With what, kafka-streams too (needs a JDK); none: the job alone.",
)
@output_option
def pipeline(
    transactions: int,
    warm_up_transactions: int,
    page_size_1_transactions: int,
    runs: int,
    batch_events: int,
    compare: str,
    output: Output,
    **rest: Any,
) -> None:
    """Let the job resolve transactions that wait in Kafka; say how fast.

    It is compared with the same records moved by Spark's own Kafka sink, with itself with the
    Delta ledger on, with itself with one offset per state row, and on request with Kafka Streams.
    """
    common = Common(**rest)
    if common.smoke:
        transactions, warm_up_transactions, page_size_1_transactions = 3_000, 1_000, 800
        runs, batch_events = 1, 2_000
    options = {
        "transactions": transactions,
        "warm_up_transactions": warm_up_transactions,
        "page_size_1_transactions": page_size_1_transactions,
        "runs": runs,
        "batch_events": batch_events,
        "compare": compare,
    }
    chosen = _comparisons(compare)
    with bench_stage(common, batch_events_max=batch_events) as stage:
        bench = PipelineBench(
            stage,
            transactions,
            warm_up_transactions,
            page_size_1_transactions,
            runs,
            chosen,
            say,
        )
        findings = bench.run()
    show("pipeline", common, options, findings, stage, output)


@click.command()
@common_options
@rate_option
@seconds_option("--seconds", 60, "Of a repetition.")
@seconds_option("--idle-seconds", 15, "Of a repetition without transactions.")
@seconds_option("--warm-up-seconds", 240, "Before the first repetition.")
@runs_option
@output_option
def latency(
    rate: float,
    seconds: float,
    idle_seconds: float,
    warm_up_seconds: float,
    runs: int,
    output: Output,
    **rest: Any,
) -> None:
    """Send at a steady rate; say how long after its commit a message is visible.

    It is told in batches: figures differ from machine to machine, their ratio to its batches
    hardly. Then nothing is sent, and empty batches are compared with those of a stateless query.
    """
    common = Common(**rest)
    if common.smoke:
        rate, seconds, idle_seconds, warm_up_seconds, runs = 50, 4, 4, 3, 1
    options = {
        "rate": rate,
        "seconds": seconds,
        "idle_seconds": idle_seconds,
        "warm_up_seconds": warm_up_seconds,
        "runs": runs,
    }
    with bench_stage(common) as stage:
        bench = LatencyBench(stage, rate, seconds, idle_seconds, warm_up_seconds, runs, say)
        findings = bench.run()
    show("latency", common, options, findings, stage, output)


@click.command()
@common_options
@count_option("--pending", 1_000_000, "Halves without an op.", parameter="waiting")
@transactions_option(600_000)
@runs_option
@batch_events_option(250_000)
@warm_up_option
@seconds_option("--idle-seconds", 20, "Of a repetition without transactions.")
@output_option
def pending(
    waiting: int,
    transactions: int,
    runs: int,
    batch_events: int,
    warm_up: float,
    idle_seconds: float,
    output: Output,
    **rest: Any,
) -> None:
    """Resolve transactions, idle and restart, with nothing pending and with a lot."""
    common = Common(**rest)
    if common.smoke:
        waiting, transactions, runs, batch_events, idle_seconds = 4_000, 4_000, 1, 2_000, 4
    options = {
        "pending": waiting,
        "transactions": transactions,
        "runs": runs,
        "batch_events": batch_events,
        "warm_up": warm_up,
        "idle_seconds": idle_seconds,
    }
    with bench_stage(common, batch_events_max=batch_events) as stage:
        bench = PendingBench(stage, waiting, transactions, runs, warm_up, idle_seconds, say)
        findings = bench.run()
    show("pending", common, options, findings, stage, output)


@click.command()
@common_options
@count_option("--pending", 1_000_000, "Halves that are due at once.", parameter="waiting")
@rate_option
@seconds_option("--quiet-seconds", 60, "Watched before the storm.")
@seconds_option("--storm-seconds", 120, "Watched in it, at most.")
@seconds_option("--due-after-seconds", None, "From the first half to the storm; else a guess.")
@count_option("--runs", 1, "Repetitions.", least=1)
@output_option
def storm(
    waiting: int,
    rate: float,
    quiet_seconds: float,
    storm_seconds: float,
    due_after_seconds: float | None,
    runs: int,
    output: Output,
    **rest: Any,
) -> None:
    """Let a great many halves be due for a check at once; say what new transactions notice."""
    common = Common(**rest)
    if common.smoke:
        waiting, rate, runs = 2_000, 20, 1
        quiet_seconds, storm_seconds, due_after_seconds = 3, 4, 15
    options = {
        "pending": waiting,
        "rate": rate,
        "quiet_seconds": quiet_seconds,
        "storm_seconds": storm_seconds,
        "due_after_seconds": due_after_seconds,
        "runs": runs,
    }
    with bench_stage(common) as stage:
        bench = StormBench(
            stage, waiting, rate, quiet_seconds, storm_seconds, due_after_seconds, runs, say
        )
        findings = bench.run()
    show("storm", common, options, findings, stage, output)


@click.command()
@common_options
@transactions_option(10_000)
@seconds_option("--wait-seconds", 60, "From the last half to the first op.", least=0)
@output_option
def bodies(transactions: int, wait_seconds: float, output: Output, **rest: Any) -> None:
    """Store large halves, commit half of them later; say how much memory that takes.

    --body-bytes is 1 MiB here unless it is given.
    """
    common = Common(**rest)
    if not was_given("body_bytes"):
        common = replace(common, body_bytes=1_048_576)
    if common.smoke:
        transactions, wait_seconds = 40, 1
    options = {"transactions": transactions, "wait_seconds": wait_seconds}
    with bench_stage(common) as stage:
        findings = BodiesBench(stage, transactions, wait_seconds, say).run()
    show("bodies", common, options, findings, stage, output)


@click.command()
@common_options
@transactions_option(300_000)
@runs_option
@batch_events_option(250_000)
@click.option(
    "--cores-each",
    type=click.FloatRange(0.1),
    help="Hold each executor to so much processor time (Linux, root) instead of to a core.",
)
@warm_up_option
@output_option
def scale(
    transactions: int,
    runs: int,
    batch_events: int,
    cores_each: float | None,
    warm_up: float,
    output: Output,
    **rest: Any,
) -> None:
    """Run on a standalone cluster with one executor of one core, and with two.

    Broker, driver and executors share this machine: two executors can only be faster where cores
    are left for them. On two cores that is so with --cores-each 0.25.
    """
    common = Common(**rest)
    if common.smoke:
        transactions, runs, batch_events = 4_000, 1, 2_000
    options = {
        "transactions": transactions,
        "runs": runs,
        "batch_events": batch_events,
        "cores_each": cores_each,
        "warm_up": warm_up,
    }
    with bench_stage(common, batch_events_max=batch_events) as stage:
        bench = ScaleBench(stage, transactions, runs, warm_up, cores_each, say)
        findings = bench.run()
    show("scale", common, options, findings, stage, output)


VERBS: Final = (pipeline, latency, pending, storm, bodies, scale)


def _comparisons(text: str) -> list[str]:
    chosen = [] if text == "none" else text.split(",")
    if unknown := set(chosen) - set(COMPARISONS):
        raise UsageError(
            f"--compare has {', '.join(sorted(unknown))}.",
            remedy=f"There are {', '.join(COMPARISONS)}, and none.",
        )
    return chosen
