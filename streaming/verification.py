"""Has Spark's compiled loop over rows verify each record by the rules of access control.

The class ``RecordVerifier.java`` does it, in one call for each record. It is a literal of the plan,
and new rules are a new plan: all records of a batch are judged by the same rules. The literal shows
neither accounts nor secrets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.protocol.signed_content import SEPARATOR
from checkback.protocol.topics import TopicNames
from checkback.security.signing import SignatureAlgorithm
from checkback.streaming.access_table import AccessTable, AccountFlag, AccountRow, exception_parts
from checkback.streaming.java_classes import call_for_rows, java_class

VERIFIER: Final = "RecordVerifier"
SIGNED_RECORD: Final = "SignedRecord"
ARGUMENTS: Final = (
    "is_half", "is_direct_op", "feedback_times IS NOT NULL", "partition", "time_ms", "key", "value",
    "headers",
)  # fmt: skip
"""Of its method `verdict`."""
IN_ORDER: Final = 256
"""Stands beside a refusal's code in what that method returns."""
HASHES: Final = {
    SignatureAlgorithm.HMAC_SHA256: "SHA-256",
    SignatureAlgorithm.HMAC_SHA1: "SHA-1",
}
"""By Java's names."""


@dataclass(frozen=True)
class RecordVerification:
    """The rules of one version, in the session's JVM.

    Args:
        spark: the session.
        table: the rules.
    """

    spark: SparkSession = field(repr=False)
    table: AccessTable

    def verified(self, rows: DataFrame, topics: TopicNames) -> DataFrame:
        """Tell of each record whether it may be believed.

        Args:
            rows: records with is_half, is_direct_op, feedback_times, partition, time_ms, key, value
                and headers.
            topics: the names of the topics.

        Returns:
            The rows with in_order (whether the first headers are those of the protocol's order) and
            access_refusal: the code of a RefusedReason, 0 for none.
        """
        verdict = f.col("verdict")
        return rows.withColumn("verdict", self._verdict(topics)).withColumns(
            {
                "in_order": verdict.bitwiseAND(IN_ORDER) != 0,
                "access_refusal": verdict.bitwiseAND(IN_ORDER - 1),
            }
        )

    def _verdict(self, topics: TopicNames) -> Column:
        """Return the call that makes the whole decision about a record.

        HotSpot compiles the loop around it only up to a size of bytecode, which is nearly used up.
        The class reads all header names, so it also tells whether they are in order.
        """
        arguments = [f.expr(one) for one in ARGUMENTS]
        return call_for_rows(self.spark, self._verifier(topics), "verdict", arguments)

    def _verifier(self, topics: TopicNames) -> Any:
        """Return the rules as the object that Spark calls."""
        java_class(self.spark, SIGNED_RECORD)  # the other one is made with it
        made = java_class(self.spark, VERIFIER)(
            topics.half,
            topics.op,
            topics.direct_op,
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
