"""The nouns of the command line, by name."""

from __future__ import annotations

from typing import Final, NamedTuple


class Noun(NamedTuple):
    """One command of the top level.

    Args:
        module: the module whose ``command`` it is.
        summary: its line in the top level's help.
    """

    module: str
    summary: str


NOUNS: Final[dict[str, Noun]] = {
    "acl": Noun(
        "checkback.commands.acl", "Explain access control, check its rules, print Kafka's grants."
    ),
    "broker": Noun("checkback.commands.broker", "Run a local Kafka broker."),
    "checkpoint": Noun("checkback.commands.checkpoint", "Inspect, verify or rebuild a checkpoint."),
    "config": Noun("checkback.commands.config", "Show the settings in effect."),
    "demo": Noun("checkback.commands.demo", "Run all of Checkback on real input, and audit it."),
    "console": Noun("checkback.commands.console", "Show and decide transactions in a browser."),
    "deploy": Noun("checkback.commands.deploy", "Pack what a cluster needs; write alert rules."),
    "discarded": Noun("checkback.commands.discarded", "List, show and resume discarded messages."),
    "docs": Noun("checkback.commands.docs", "Show the documents of this version."),
    "doctor": Noun("checkback.commands.doctor", "Check everything that the pipeline needs."),
    "jars": Noun("checkback.commands.jars", "Fetch the jars of Spark and Kafka."),
    "ledger": Noun(
        "checkback.commands.ledger", "Print a view of the ledger; maintain its Delta table."
    ),
    "pending": Noun("checkback.commands.pending", "List what waits for a verdict."),
    "refused": Noun("checkback.commands.refused", "List refused records, and send finals again."),
    "run": Noun("checkback.commands.run", "Run the transaction checker."),
    "topics": Noun("checkback.commands.topics", "Create and compare the topics."),
    "tx": Noun("checkback.commands.tx", "Look at one transaction, and decide it by hand."),
}
