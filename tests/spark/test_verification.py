"""Who is believed: records signed in Python, verified by a class of ours."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import NAMES, KafkaRow, kafka_rows

from checkback.protocol.properties import Headers
from checkback.protocol.records import Op, OperatorFacts, half_headers, resumed_half_headers
from checkback.protocol.refusals import RefusedReason
from checkback.security import AccessControl, SignatureAlgorithm
from checkback.security.accounts import Account, Secret
from checkback.security.record_signer import RecordSigner
from checkback.state import EventKind
from checkback.streaming.pages.event_columns import packed
from checkback.streaming.pages.page_key import PageKeys
from checkback.streaming.source.decode import decode
from checkback.streaming.source.verification import RecordVerification

NOW_MS = 1_700_000_000_000
RULES = """
globalWhiteRemoteAddresses: []
accounts:
- accessKey: orders-service
  secretKey: secret-of-orders
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [paid=PUB, read=SUB]
  groupPerms: [orders=PUB|SUB, unasked=PUB, asked=SUB]
- accessKey: stock-service
  secretKey: [secret-of-stock-new, secret-of-stock-old]
  defaultTopicPerm: PUB
  defaultGroupPerm: PUB
  topicPerms: [paid=DENY]
  groupPerms: [orders=DENY]
- accessKey: rocketmq-client
  secretKey: secret-of-rocketmq
  signatureAlgorithm: HmacSHA1
  whiteRemoteAddress: 10.0.1-3.*
- accessKey: operators
  secretKey: secret-of-operators
  admin: true
- accessKey: answers-all
  secretKey: secret-of-answers
  defaultGroupPerm: PUB|SUB
  groupPerms: [unasked=PUB, asked=SUB]
"""


def signer(
    access_key: str = "orders-service", key: str = "secret-of-orders", **changes: Any
) -> RecordSigner:
    return replace(RecordSigner(access_key, key, lambda: NOW_MS), **changes)


def half(
    by: RecordSigner | None,
    *,
    group: str = "orders",
    real_topic: str = "paid",
    properties: dict[str, str] | None = None,
    key: bytes | None = b"k",
    value: bytes = b"body",
) -> KafkaRow:
    headers = half_headers(
        producer_group=group, transaction_id="u", real_topic=real_topic, properties=properties or {}
    )
    if by is not None:
        headers = by.half(NAMES.half, key, value, headers)
    return KafkaRow(NAMES.half, 1, 5, NOW_MS, value, headers, key)


def op(
    by: RecordSigner | None,
    *,
    group: str = "orders",
    operator: str = "",
    from_transaction_check: bool = False,
) -> KafkaRow:
    made = Op(1, 5, group, "u", 8, from_transaction_check, operator=operator)
    headers = made.headers()
    if by is not None:
        headers = by.op(NAMES.op, 1, made.key(), made.value(), headers)
    return KafkaRow(NAMES.op, 1, 9, NOW_MS, made.value(), headers, made.key())


def answer(by: RecordSigner, *, group: str = "orders") -> KafkaRow:
    """Return an op that says that it answers a check."""
    return op(by, group=group, from_transaction_check=True)


def changed(row: KafkaRow, name: str, value: bytes | None) -> KafkaRow:
    """Return a record with another value of a header."""
    nulls_too: Any = [(one, value if one == name else had) for one, had in row.headers or ()]
    return replace(row, headers=nulls_too)


def said(row: KafkaRow) -> bytes:
    """Return the value of a record's last header, Signature."""
    return (row.headers or [])[-1][1] or b""


def restated(row: KafkaRow, stated: bytes) -> KafkaRow:
    """Return a record with another time and account in front of its signature."""
    return changed(row, "Signature", stated + b" " + said(row).rpartition(b" ")[2])


@pytest.fixture(scope="module")
def verification(spark: SparkSession) -> RecordVerification:
    return RecordVerification(spark, AccessControl.parse(RULES, "rules"))


def refusals(
    spark: SparkSession,
    verification: RecordVerification,
    rows: list[KafkaRow],
    *,
    as_bytes: bool = False,
) -> list[int]:
    """Return why each record is refused, 0 where it is not.

    Args:
        spark: the session.
        verification: the rules.
        rows: the records.
        as_bytes: whether a row is one array of bytes, as Kafka's source makes it, or objects.
    """
    lines = spark.createDataFrame([(row.to_json(),) for row in rows], "value string")
    # Where a compiled loop ends, its rows are written.
    read = kafka_rows(lines).coalesce(1) if as_bytes else kafka_rows(lines)
    found = decode(read, NAMES, 1024, verification).collect()
    refused = (EventKind.REFUSED_HALF, EventKind.REFUSED_OP)
    return [one.detail if one.kind in refused else 0 for one in found]


STOCK = signer("stock-service", "secret-of-stock-new")
OLD_STOCK = signer("stock-service", "secret-of-stock-old")
SHA1 = signer("rocketmq-client", "secret-of-rocketmq", algorithm=SignatureAlgorithm.HMAC_SHA1)
ADMIN = signer("operators", "secret-of-operators")
ANSWERS_ALL = signer("answers-all", "secret-of-answers")
RESUMED: Headers = resumed_half_headers(
    half(None).headers or [], "0:1", OperatorFacts("eve", "r", 1)
)
GOOD: dict[str, KafkaRow] = {
    "half": half(signer()),
    "half without key": half(signer(), key=None),
    "half with an empty key": half(signer(), key=b""),
    "half with properties": half(signer(), properties={"a": "", "ключ": "значение", "TAGS": "t"}),
    "half that quotes": half(signer(), properties={"a": "__checkback.resume.from"}),
    "half a little late": half(signer(now_ms=lambda: NOW_MS - 299_999)),
    "half a little early": half(signer(now_ms=lambda: NOW_MS + 300_000)),
    "the oldest op": op(signer(now_ms=lambda: 0)),
    "the newest op": op(signer(now_ms=lambda: 10**13 - 1)),
    "op": op(signer()),
    "op where checks are not to be answered": op(signer(), group="unasked"),
    "answer": answer(signer()),
    "answer by default": answer(ANSWERS_ALL, group="g"),
    "op where the default is more": op(ANSWERS_ALL, group="unasked"),
    "an admin's answer": answer(ADMIN),
    "an answer from a listed address": answer(replace(SHA1, born_host="10.0.2.9")),
    "by default": half(STOCK, group="g", real_topic="t"),
    "the older secret": op(OLD_STOCK, group="g"),
    "an admin": half(ADMIN, group="any", real_topic="any"),
    "an admin's verdict": op(ADMIN, operator="ann"),
    "a listed address": half(replace(SHA1, born_host="10.0.2.9")),
}
BAD: dict[str, tuple[KafkaRow, RefusedReason]] = {
    "unsigned half": (half(None), RefusedReason.ACCESS_KEY_MISSING),
    "unsigned op": (op(None), RefusedReason.ACCESS_KEY_MISSING),
    "no headers": (replace(half(None), headers=None), RefusedReason.ACCESS_KEY_MISSING),
    "few headers": (
        replace(half(None), headers=(half(signer()).headers or [])[-5:]),
        RefusedReason.ACCESS_KEY_MISSING,
    ),
    "nobody": (half(signer("nobody", "secret")), RefusedReason.ACCESS_KEY_UNKNOWN),
    "wrong secret": (half(signer(key="another")), RefusedReason.SIGNATURE_WRONG),
    "another time": (restated(half(signer()), b"0 orders-service"), RefusedReason.SIGNATURE_WRONG),
    "another account": (
        restated(half(signer()), b"%d stock-service" % NOW_MS), RefusedReason.SIGNATURE_WRONG,
    ),
    "a signature with more": (
        changed(half(signer()), "Signature", said(half(signer())) + b" "),
        RefusedReason.SIGNATURE_WRONG,
    ),
    "another body": (replace(half(signer()), value=b"bodY"), RefusedReason.SIGNATURE_WRONG),
    "another key": (replace(half(signer()), key=b"K"), RefusedReason.SIGNATURE_WRONG),
    "no key any more": (
        replace(half(signer(), key=b""), key=None), RefusedReason.SIGNATURE_WRONG,
    ),
    "another topic": (
        changed(half(signer(), real_topic="paid"), "REAL_TOPIC", b"stock"),
        RefusedReason.SIGNATURE_WRONG,
    ),
    "another property": (
        changed(half(signer(), properties={"a": "b"}), "a", b"c"), RefusedReason.SIGNATURE_WRONG,
    ),
    "another address": (
        changed(half(replace(SHA1, born_host="10.0.9.9")), "__BORNHOST", b"10.0.2.9"),
        RefusedReason.SIGNATURE_WRONG,
    ),
    "a half as op": (
        replace(op(signer()), headers=half(signer()).headers), RefusedReason.ACCESS_KEY_MISSING,
    ),
    "another verdict": (
        changed(op(signer()), "COMMIT_OR_ROLLBACK", b"12"), RefusedReason.SIGNATURE_WRONG,
    ),
    "another offset": (replace(op(signer()), value=b"6"), RefusedReason.SIGNATURE_WRONG),
    "another partition": (replace(op(signer()), partition=2), RefusedReason.SIGNATURE_WRONG),
    "a copy of an hour ago": (
        half(signer(now_ms=lambda: NOW_MS - 3_600_000)), RefusedReason.BORN_TIME_WRONG,
    ),
    "the first time": (half(signer(now_ms=lambda: 0)), RefusedReason.BORN_TIME_WRONG),
    "the latest time": (half(signer(now_ms=lambda: 10**13 - 1)), RefusedReason.BORN_TIME_WRONG),
    "a later time": (half(signer(now_ms=lambda: 10**13)), RefusedReason.BORN_TIME_UNREADABLE),
    "a time of many digits": (
        half(signer(now_ms=lambda: 10**30)), RefusedReason.BORN_TIME_UNREADABLE,
    ),
    "a time before all": (
        half(signer(now_ms=lambda: -(2**63))), RefusedReason.BORN_TIME_UNREADABLE,
    ),
    "a copy from the future": (
        half(signer(now_ms=lambda: NOW_MS + 300_001)), RefusedReason.BORN_TIME_WRONG,
    ),
    "topic of others": (half(signer(), real_topic="stock"), RefusedReason.TOPIC_NOT_PERMITTED),
    "topic to read": (half(signer(), real_topic="read"), RefusedReason.TOPIC_NOT_PERMITTED),
    "denied topic": (half(STOCK, group="g"), RefusedReason.TOPIC_NOT_PERMITTED),
    "group of others": (half(signer(), group="stock"), RefusedReason.GROUP_NOT_PERMITTED),
    "op of others": (op(signer(), group="stock"), RefusedReason.GROUP_NOT_PERMITTED),
    "answer with PUB alone": (
        answer(signer(), group="unasked"), RefusedReason.GROUP_NOT_PERMITTED,
    ),
    "answer with SUB alone": (answer(signer(), group="asked"), RefusedReason.GROUP_NOT_PERMITTED),
    "op with SUB alone": (op(signer(), group="asked"), RefusedReason.GROUP_NOT_PERMITTED),
    "answer with PUB by default": (answer(STOCK, group="g"), RefusedReason.GROUP_NOT_PERMITTED),
    "answer with PUB by name": (
        answer(ANSWERS_ALL, group="unasked"), RefusedReason.GROUP_NOT_PERMITTED,
    ),
    "answer with SUB by name": (
        answer(ANSWERS_ALL, group="asked"), RefusedReason.GROUP_NOT_PERMITTED,
    ),
    "answer of others": (answer(signer(), group="stock"), RefusedReason.GROUP_NOT_PERMITTED),
    "answer that denies to be one": (
        changed(answer(signer(), group="unasked"), "FROM_TRANSACTION_CHECK", b"false"),
        RefusedReason.SIGNATURE_WRONG,
    ),
    "denied group": (op(STOCK), RefusedReason.GROUP_NOT_PERMITTED),
    "a verdict by hand": (op(signer(), operator="eve"), RefusedReason.ADMIN_NEEDED),
    "resumed": (
        replace(half(None), headers=signer().half(NAMES.half, b"k", b"body", RESUMED)),
        RefusedReason.ADMIN_NEEDED,
    ),
    "an address beside the list": (
        half(replace(SHA1, born_host="10.0.4.9")), RefusedReason.TOPIC_NOT_PERMITTED,
    ),
    "another address than was signed": (
        replace(
            half(SHA1),
            headers=[("__BORNHOST", b"10.0.2.9") if one[0] == "x" else one
                     for one in half(SHA1, properties={"x": ""}).headers or []],
        ),
        RefusedReason.SIGNATURE_WRONG,
    ),
    "no address": (half(SHA1), RefusedReason.TOPIC_NOT_PERMITTED),
}  # fmt: skip


@pytest.mark.parametrize("as_bytes", [False, True])
def test_what_is_signed_and_permitted_is_believed_and_each_forgery_refused_for_its_own_reason(
    spark: SparkSession, verification: RecordVerification, *, as_bytes: bool
) -> None:
    expected = {**dict.fromkeys(GOOD, 0), **{name: int(why) for name, (_, why) in BAD.items()}}
    rows = [*GOOD.values(), *(row for row, _ in BAD.values())]

    found = refusals(spark, verification, rows, as_bytes=as_bytes)

    assert dict(zip(expected, found, strict=True)) == expected


def test_a_global_list_takes_the_place_of_permissions_only(spark: SparkSession) -> None:
    rules = RULES.replace(
        "globalWhiteRemoteAddresses: []", 'globalWhiteRemoteAddresses: ["10.7.*.*", "fe80::1-ff"]'
    )
    verification = RecordVerification(spark, AccessControl.parse(rules, "rules"))
    listed = signer(born_host="10.7.0.1")
    behind = signer(born_host="10.7.0.1")
    # The client would not take this for an address.
    object.__setattr__(behind, "born_host", "10.7.0.1\n")
    cases = {
        "half": (half(listed, group="g", real_topic="t"), 0),
        "op": (op(listed, group="g"), 0),
        "answer": (answer(listed, group="unasked"), 0),
        "IPv6": (op(signer(born_host="fe80::1f"), group="g"), 0),
        "another account": (op(replace(SHA1, born_host="10.7.255.0"), group="g"), 0),
        "IPv4 in IPv6": (
            op(signer(born_host="::ffff:10.7.0.1"), group="g"), RefusedReason.GROUP_NOT_PERMITTED,
        ),
        "beside": (op(signer(born_host="10.70.0.1"), group="g"), RefusedReason.GROUP_NOT_PERMITTED),
        "a line end behind": (op(behind, group="g"), RefusedReason.GROUP_NOT_PERMITTED),
        "none": (op(signer(), group="g"), RefusedReason.GROUP_NOT_PERMITTED),
        "nobody": (op(replace(listed, access_key="nobody")), RefusedReason.ACCESS_KEY_UNKNOWN),
        "wrong secret": (op(signer(key="x", born_host="10.7.0.1")), RefusedReason.SIGNATURE_WRONG),
        "by hand": (op(listed, operator="eve"), RefusedReason.ADMIN_NEEDED),
    }  # fmt: skip

    found = refusals(spark, verification, [row for row, _ in cases.values()])

    assert dict(zip(cases, found, strict=True)) == {
        name: int(why) for name, (_, why) in cases.items()
    }


def test_feedback_needs_no_signature(spark: SparkSession, verification: RecordVerification) -> None:
    undelivered = [("TAGS", b"u"), ("TRANSACTION_CHECK_TIMES", b"4")]

    assert refusals(
        spark, verification, [KafkaRow(NAMES.feedback, 1, 5, 9, b"12", undelivered)]
    ) == [0]


def test_the_loop_that_verifies_is_small_enough_for_the_jvm_to_compile(
    spark: SparkSession, verification: RecordVerification
) -> None:
    """Above 8,000 bytes of bytecode HotSpot never compiles a method (DontCompileHugeMethods).

    Kafka's scan adds some 460 to the first loop, which these rows' one does not.
    """
    lines = spark.createDataFrame([(half(signer()).to_json(),)], "value string")
    rows = spark.createDataFrame(kafka_rows(lines).rdd, kafka_rows(lines).schema)

    events = packed(decode(rows, NAMES, 1024, verification), 1024)
    keyed: Any = PageKeys(4).put_on(events)

    stages = keyed._jdf.queryExecution().debug().codegenToSeq().mkString("\n")
    sizes = [int(size) for size in re.findall(r"ByteCodeStats\((\d+),", stages)]
    assert sizes
    assert max(sizes) < 8_000 - 500


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("algorithm", list(SignatureAlgorithm))
def test_a_secret_of_any_size_signs_as_in_python(
    spark: SparkSession, algorithm: SignatureAlgorithm, size: int
) -> None:
    secret = "s" * size
    account = Account("a", (Secret(secret, algorithm),), is_admin=True)
    rules = AccessControl("rules", "version", (), {"a": account})
    verification = RecordVerification(spark, rules)
    by = signer("a", secret, algorithm=algorithm)

    found = refusals(spark, verification, [half(by, value=bytes(range(256)) * 3)])

    assert found == [0]
