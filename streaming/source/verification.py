"""Verifies each record by the rules of access control, while it is decoded.

The class ``RecordVerifier.java`` does it, in one call for each record. With the decoder it is a
literal of the plan, and new rules are a new plan: all records of a batch are judged by the same
rules. The literal shows neither accounts nor secrets, of which it holds the pads of their HMACs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import SparkSession

from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.protocol.signed_content import SEPARATOR
from checkback.protocol.topics import TopicNames
from checkback.security.access_control import AccessControl
from checkback.security.accounts import Account, Permission, Secret, is_granted
from checkback.security.signing import SignatureAlgorithm
from checkback.streaming.source.address_pattern import address_pattern
from checkback.streaming.spark.java_classes import java_class
from checkback.streaming.spark.java_protocol import BLOCK_BYTES, GROUP, TOPIC

VERIFIER: Final = "RecordVerifier"
ANSWER: Final = "A"
"""Answers to a group's checks: they need SUB on the group besides the PUB of every op."""
_HASHES: Final = {
    SignatureAlgorithm.HMAC_SHA256: ("SHA-256", hashlib.sha256),
    SignatureAlgorithm.HMAC_SHA1: ("SHA-1", hashlib.sha1),
}
"""Java's name of each, and Python's function."""
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


@dataclass(frozen=True)
class RecordVerification:
    """The rules of one version, in the session's JVM."""

    spark: SparkSession = field(repr=False)
    rules: AccessControl = field(repr=False)

    def verifier(self, topics: TopicNames) -> Any:
        """Return the rules as the object that the decoder asks, for topics of these names."""
        accounts = self.rules.accounts
        lists = {key: account.white_addresses for key, account in accounts.items()}
        made = java_class(self.spark, VERIFIER)(
            topics.half,
            topics.op,
            *map(_separated, (HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER)),
            address_pattern(self.rules.global_white_addresses, lists),
        )
        for account in accounts.values():
            _add_account(made, account)
        return made


def pads_of(secret: Secret) -> tuple[bytes, bytes]:
    """Return the inner and the outer block that an HMAC begins with (RFC 2104)."""
    key = secret.value.encode("utf-8", "replace")
    if len(key) > BLOCK_BYTES:
        key = _HASHES[secret.algorithm][1](key).digest()
    block = key.ljust(BLOCK_BYTES, b"\0")
    return block.translate(_INNER), block.translate(_OUTER)


def _separated(order: tuple[str, ...]) -> bytearray:
    return bytearray(b"".join(name.encode() + SEPARATOR for name in order))


def _add_account(verifier: Any, account: Account) -> None:
    """Add an account: what it may do by default, the names that differ, and its secrets."""
    of_topics = account.default_topic_permission, account.topic_permissions
    of_groups = account.default_group_permission, account.group_permissions
    owned = {TOPIC: of_topics, GROUP: of_groups, ANSWER: of_groups}
    by_default = {kind: _may(kind, default) for kind, (default, _) in owned.items()}
    added = verifier.account(account.access_key, account.is_admin, *by_default.values())
    for kind, (_, named) in owned.items():
        for name, permission in named.items():
            if _may(kind, permission) != by_default[kind]:
                added.exempt(kind, name)
    for secret in account.secrets:
        pads = map(bytearray, pads_of(secret))
        added.secret(secret.algorithm.value, _HASHES[secret.algorithm][0], *pads)


def _may(kind: str, owned: Permission) -> bool:
    """Return whether a permission is enough to send there, or to answer the group's checks."""
    may_answer = kind != ANSWER or is_granted(Permission.SUB, owned)
    return may_answer and is_granted(Permission.PUB, owned)
