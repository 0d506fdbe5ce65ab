"""Whatever bytes a record has, the compiled verification says what a plain reading of them says.

Half of the records are signed rightly, by somebody who may sign and is hostile: only then strange
names, addresses and groups get as far as the rules.
"""

from __future__ import annotations

import ipaddress
import random
import re
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.access_requests import check_answer_request, half_request, op_request, operator_request
from tests.signatures import has_signed
from tests.spark.harness import NAMES, KafkaRow
from tests.spark.test_verification import NOW_MS, half, op, refusals
from tests.spark.test_verification_decisions import (
    ADDRESSES,
    GROUPS,
    LATE_MS,
    OF_DENIALS,
    TOPICS,
    missing_permission,
    random_rules,
)
from tests.spark.test_verification_fuzz import CHANGES, Header

from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.signed_content import BORN_TIME_TOLERANCE_MS, signed_content
from checkback.security import AccessControl
from checkback.security.accounts import Account
from checkback.security.decision import AccessRequest, Denial
from checkback.security.record_signer import RecordSigner
from checkback.streaming.source.access_table import AccessTable
from checkback.streaming.source.verification import RecordVerification

RECORDS = 500
TIME = re.compile(rb"0|[1-9][0-9]{0,12}")
STRANGE_NAMES = (
    "MANUAL_OPERATOR", "xMANUAL_OPERATORx", "manual_operator", "MANUAL_OPERATO", "PGROUP",
    "__checkback.resume.", "__checkback.resume.from", "x__checkback.resume.y", "__checkback.resume",
    "REAL_TOPIC", "FROM_TRANSACTION_CHECK", "Signature", "signature", "AccessKey", "__BORNHOST", "",
    "a\0b", "\ufffd", "ключ", "\U0001f600",
)  # fmt: skip
STRANGE_ADDRESSES = (
    b"", b" ", b"*", b"10.0.0.1\n", b"\n10.0.0.1", b"10.0.0.01", b"10.0.0.1 ", b"010.0.0.1",
    b"10.0.0.1:80", b"::1", b"FE80:0000:0000:0000:0000:0000:0000:0001", b"fe80::1", b"\xff",
    b"10.0.0.1\x00", b"\xd9\xa1\xd9\xa0.0.0.1", b"10.0.0", b"x\n10.0.0.1", None,
)  # fmt: skip
STRANGE_VALUES = (None, b"", b"a", b"A", b"a ", b"ab", b"a\xff", b"true", b"TRUE", b"true ", b"\0")


def in_full(stated: bytes | None) -> str:
    """Return an address that is stated in the only spelling that counts; "" for anything else."""
    text = (stated or b"").decode("utf-8", "replace")
    try:
        return text if ipaddress.ip_address(text).exploded == text else ""
    except ValueError:
        return ""


def signed_by(account: Account, row: KafkaRow, said: tuple[bytes, bytes, bytes]) -> bool:
    time, key, signature = said
    stated = [*(row.headers or [])[:-1], ("Signature", b"%b %b " % (time, key))]
    place = None if row.topic == NAMES.half else row.partition

    def content(algorithm: str) -> bytes:
        return signed_content(row.topic, place, row.key, row.value, stated, algorithm)

    return any(
        has_signed(
            replace(account, secrets=(secret,)),
            content(secret.algorithm.value),
            signature.decode("latin-1"),
        )
        for secret in account.secrets
    )


def request_of(row: KafkaRow, access_key: str) -> AccessRequest:
    headers: list[Header] = [*(row.headers or [])]
    name, stated = headers[-2]
    who = access_key, in_full(stated) if name == "__BORNHOST" else ""
    values = [(value or b"").decode("utf-8", "surrogateescape") for _, value in headers]
    others = [name for name, _ in headers[5:-1]]
    if row.topic == NAMES.half:
        if any("__checkback.resume." in one for one in others):
            return operator_request(*who)
        return half_request(*who, real_topic=values[3], group=values[1])
    if any("MANUAL_OPERATOR" in one for one in others):
        return operator_request(*who)
    asked = check_answer_request if values[4] == "true" else op_request
    return asked(*who, group=values[2])


def plainly(rules: AccessControl, row: KafkaRow) -> int:
    """Return why a record is refused by the text of docs/protocol.md, 0 if it is not."""
    order = HALF_PROTOCOL_ORDER if row.topic == NAMES.half else OP_PROTOCOL_ORDER
    names = tuple(name for name, _ in row.headers or [])
    if names[:5] != order or len(names) == 5 or names[-1] != "Signature":
        return RefusedReason.ACCESS_KEY_MISSING
    said = ((row.headers or [])[-1][1] or b"").split(b" ", 2)
    if len(said) < 3 or b"" in said:
        return RefusedReason.SIGNATURE_UNREADABLE
    time, key, signature = said
    if TIME.fullmatch(time) is None:
        return RefusedReason.BORN_TIME_UNREADABLE
    access_key = key.decode("utf-8", "surrogateescape")
    account = rules.accounts.get(access_key)
    if account is None:
        return RefusedReason.ACCESS_KEY_UNKNOWN
    if not signed_by(account, row, (time, key, signature)):
        return RefusedReason.SIGNATURE_WRONG
    is_late = abs(row.time_ms - int(time)) > BORN_TIME_TOLERANCE_MS
    if row.topic == NAMES.half and is_late:
        return RefusedReason.BORN_TIME_WRONG
    decision = rules.decide(request_of(row, access_key), lambda _: True)
    if decision.denial is Denial.NO_PERMISSION:
        return missing_permission(decision)
    return OF_DENIALS[decision.denial] if decision.denial else 0


def a_signer(chance: random.Random, rules: AccessControl) -> RecordSigner:
    account = chance.choice(list(rules.accounts.values()))
    secret = chance.choice(account.secrets)
    late_ms = chance.choice(LATE_MS)
    return RecordSigner(
        account.access_key, secret.value, lambda: NOW_MS + late_ms, algorithm=secret.algorithm
    )


def unsigned(chance: random.Random) -> KafkaRow:
    group = chance.choice(GROUPS)
    if chance.random() < 0.5:
        operator = "ann" if chance.random() < 0.2 else ""
        row = op(None, group=group, operator=operator, from_transaction_check=chance.random() < 0.5)
    else:
        row = half(
            None, group=group, real_topic=chance.choice(TOPICS), key=chance.choice([None, b""])
        )
    headers: list[Header] = [*(row.headers or [])]
    if chance.random() < 0.4:
        at = chance.randrange(5)
        headers[at] = headers[at][0], chance.choice(STRANGE_VALUES)
    for _ in range(chance.choice([0, 0, 1, 2])):
        headers.append((chance.choice(STRANGE_NAMES), chance.choice(STRANGE_VALUES)))
    if chance.random() < 0.6:
        known = [ipaddress.ip_address(one).exploded.encode() for one in ADDRESSES if one]
        headers.append(("__BORNHOST", chance.choice([*known, *known, *STRANGE_ADDRESSES])))
    nulls_too: Any = headers
    return replace(row, headers=nulls_too)


def sign(row: KafkaRow, by: RecordSigner) -> KafkaRow:
    headers: Any = [*(row.headers or [])]
    if row.topic == NAMES.half:
        return replace(row, headers=by.half(row.topic, row.key, row.value, headers))
    key, value = row.key or b"", row.value or b""
    return replace(row, headers=by.op(row.topic, row.partition, key, value, headers))


def hostile(chance: random.Random, rules: AccessControl) -> KafkaRow:
    """Return a record that is changed before it is signed, or after that, or both."""
    row = sign(unsigned(chance), a_signer(chance, rules))
    if chance.random() < 0.5:
        return row
    headers: list[Header] = [*(row.headers or [])]
    for _ in range(chance.randint(1, 2)):
        chance.choice(CHANGES)(chance, headers)
    nulls_too: Any = headers
    changed = replace(row, headers=nulls_too)
    return sign(changed, a_signer(chance, rules)) if chance.random() < 0.3 else changed


@pytest.mark.parametrize("seed", range(2))
def test_a_record_is_judged_as_its_bytes_say(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    rules = random_rules(chance)
    rows = [hostile(chance, rules) for _ in range(RECORDS)]

    found = refusals(spark, RecordVerification(spark, AccessTable.of(rules)), rows)

    wanted = [int(plainly(rules, row)) for row in rows]
    # Of one that is believed other things may be wrong, which are judged later.
    judged = [code if 80 <= code < 90 else 0 for code in found]
    differing = [
        (row, want, got) for row, want, got in zip(rows, wanted, judged, strict=True) if want != got
    ]
    assert differing == []
    assert len(set(wanted)) > 5
    assert wanted.count(0) > RECORDS * 0.05
