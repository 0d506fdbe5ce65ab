"""Verifies signatures and permissions in SQL expressions that the JVM compiles.

An HMAC is two hashes: sha2(outer pad, sha2(inner pad, content)). The pads come out of a map literal
by access key, which Spark looks up by hash. New rules are new literals, so a new plan: all records
of a batch are judged by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from checkback.protocol import properties as names
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.signed_content import (
    BORN_TIME_TOLERANCE_MS,
)
from checkback.protocol.signed_content import SEPARATOR as CONTENT_SEPARATOR
from checkback.protocol.topics import TopicNames
from checkback.security.signing import SignatureAlgorithm
from checkback.streaming.access_table import ANSWER, GROUP, TOPIC, AccessTable, AccountFlag
from checkback.streaming.address_pattern import SEPARATOR
from checkback.streaming.literals import LiteralMaps

ACCOUNT_FIELDS: Final = (
    "flags int, inner binary, outer binary, second_inner binary, second_outer binary"
)
_TRUE: Final = b"true"
_ANSWERS_AT: Final = names.OP_PROTOCOL_ORDER.index(names.FROM_TRANSACTION_CHECK)
_SEPARATOR: Final = f"cast(X'{CONTENT_SEPARATOR.hex()}' as string)"
_HASHES: Final[dict[SignatureAlgorithm, Callable[[Column], Column]]] = {
    SignatureAlgorithm.HMAC_SHA256: lambda data: f.sha2(data, 256),
    SignatureAlgorithm.HMAC_SHA1: f.sha1,
}


@dataclass(frozen=True)
class Verification:
    """The rules of one version, as expressions.

    Args:
        table: the rules.
        accounts: map literal from access key to ACCOUNT_FIELDS.
        exceptions: map literal of permissions by `exception_key`; None where there are none.
    """

    table: AccessTable
    accounts: Column = field(repr=False)
    exceptions: Column | None = field(repr=False)

    @classmethod
    def of(cls, spark: SparkSession, table: AccessTable) -> Verification:
        """Return the verification by these rules in a session."""
        maps = LiteralMaps(spark)
        rows = {
            key: [
                int(row.flags),
                *(pad for pads in row.pads for pad in (pads.inner, pads.outer)),
                *[None] * (4 - 2 * len(row.pads)),
            ]
            for key, row in table.accounts.items()
        }
        exceptions = maps.of_truths(table.exceptions) if table.exceptions else None
        return cls(table, maps.of_rows(rows, ACCOUNT_FIELDS), exceptions)

    def verified(self, rows: DataFrame, topics: TopicNames) -> DataFrame:
        """Tell of each record whether it may be believed.

        Args:
            rows: records with is_half, is_direct_op, in_order, feedback_times, partition, time_ms,
                key, value and headers.
            topics: the names of the topics.

        Returns:
            The rows with access_refusal: the code of a RefusedReason, 0 for none.
        """
        # One after the other: what is used twice is computed once, and lengths need the texts.
        texts = rows.withColumns(
            {
                "signed_head": f.expr(
                    "array_join(concat(headers.key, cast(headers.value as array<string>)), "
                    f"{_SEPARATOR}, '')"
                ),
                "access_key": f.when(_is_signed(), _from_end(0)["value"].cast("string")),
                "signature": _from_end(2)["value"].cast("string"),
                "answers_check": _answers_check(),
            }
        )
        known = texts.withColumn("account", self.accounts[f.col("access_key")])
        refusal = self._identity_refusal(_Content(topics)).otherwise(self._permission_refusal())
        # What is on the feedback topic, only the pipeline may write: Kafka's ACLs see to it. Nor
        # does it sign that a session is fenced; under these rules no half is a direct one.
        is_own = f.col("feedback_times").isNotNull() | _says_fenced()
        checked = f.when(is_own, 0).otherwise(refusal)
        return known.select(*rows.columns, checked.alias("access_refusal"))

    def _permission_refusal(self) -> Column:
        topic = self._is_permitted(f.lit(TOPIC), _real_topic(), _has(AccountFlag.TOPICS_BY_DEFAULT))
        group = self._group_permission()
        return (
            f.when(_has(AccountFlag.ADMIN), 0)
            .when(_needs_admin(), RefusedReason.ADMIN_NEEDED.value)
            .when(self._is_white(), 0)
            .when(f.col("is_half") & ~topic, RefusedReason.TOPIC_NOT_PERMITTED.value)
            .when(~group, RefusedReason.GROUP_NOT_PERMITTED.value)
            .otherwise(0)
        )

    def _identity_refusal(self, content: _Content) -> Column:
        born_ms = _from_end(1)["value"].cast("string").try_cast("long")
        # A sum with what the record states would overflow, which ends the query for everybody.
        time_ms, tolerance_ms = f.col("time_ms"), f.lit(BORN_TIME_TOLERANCE_MS)
        in_time = born_ms.between(time_ms - tolerance_ms, time_ms + tolerance_ms)
        return (
            f.when(f.col("access_key").isNull(), RefusedReason.ACCESS_KEY_MISSING.value)
            .when(f.col("account").isNull(), RefusedReason.ACCESS_KEY_UNKNOWN.value)
            .when(~self._is_right(content), RefusedReason.SIGNATURE_WRONG.value)
            .when(
                f.col("is_half") & ~f.coalesce(in_time, f.lit(False)),
                RefusedReason.BORN_TIME_WRONG.value,
            )
        )

    def _is_right(self, content: _Content) -> Column:
        """Tell whether the signature is that of the content by a secret of the account."""
        right = self._is_by(content, 0, "inner", "outer", AccountFlag.SHA1)
        if not self.table.algorithms(1):
            return right
        names_of_second = "second_inner", "second_outer", AccountFlag.SECOND_SHA1
        second = self._is_by(content, 1, *names_of_second)
        return right | (f.col("account.second_inner").isNotNull() & second)

    def _is_by(
        self, content: _Content, position: int, inner: str, outer: str, is_sha1: AccountFlag
    ) -> Column:
        pads = f.col(f"account.{inner}"), f.col(f"account.{outer}")
        made = {
            one: _hmac(*pads, content.parts(one), hashed)
            for one, hashed in _HASHES.items()
            if one in self.table.algorithms(position)
        }
        sha256, sha1 = (made.get(one) for one in _HASHES)
        if sha256 is not None and sha1 is not None:
            signed = f.when(_has(is_sha1), sha1).otherwise(sha256)
        else:
            signed = next(one for one in (sha256, sha1, f.lit(b"")) if one is not None)
        return f.coalesce(f.base64(signed) == f.col("signature"), f.lit(False))

    def _is_white(self) -> Column:
        """Tell whether an address list has the address that the signature covers."""
        if not self.table.address_pattern:
            return f.lit(False)
        stated = _from_end(-1)
        is_stated = f.coalesce(stated["key"] == names.BORN_HOST, f.lit(False))
        address = f.when(is_stated, stated["value"].cast("string")).otherwise("")
        named = f.concat(f.col("access_key"), f.lit(SEPARATOR), address)
        return f.coalesce(f.rlike(named, f.lit(self.table.address_pattern)), f.lit(False))

    def _group_permission(self) -> Column:
        """Tell whether the account may do for the group what the record says that it does."""
        answers = f.col("answers_check")
        kind = f.when(answers, ANSWER).otherwise(GROUP)
        by_default = f.when(answers, _has(AccountFlag.ANSWERS_BY_DEFAULT)).otherwise(
            _has(AccountFlag.GROUPS_BY_DEFAULT)
        )
        return self._is_permitted(kind, _group(), by_default)

    def _is_permitted(self, kind: Column, name: Column, by_default: Column) -> Column:
        if self.exceptions is None:
            return by_default
        # As checkback.streaming.access_table.exception_key.
        wanted = f.concat(f.col("access_key"), f.lit("\n"), kind, name.cast("string"))
        return f.coalesce(self.exceptions[wanted], by_default)


@dataclass(frozen=True, slots=True)
class _Content:
    """The bytes that are signed (checkback.protocol.signed_content), as columns.

    Args:
        topics: the names of the topics.
    """

    topics: TopicNames

    def parts(self, algorithm: SignatureAlgorithm) -> list[Column]:
        """Return the parts of the content, which are put together only once."""
        # The head ends with the signature, which can't sign itself.
        size = f.octet_length("signed_head") - f.octet_length("signature")
        head = f.substring(f.col("signed_head").cast("binary"), f.lit(1), size)
        sizes = self._sizes(algorithm.value, size)
        body = (f.coalesce(f.col(one), f.lit(b"")) for one in ("key", "value"))
        return [sizes.cast("binary"), head, *body]

    def _sizes(self, algorithm: str, head_size: Column) -> Column:
        op = f"{algorithm} {self.topics.op} "
        direct_op = f"{algorithm} {self.topics.direct_op} "
        of_op = f.when(f.col("is_direct_op"), direct_op).otherwise(op)
        place = f.when(f.col("is_half"), f.lit(f"{algorithm} {self.topics.half} -")).otherwise(
            f.concat(of_op, f.col("partition").cast("string"))
        )
        key_size = f.coalesce(f.octet_length("key").cast("string"), f.lit("-"))
        blank = f.lit(" ")
        return f.concat(place, blank, head_size.cast("string"), blank, key_size, f.lit("\n"))


def _hmac(
    inner: Column, outer: Column, parts: list[Column], hashed: Callable[[Column], Column]
) -> Column:
    """Return an HMAC (RFC 2104) from its pads; Spark's hashes are in hexadecimal digits."""
    return f.unhex(hashed(f.concat(outer, f.unhex(hashed(f.concat(inner, *parts))))))


def _says_fenced() -> Column:
    """Tell whether the record can only be feedback of a fence, whatever else is in it."""
    tag = f.get(f.col("headers"), f.lit(0))
    says = (tag["key"] == names.TAGS) & (tag["value"] == f.lit(names.OP_TAG_FENCED.encode()))
    return f.coalesce(f.col("is_direct_op") & says, f.lit(False))


def _from_end(position: int) -> Column:
    """Return one of the last headers, counted as in names.SIGNED_TAIL."""
    at = f.size("headers") - f.lit(len(names.SIGNED_TAIL) - position)
    return f.get(f.col("headers"), at)


def _group() -> Column:
    position = f.when(f.col("is_half"), names.HALF_PROTOCOL_ORDER.index(names.PGROUP))
    at = position.otherwise(names.OP_PROTOCOL_ORDER.index(names.PGROUP))
    return f.get(f.col("headers"), at)["value"]


def _real_topic() -> Column:
    at = f.lit(names.HALF_PROTOCOL_ORDER.index(names.REAL_TOPIC))
    return f.get(f.col("headers"), at)["value"]


def _is_signed() -> Column:
    """Tell whether the first and the last headers are those of a signed record."""
    first, *rest = (
        _from_end(position)["key"] == name for position, name in enumerate(names.SIGNED_TAIL)
    )
    return reduce(and_, rest, f.col("in_order") & first)


def _answers_check() -> Column:
    """Tell whether an op says that it answers a check; of a signed record, which is in order."""
    says = f.get(f.col("headers"), f.lit(_ANSWERS_AT))["value"] == f.lit(_TRUE)
    return ~f.col("is_half") & f.coalesce(says, f.lit(False))


def _needs_admin() -> Column:
    """Tell whether the record says that an operator wrote it."""
    has_others = f.size("headers") > len(names.OP_PROTOCOL_ORDER) + len(names.SIGNED_TAIL)
    name = f.when(f.col("is_half"), names.RESUME_HEADER_PREFIX).otherwise(names.MANUAL_OPERATOR)
    # The names again, only where a name or a value has it: values may say what they like.
    all_names = f.array_join("headers.key", "\n")
    return has_others & f.contains(f.col("signed_head"), name) & f.contains(all_names, name)


def _has(flag: AccountFlag) -> Column:
    return f.col("account.flags").bitwiseAND(flag.value) != 0
