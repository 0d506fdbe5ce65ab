"""What the commands of docs/operating/alerts.md say on the stage of test_operations.py."""

from __future__ import annotations

from pathlib import Path

RUNBOOKS = Path(__file__).parents[2] / "docs" / "operating" / "alerts.md"
TOLD_BY_RUNBOOKS = {
    "checkback pending --older-than 5m": (0, ""),
    "checkback tx show ID": (0, "verdict pending"),
    "checkback tx resolve ID --commit --why TEXT --yes": (0, "Committed; the final message is"),
    "checkback doctor": (0, "brokers: "),
    "checkback tx resolve": (2, "Missing argument 'ID'"),  # named without what it needs
    "checkback refused list": (0, "REAL_TOPIC_MISSING"),
    "checkback refused show ID": (0, "REAL_TOPIC_MISSING"),
    "checkback topics create --real-topic NAME": (0, "late"),
    "checkback topics create": (0, ""),
    "checkback refused resend --all --why TEXT --yes": (1, "can't be resent: REAL_TOPIC_MISSING"),
    "checkback refused list --newer-than 1h": (0, "late"),
    "checkback checkpoint repartition N --yes": (4, "Stop it with SIGTERM"),
    "checkback discarded list": (0, ""),
    "checkback discarded resume --group GROUP --why TEXT --yes": (0, ""),
    "checkback acl lint FILE": (0, ""),
    "checkback relay": (2, "Set relay = true"),
    "checkback acl grants --pipeline --principal User:NAME --topic TOPIC": (
        0,
        "Write --transactional-id checkback-direct-",
    ),
}
"""By command of the page, the exit code on this stage, and some of what it says there."""
