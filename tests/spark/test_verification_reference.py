"""Whatever bytes a record has, the compiled verification says what a plain reading of them says.

Half of the records are signed rightly, by somebody who may sign and is hostile: only then strange
names, addresses and groups get as far as the rules.
"""

from __future__ import annotations

import ipaddress
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.access_requests import check_answer_request, half_request, op_request, operator_request
from tests.signatures import has_signed
from tests.spark.harness import NAMES, KafkaRow
from tests.spark.test_verification import NOW_MS, half, op, refusals

from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.signed_content import BORN_TIME_TOLERANCE_MS, signed_content
from checkback.security import AccessControl, SignatureAlgorithm
from checkback.security.accounts import WORDS, Account, Secret
from checkback.security.addresses import RemoteAddressStrategy
from checkback.security.decision import AccessDecision, AccessRequest, Denial
from checkback.security.record_signer import RecordSigner
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
# Some are parts of others, or mean something in an expression, or begin as a permission's key does.
ACCESS_KEYS = (
    "service-1", "service.1", "service+1", "(service)", "ser|vice", "сервис-ключ", "service-2",
)  # fmt: skip
TOPICS = ("a", "ab", "A", "Ga", "pay.ed")
GROUPS = ("a", "ab", "A", "Ga", "Ta", "Aa")
PATTERNS = (
    "", "*", "10.0.0.1", "10.0.0.1,10.0.0.2", "10.0.0.{1,20}", "10.0.1-3.*", "10.*.1.2", "fe80::1",
    "fe80::{1,a}", "fe80::1-ff", "fe80:*", "1050:0:0:0:5:1-300:*", "10.0.9-11.19-20",
)  # fmt: skip
ADDRESSES = (
    "", "10.0.0.1", "10.0.0.2", "10.0.0.20", "10.0.2.7", "10.9.1.2", "10.9.9.9", "fe80::1",
    "fe80::a", "fe80::1f", "fe80:1::2", "1050:0:0:0:5:2ff:9:9", "1050:0:0:0:5:301:9:9",
    "10.0.10.19", "10.0.1.20", "::ffff:10.0.0.1",
)  # fmt: skip
LATE_MS = (0, 0, 0, 0, -300_000, 300_000, -300_001, 300_001)
OF_DENIALS = {
    Denial.NO_ACCESS_KEY: RefusedReason.ACCESS_KEY_MISSING,
    Denial.UNKNOWN_ACCESS_KEY: RefusedReason.ACCESS_KEY_UNKNOWN,
    Denial.WRONG_SIGNATURE: RefusedReason.SIGNATURE_WRONG,
    Denial.ADMIN_NEEDED: RefusedReason.ADMIN_NEEDED,
}
Header = tuple[str, bytes | None]
Change = Callable[[random.Random, list[Header]], None]
CHANGED_NAMES = [
    *HALF_PROTOCOL_ORDER,
    *OP_PROTOCOL_ORDER,
    "Signature",
    "__BORNHOST",
    "",
    "a",
    "ключ",
]
CHANGED_BYTES = [
    b"", b"\xff", b"\x00", b"\xc3\x28", b"\xed\xa0\x80", b"9" * 40, b"-1", b" ", b"0 a b", b"==",
]  # fmt: skip


def random_rules(chance: random.Random) -> AccessControl:
    keys = chance.sample(ACCESS_KEYS, chance.randint(1, 6))
    everywhere = [chance.choice(PATTERNS) for _ in range(chance.choice([0, 0, 0, 1, 2]))]
    accounts = {key: random_account(chance, key) for key in keys}
    return AccessControl(
        "rules", "version", tuple(map(RemoteAddressStrategy.parse, everywhere)), accounts
    )


def random_account(chance: random.Random, access_key: str) -> Account:
    # Longer than the block of a hash, too: such a secret is hashed before it is used.
    secrets = [
        Secret(f"s{at}-{access_key}" + "x" * chance.choice([7, 60, 70]), random_algorithm(chance))
        for at in range(chance.choice([1, 1, 2]))
    ]
    permissions = list(WORDS.values())
    return Account(
        access_key,
        tuple(secrets),
        RemoteAddressStrategy.parse(chance.choice(PATTERNS) if chance.random() < 0.5 else ""),
        is_admin=chance.random() < 0.15,
        default_topic_permission=chance.choice(permissions),
        default_group_permission=chance.choice(permissions),
        topic_permissions={one: chance.choice(permissions) for one in some(chance, TOPICS)},
        group_permissions={one: chance.choice(permissions) for one in some(chance, GROUPS)},
    )


def random_algorithm(chance: random.Random) -> SignatureAlgorithm:
    return chance.choice(list(SignatureAlgorithm))


def some(chance: random.Random, names: tuple[str, ...]) -> list[str]:
    return chance.sample(names, chance.randint(0, 3))


def missing_permission(decision: AccessDecision) -> int:
    is_topic = decision.steps[-1].rule.startswith("topic ")
    return RefusedReason.TOPIC_NOT_PERMITTED if is_topic else RefusedReason.GROUP_NOT_PERMITTED


def lose(chance: random.Random, headers: list[Header]) -> None:
    del headers[chance.randrange(len(headers))]


def double(chance: random.Random, headers: list[Header]) -> None:
    headers.insert(chance.randint(0, len(headers)), chance.choice(headers))


def swap(chance: random.Random, headers: list[Header]) -> None:
    one, other = chance.randrange(len(headers)), chance.randrange(len(headers))
    headers[one], headers[other] = headers[other], headers[one]


def add(chance: random.Random, headers: list[Header]) -> None:
    header = (chance.choice(CHANGED_NAMES), chance.choice([None, *CHANGED_BYTES]))
    headers.insert(chance.randint(0, len(headers)), header)


def rename(chance: random.Random, headers: list[Header]) -> None:
    at = chance.randrange(len(headers))
    headers[at] = chance.choice(CHANGED_NAMES), headers[at][1]


def rewrite(chance: random.Random, headers: list[Header]) -> None:
    at = chance.randrange(len(headers))
    headers[at] = headers[at][0], chance.choice([None, *CHANGED_BYTES])


def flip(chance: random.Random, headers: list[Header]) -> None:
    at = chance.randrange(len(headers))
    name, value = headers[at][0], bytearray(headers[at][1] or b"?")
    value[chance.randrange(len(value)) if value else 0] ^= 1 << chance.randrange(8)
    headers[at] = name, bytes(value)


def shift(chance: random.Random, headers: list[Header]) -> None:
    """Move a byte from one value to the next: together they are as before."""
    at = chance.randrange(len(headers) - 1)
    (name, value), (next_name, next_value) = headers[at : at + 2]
    value, next_value = value or b"", next_value or b""
    headers[at : at + 2] = [(name, value[:-1]), (next_name, value[-1:] + next_value)]


CHANGES: list[Change] = [lose, double, swap, add, rename, rewrite, flip, shift]


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

    found = refusals(spark, RecordVerification(spark, rules), rows)

    wanted = [int(plainly(rules, row)) for row in rows]
    # Of one that is believed other things may be wrong, which are judged later.
    judged = [code if 80 <= code < 90 else 0 for code in found]
    differing = [
        (row, want, got) for row, want, got in zip(rows, wanted, judged, strict=True) if want != got
    ]
    assert differing == []
    assert len(set(wanted)) > 5
    assert wanted.count(0) > RECORDS * 0.05
