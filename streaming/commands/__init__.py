"""The command line: ``checkback <noun> <verb>``.

A noun is a module here with a ``command``; it is imported when it is asked for and not before, so
that ``checkback --help`` need not wait for Spark.

Exit codes: 0 done · 1 done, and something was found (an audit that fails, a topic that differs) ·
2 used wrongly · 3 the environment is not as needed · 4 refused, because going on could break the
guarantee · 70 a defect of Checkback · 130 interrupted · 141 the reader of the output has gone.
"""

from __future__ import annotations

import sys
from typing import Final

from checkback.streaming.commands.frame import LazyGroup, Noun, execute

NOUNS: Final[dict[str, Noun]] = {
    "bench": Noun("checkback.streaming.commands.bench", "Measure on this machine."),
    "broker": Noun("checkback.streaming.commands.broker", "Run a local Kafka broker."),
    "checkpoint": Noun(
        "checkback.streaming.commands.checkpoint", "Look into a checkpoint, and mend it."
    ),
    "config": Noun("checkback.streaming.commands.config", "Show the settings in effect."),
    "demo": Noun("checkback.streaming.commands.demo", "Show all of it at work, and audit it."),
    "discarded": Noun(
        "checkback.streaming.commands.discarded", "Look at what was given up, and resume it."
    ),
    "doctor": Noun(
        "checkback.streaming.commands.doctor", "Look whether all is as the pipeline needs it."
    ),
    "jars": Noun("checkback.streaming.commands.jars", "Fetch the jars of Spark and Kafka."),
    "ledger": Noun(
        "checkback.streaming.commands.ledger", "Read and maintain the ledger of transaction events."
    ),
    "pending": Noun("checkback.streaming.commands.pending", "List what waits for a verdict."),
    "run": Noun("checkback.streaming.commands.run", "Run the transaction checker."),
    "topics": Noun("checkback.streaming.commands.topics", "Create and compare the topics."),
    "tx": Noun(
        "checkback.streaming.commands.tx", "Look at one transaction, and decide it by hand."
    ),
}


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(execute(LazyGroup(NOUNS), sys.argv[1:]))
