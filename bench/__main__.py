"""Measures here: ``python -m bench pipeline``, ``latency``, ``backlog``, ``client`` or ``relay``.

With ``--smoke`` a verb shows in a minute that it works; such a run says nothing about times.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench import backlog, client, latency, pipeline, relay
from bench.result import document, machine_facts, problems_of, result_text
from bench.setting import Bench, add_options, bench_setting, say
from checkback.protocol.errors import CheckbackError, OperationalError

BENCHES: Final[Mapping[str, type[Bench]]] = {
    "pipeline": pipeline.PipelineBench,
    "latency": latency.LatencyBench,
    "backlog": backlog.BacklogBench,
    "relay": relay.RelayBench,
}
VERBS: Final = {
    "pipeline": pipeline, "latency": latency, "backlog": backlog, "client": client, "relay": relay
}  # fmt: skip


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a call; those of a smoke run are short, whatever was given."""
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    formatter = argparse.ArgumentDefaultsHelpFormatter
    for name, module in VERBS.items():
        verb = verbs.add_parser(name, description=module.__doc__, formatter_class=formatter)
        add_options(verb, module.OPTIONS)
    chosen = parser.parse_args(arguments)
    if chosen.smoke:
        options = VERBS[chosen.verb].OPTIONS
        short = {option.name: option.smoke for option in options if option.smoke is not None}
        vars(chosen).update(short)
    return chosen


def run_verb(options: argparse.Namespace) -> dict[str, Any]:
    """Run a verb; return its JSON document.

    Raises:
        UsageError: an option is wrong.
        OperationalError: a run failed, or the result of a smoke run is not complete.
    """
    machine = machine_facts()  # before the bench starts anything
    with bench_setting(options) as stage:
        if options.verb == "client":
            result = client.measure_client(options, stage.settings)
        else:
            bench = BENCHES[options.verb](stage, options)
            result = document(options, bench.measure(), bench.runs, machine)
            if options.smoke and (problems := problems_of(result)):
                raise OperationalError(f"The result is not complete: {'; '.join(problems)}.")
    if options.save is not None:
        options.save.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and print its result; return the exit code."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        result = run_verb(options)
    except CheckbackError as error:
        say(str(error))
        return error.exit_code
    is_text = options.output == "text" and options.verb != "client"
    print(result_text(result) if is_text else json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
