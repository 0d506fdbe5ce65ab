"""Two tenants of one deployment: their rules, what they write, and what one of them forges."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.running import COMMIT, Pipeline, Topics, wait_until

from checkback.protocol.properties import Headers, text_value
from checkback.protocol.records import Op, half_headers
from checkback.security.record_signer import RecordSigner

ALICE, MALLORY, ADMIN = "alice-service", "mallory-service", "administrators"
SECRETS = {name: f"the-secret-of-{name}" for name in (ALICE, MALLORY, ADMIN)}
PATIENCE_S = 90.0
NEVER_ASKED = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "3600"}


def rules(prefix: str, alices_topic: str = "PUB") -> str:
    """Return rules that give each tenant one topic and one group."""
    return f"""
accounts:
- {{accessKey: {ALICE}, secretKey: {SECRETS[ALICE]},
   topicPerms: [{prefix}alice={alices_topic}], groupPerms: [{prefix}a=PUB|SUB]}}
- {{accessKey: {MALLORY}, secretKey: {SECRETS[MALLORY]},
   topicPerms: [{prefix}mallory=PUB], groupPerms: [{prefix}m=PUB|SUB]}}
- {{accessKey: {ADMIN}, secretKey: {SECRETS[ADMIN]}, admin: true}}
"""


def now_ms() -> float:
    """Return the time; the broker is on this machine."""
    return time.time() * 1_000


@dataclass
class Stage:
    """A running pipeline with access control, and what tenants write to its topics.

    Args:
        topics: the topics as who reads all of them sees them.
        pipeline: the pipeline.
        prefix: the topics' prefix.
        rules: the file of rules.
        writer: the topics as who writes to them sees them; default: `topics`.
    """

    topics: Topics
    pipeline: Pipeline
    prefix: str
    rules: Path
    writer: Topics | None = None

    def write(self, *record: Any) -> tuple[int, int]:
        """Write a record; return its place."""
        return (self.writer or self.topics).send_raw(*record)

    def signer(self, access_key: str) -> RecordSigner:
        return RecordSigner(access_key, SECRETS[access_key], now_ms)

    def half(
        self, name: str, by: RecordSigner | None, *, topic: str = "alice", group: str = "a"
    ) -> tuple[int, int]:
        """Write a half by hand; return its place."""
        headers = half_headers(
            producer_group=self.prefix + group,
            transaction_id=name,
            real_topic=self.prefix + topic,
            properties=NEVER_ASKED,
        )
        if by is not None:
            headers = by.half(self.topics.names.half, None, name.encode(), headers)
        return self.write(self.topics.names.half, name.encode(), headers)

    def op(
        self, at: tuple[int, int], name: str, by: RecordSigner | None, **changes: Any
    ) -> Headers:
        """Write an op by hand; return its headers."""
        said = {"producer_group": f"{self.prefix}a", "transaction_id": name, "state": COMMIT}
        op = Op(*at, **{**said, **changes})
        headers = op.headers()
        if by is not None:
            headers = by.op(self.topics.names.op, at[0], op.key(), op.value(), headers)
        self.write(self.topics.names.op, op.value(), headers, at[0], op.key())
        return headers

    def refused(self) -> list[tuple[str, str]]:
        """The refused records: transaction id and reason."""
        return [
            (header(one, "UNIQ_KEY"), header(one, "__checkback.errors.reason"))
            for one in self.topics.read(self.topics.names.refused)
        ]

    def refusal_of(self, name: str) -> list[str]:
        return [reason for one, reason in self.refused() if one == name]

    def bodies(self, topic: str = "alice") -> list[str]:
        return self.topics.bodies(self.prefix + topic)

    def wait_until_refused(self, name: str, reason: str, times: int = 1) -> None:
        wait_until(
            lambda: self.refusal_of(name).count(reason) == times,
            PATIENCE_S,
            what=f"{reason} of {name}",
        )


def header(record: Any, name: str) -> str:
    """Return a record's header as text, "" without it."""
    return text_value(record.headers() or [], name) or ""


def forge(stage: Stage, at: tuple[int, int]) -> None:
    """Write what nobody may believe; return when all of it is refused, each for its reason.

    Args:
        stage: writes with the attacker's login.
        at: where Alice's half `pending` is.
    """
    alice, mallory = stage.signer(ALICE), stage.signer(MALLORY)
    forged = {
        stage.half("unsigned", None): "unsigned",
        stage.half("topic of others", mallory, group="m"): "topic of others",
        stage.half("group of others", mallory, topic="mallory"): "group of others",
        stage.half("wrong secret", RecordSigner(ALICE, "guessed-secret", alice.now_ms)): "",
        stage.half("old", RecordSigner(ALICE, SECRETS[ALICE], lambda: now_ms() - 10**6)): "",
    }
    for place, name in forged.items():
        stage.op(place, name, mallory, producer_group=f"{stage.prefix}m")
    stage.op(at, "pending", None)
    stage.op(at, "pending", mallory)
    stage.op(at, "pending", mallory, producer_group=f"{stage.prefix}m")
    stage.op(at, "pending", alice, operator="mallory")
    elsewhere = stage.op((at[0], at[1] + 1_000), "pending", alice)
    stage.write(stage.topics.names.op, b"%d" % at[1], elsewhere, at[0], b"pending")

    expected = [
        "ACCESS_KEY_MISSING", "GROUP_NOT_PERMITTED", "OP_GROUP_WRONG", "ADMIN_NEEDED",
        "SIGNATURE_WRONG",
    ]  # fmt: skip
    wait_until(
        lambda: sorted(stage.refusal_of("pending")) == sorted(expected),
        PATIENCE_S,
        what="the refusals of the ops",
    )
    stage.wait_until_refused("unsigned", "ACCESS_KEY_MISSING")
    stage.wait_until_refused("topic of others", "TOPIC_NOT_PERMITTED")
    stage.wait_until_refused("group of others", "GROUP_NOT_PERMITTED")
    stage.wait_until_refused("wrong secret", "SIGNATURE_WRONG")
    stage.wait_until_refused("old", "BORN_TIME_WRONG")
