"""What the header Signature says has one reading, or is refused for what is wrong with it."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.spark.test_verification import NOW_MS, RULES, changed, half, refusals, said, signer

from checkback.protocol.refusals import RefusedReason
from checkback.security import AccessControl
from checkback.streaming.source.verification import RecordVerification

SIGNATURE = said(half(signer())).rpartition(b" ")[2]
UNREADABLE, TIMELESS = RefusedReason.SIGNATURE_UNREADABLE, RefusedReason.BORN_TIME_UNREADABLE
STATED: dict[bytes | None, RefusedReason] = {
    None: UNREADABLE,
    b"": UNREADABLE,
    b" ": UNREADABLE,
    b"  ": UNREADABLE,
    SIGNATURE: UNREADABLE,
    b"%d" % NOW_MS: UNREADABLE,
    b"%d orders-service" % NOW_MS: UNREADABLE,
    b"%d orders-service " % NOW_MS: UNREADABLE,
    b"%d  orders-service %s" % (NOW_MS, SIGNATURE): UNREADABLE,
    b" %d orders-service %s" % (NOW_MS, SIGNATURE): UNREADABLE,
    b" orders-service %s" % SIGNATURE: UNREADABLE,
    b"%d\torders-service\t%s" % (NOW_MS, SIGNATURE): UNREADABLE,
    b"9" * 100_000: UNREADABLE,
    b"+%d orders-service %s" % (NOW_MS, SIGNATURE): TIMELESS,
    b"-%d orders-service %s" % (NOW_MS, SIGNATURE): TIMELESS,
    b"-0 orders-service %s" % SIGNATURE: TIMELESS,
    b"0%d orders-service %s" % (NOW_MS, SIGNATURE): TIMELESS,
    b"00 orders-service %s" % SIGNATURE: TIMELESS,
    b"1e12 orders-service %s" % SIGNATURE: TIMELESS,
    b"%d.0 orders-service %s" % (NOW_MS // 1_000, SIGNATURE): TIMELESS,
    b"0x18bcfe568 orders-service %s" % SIGNATURE: TIMELESS,
    b"\xd9\xa1 orders-service %s" % SIGNATURE: TIMELESS,
    b"%d orders-service %s" % (10**13, SIGNATURE): TIMELESS,
    b"9" * 100_000 + b" orders-service " + SIGNATURE: TIMELESS,
    b"orders-service %d %s" % (NOW_MS, SIGNATURE): TIMELESS,
    b"%d nobody %s" % (NOW_MS, SIGNATURE): RefusedReason.ACCESS_KEY_UNKNOWN,
    b"%d ORDERS-SERVICE %s" % (NOW_MS, SIGNATURE): RefusedReason.ACCESS_KEY_UNKNOWN,
    b"%d \xff %s" % (NOW_MS, SIGNATURE): RefusedReason.ACCESS_KEY_UNKNOWN,
    b"%d orders-service  %s" % (NOW_MS, SIGNATURE): RefusedReason.SIGNATURE_WRONG,
    b"%d orders-service %s " % (NOW_MS, SIGNATURE): RefusedReason.SIGNATURE_WRONG,
    b"%d orders-service %s\n" % (NOW_MS, SIGNATURE): RefusedReason.SIGNATURE_WRONG,
    b"%d orders-service %s" % (NOW_MS, SIGNATURE.rstrip(b"=")): RefusedReason.SIGNATURE_WRONG,
    b"%d orders-service %s" % (NOW_MS, SIGNATURE + b"A" * 100_000): RefusedReason.SIGNATURE_WRONG,
}
"""What Signature may say instead, and why it is refused: each has one reading or none."""


def test_whatever_else_signature_says_is_refused_for_what_is_wrong_with_it(
    spark: SparkSession,
) -> None:
    verification = RecordVerification(spark, AccessControl.parse(RULES, "rules"))
    rows = [changed(half(signer()), "Signature", stated) for stated in STATED]

    found = refusals(spark, verification, rows)

    assert dict(zip(STATED, map(RefusedReason, found), strict=True)) == STATED
