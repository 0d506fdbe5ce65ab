"""The command line of the conformance kit (docs/writing-a-client.md)."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from checkback.protocol.errors import CheckbackError
from checkback.testing.broker import QUICK_START, Broker
from checkback.testing.conformance import check_cases, kill_cases, limit_cases, record_cases
from checkback.testing.conformance.book import Book
from checkback.testing.conformance.program import DiedError, SendFailedError
from checkback.testing.conformance.report import (
    FailedError,
    NotSupportedError,
    Row,
    RowResult,
    as_json,
    as_text,
)
from checkback.testing.conformance.stage import HALF_PARTITIONS, RELAYED, Stage, pipeline
from checkback.testing.topics import Topics

PYTHON: Final = (sys.executable, "-m", "checkback.testing.conformance.python_client")
Case = Callable[[Stage], None]
WITH_A_PIPELINE: Final[tuple[Case, ...]] = (
    check_cases.unknown_is_asked_again,
    record_cases.half_is_byte_for_byte,
    record_cases.op_is_byte_for_byte,
    record_cases.keyed_halves_keep_their_partition,
    record_cases.finals_are_the_orders,
    record_cases.listener_that_raises_is_unknown,
    record_cases.clean_shutdown_leaves_nothing,
    limit_cases.sizes_at_the_limits,
    check_cases.answer_is_byte_for_byte,
    check_cases.immunity_time_is_kept,
    check_cases.other_processes_answer_for_the_dead,
)
LAST: Final = kill_cases.kills_lose_and_double_nothing
AT_ONCE: Final = 3
"""Cases that run side by side: most cases mainly wait for the pipeline."""
WITHOUT: Final[tuple[Case, ...]] = (
    limit_cases.unusable_names_are_refused,
    limit_cases.delay_is_taken_off,
    limit_cases.unusable_groups_are_refused,
    limit_cases.status_is_followed,
    check_cases.group_has_the_check_topics_name,
    check_cases.requests_age_by_the_brokers_clock,
    check_cases.unreadable_requests_stop_nothing,
    check_cases.a_name_is_kept_over_a_restart,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge a client; return 0 where every row held or is not supported, else 1."""
    options = _parser().parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    folder = Path(options.folder or tempfile.mkdtemp(prefix="checkback-conformance-"))
    rows: list[Row] = []
    with Broker(folder / "broker", jvm_options=QUICK_START) as broker:
        for stage in _stages(broker.bootstrap_servers, folder, command, options):
            rows += _run(stage, options)
    print(as_json(rows) if options.output == "json" else as_text(rows))
    print(f"Logs of the programs: {folder}", file=sys.stderr)
    return int(any(row.verdict is RowResult.FAILED for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m checkback.testing.conformance")
    parser.add_argument("--stages", default="plain,guarded,relayed,alone", help="which deployments")
    parser.add_argument("--only", default="", help="run only cases with this in their names")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--transactions", type=int, default=400)
    parser.add_argument("--companion", default="", help="command line of the other client")
    parser.add_argument("--folder", default="", help="for logs; default: a temporary one")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- the program under test")
    return parser


def _stages(
    bootstrap_servers: str, folder: Path, command: Sequence[str], options: argparse.Namespace
) -> list[Stage]:
    companion = options.companion.split() or PYTHON
    prefixes = {"plain": "", "guarded": "conformance.", RELAYED: "relayed.", "alone": "alone."}
    stages = []
    for name in options.stages.split(","):
        own = folder / name
        own.mkdir(parents=True)
        topics = Topics(bootstrap_servers, prefixes[name], HALF_PARTITIONS)
        stage = Stage(name, topics, command, companion, own, is_guarded=name == "guarded")
        stages.append(replace(stage, kills=options.kills, transactions=options.transactions))
    return stages


def _run(stage: Stage, options: argparse.Namespace) -> list[Row]:
    """Run the cases of a stage, one after the other."""
    is_alone = stage.name == "alone"
    cases = WITHOUT if is_alone else (*WITH_A_PIPELINE, LAST)
    chosen = [case for case in cases if options.only in case.__name__]
    if not chosen:
        return []
    stage.topics.create()
    with (
        nullcontext() if is_alone else pipeline(stage),
        ThreadPoolExecutor(1 if is_alone else AT_ONCE) as threads,
    ):
        before = [threads.submit(_judge, stage, case) for case in chosen if case is not LAST]
        rows = [future.result() for future in before]
        return rows + [_judge(stage, case) for case in chosen if case is LAST]


def _judge(stage: Stage, case: Case) -> Row:
    began_s = time.monotonic()
    verdict, detail = RowResult.HELD, ""
    try:
        case(replace(stage, book=Book()))
    except NotSupportedError as error:
        verdict, detail = RowResult.NOT_SUPPORTED, str(error)
    except (FailedError, SendFailedError, DiedError, CheckbackError) as error:
        verdict, detail = RowResult.FAILED, str(error)
    except Exception:
        verdict, detail = RowResult.FAILED, traceback.format_exc()
    seconds = round(time.monotonic() - began_s, 1)
    says = (case.__doc__ or "").partition("\n")[0]
    row = Row(stage.name, says, verdict, detail, seconds)
    print(f"{row.stage}: {row.verdict} in {seconds:g} s: {row.case} {detail}", file=sys.stderr)
    return row


if __name__ == "__main__":
    sys.exit(main())
