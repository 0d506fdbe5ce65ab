"""Verifies each record by the rules of access control, while it is decoded.

The class ``RecordVerifier.java`` does it, in one call for each record. With the decoder it is a
literal of the plan, and new rules are a new plan: all records of a batch are judged by the same
rules. The literal shows neither accounts nor secrets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import SparkSession

from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.protocol.signed_content import SEPARATOR
from checkback.protocol.topics import TopicNames
from checkback.security.signing import SignatureAlgorithm
from checkback.streaming.source.access_table import (
    AccessTable,
    AccountFlag,
    AccountRow,
    exception_parts,
)
from checkback.streaming.spark.java_classes import java_class

VERIFIER: Final = "RecordVerifier"
HASHES: Final = {
    SignatureAlgorithm.HMAC_SHA256: "SHA-256",
    SignatureAlgorithm.HMAC_SHA1: "SHA-1",
}
"""By Java's names."""


@dataclass(frozen=True)
class RecordVerification:
    """The rules of one version, in the session's JVM."""

    spark: SparkSession = field(repr=False)
    table: AccessTable

    def verifier(self, topics: TopicNames) -> Any:
        """Return the rules as the object that the decoder asks, for topics of these names."""
        made = java_class(self.spark, VERIFIER)(
            topics.half,
            topics.op,
            *map(_separated, (HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER)),
            self.table.address_pattern,
        )
        accounts = {
            access_key: _added_account(made, access_key, row)
            for access_key, row in self.table.accounts.items()
        }
        for key in self.table.exceptions:
            access_key, kind, name = exception_parts(key)
            accounts[access_key].exempt(kind, name)
        return made


def _separated(order: tuple[str, ...]) -> bytearray:
    return bytearray(b"".join(name.encode() + SEPARATOR for name in order))


def _added_account(verifier: Any, access_key: str, row: AccountRow) -> Any:
    flags = (
        AccountFlag.ADMIN,
        AccountFlag.TOPICS_BY_DEFAULT,
        AccountFlag.GROUPS_BY_DEFAULT,
        AccountFlag.ANSWERS_BY_DEFAULT,
    )
    account = verifier.account(access_key, *(flag in row.flags for flag in flags))
    for pads, sha1 in zip(row.pads, (AccountFlag.SHA1, AccountFlag.SECOND_SHA1), strict=False):
        is_sha1 = sha1 in row.flags
        algorithm = SignatureAlgorithm.HMAC_SHA1 if is_sha1 else SignatureAlgorithm.HMAC_SHA256
        account.secret(
            algorithm.value, HASHES[algorithm], bytearray(pads.inner), bytearray(pads.outer)
        )
    return account
