"""Measures on this machine: ``python -m bench pipeline``, ``latency``, ``backlog`` or ``client``.

``python -m bench smoke`` shows in a minute that they work.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from bench import backlog, client, latency, pipeline, smoke
from bench.result import BenchFindings, document, machine_facts, result_text
from bench.setting import bench_setting, client_options, options_of, pipeline_options
from checkback.protocol.errors import CheckbackError
from checkback.testing.broker import Broker

BENCHES: Final[Mapping[str, tuple[ModuleType, type[Any]]]] = {
    "pipeline": (pipeline, pipeline.PipelineBench),
    "latency": (latency, latency.LatencyBench),
    "backlog": (backlog, backlog.BacklogBench),
}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a call; those of a smoke run are short, whatever was given."""
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)

    def add(name: str, text: str | None) -> argparse.ArgumentParser:
        formatter = argparse.ArgumentDefaultsHelpFormatter
        return verbs.add_parser(name, description=text, formatter_class=formatter)

    for name, (module, _) in BENCHES.items():
        pipeline_options(add(name, module.__doc__), module.OPTIONS)
    client_options(add("client", client.__doc__), client.OPTIONS)
    add("smoke", smoke.__doc__).add_argument("verbs", nargs="*", default=smoke.VERBS)
    chosen = parser.parse_args(arguments)
    if chosen.verb in BENCHES and chosen.smoke:
        options = BENCHES[chosen.verb][0].OPTIONS
        vars(chosen).update(
            {option.name: option.smoke for option in options if option.smoke is not None}
        )
    return chosen


def run_verb(options: argparse.Namespace) -> dict[str, Any]:
    """Run a verb for the pipeline; return its JSON document.

    Raises:
        UsageError: an option is wrong.
        OperationalError: a run failed.
    """
    machine = machine_facts()  # before the bench starts anything
    with bench_setting(options) as stage:
        findings: BenchFindings = BENCHES[options.verb][1](stage, options, say).run()
    result = document(options.verb, options_of(options), findings, machine)
    if options.save is not None:
        options.save.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return result


def say(text: str) -> None:
    """Print a progress message for a person."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and print its result; return the exit code."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        if options.verb == "smoke":
            return smoke.run(options.verbs)
        if options.verb == "client":
            client.planned_runs(options, "")  # refused before a broker is started
            with _brokers(options.bootstrap_servers) as servers:
                result = client.measure_client(options, servers)
            text = client.client_text(result)
        else:
            result = run_verb(options)
            text = result_text(result)
    except CheckbackError as error:
        say(str(error))
        return error.exit_code
    print(json.dumps(result) if options.output == "json" else text)
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
