"""What the compiled verification decides of real records is what `acl check` says of them."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession
from tests.access_requests import check_answer_request, half_request, op_request, operator_request
from tests.spark.harness import NAMES, KafkaRow
from tests.spark.test_verification import NOW_MS, half, op, refusals

from checkback.protocol.refusals import RefusedReason
from checkback.security import AccessControl, SignatureAlgorithm
from checkback.security.accounts import WORDS, Account, Secret
from checkback.security.addresses import RemoteAddressStrategy
from checkback.security.decision import AccessDecision, AccessRequest, Denial
from checkback.security.record_signer import RecordSigner
from checkback.streaming.source.access_table import AccessTable
from checkback.streaming.source.verification import RecordVerification

RECORDS = 400
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
BORN_TIME_TOLERANCE_MS = 300_000
OF_DENIALS = {
    Denial.NO_ACCESS_KEY: RefusedReason.ACCESS_KEY_MISSING,
    Denial.UNKNOWN_ACCESS_KEY: RefusedReason.ACCESS_KEY_UNKNOWN,
    Denial.WRONG_SIGNATURE: RefusedReason.SIGNATURE_WRONG,
    Denial.ADMIN_NEEDED: RefusedReason.ADMIN_NEEDED,
}


@dataclass(frozen=True)
class Sent:
    """A record, and what is true of it."""

    row: KafkaRow
    request: AccessRequest
    is_signed_rightly: bool
    is_in_time: bool


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


def random_record(chance: random.Random, rules: AccessControl) -> Sent:
    known = list(rules.accounts)
    access_key = chance.choice([*known, *known, *known, "nobody-here"])
    account = rules.accounts.get(access_key)
    secrets = account.secrets if account else ()
    used = chance.choice(secrets or (Secret("whatever", SignatureAlgorithm.HMAC_SHA256),))
    if chance.random() < 0.05:
        used = Secret(f"wrong-{used.value}", used.algorithm)
    elif chance.random() < 0.1:
        used = Secret(used.value, random_algorithm(chance))
    late_ms = chance.choice(LATE_MS)
    address = chance.choice(ADDRESSES)
    by = RecordSigner(
        access_key, used.value, lambda: NOW_MS + late_ms, address, algorithm=used.algorithm
    )
    row, request = random_row(chance, by, address)
    return Sent(row, request, used in secrets, abs(late_ms) <= BORN_TIME_TOLERANCE_MS)


def random_row(
    chance: random.Random, by: RecordSigner, address: str
) -> tuple[KafkaRow, AccessRequest]:
    who = by.access_key, address
    group, real_topic = chance.choice(GROUPS), chance.choice(TOPICS)
    kind = chance.choice(["half", "half", "op", "answer", "verdict by hand"])
    if kind == "half":
        properties = {"p": "v"} if chance.random() < 0.5 else {}
        row = half(
            by, group=group, real_topic=real_topic, properties=properties,
            key=chance.choice([None, b"", b"k\xff"]), value=chance.choice([b"b", b"\x00\xff" * 9]),
        )  # fmt: skip
        return row, half_request(*who, real_topic=real_topic, group=group)
    if kind == "op":
        return op(by, group=group), op_request(*who, group=group)
    if kind == "answer":
        answer = op(by, group=group, from_transaction_check=True)
        return answer, check_answer_request(*who, group=group)
    return op(by, group=group, operator="ann"), operator_request(*who)


def expected(rules: AccessControl, sent: Sent) -> int:
    """Return the code of the refusal, 0 for none."""
    decision = rules.decide(sent.request, lambda _: sent.is_signed_rightly)
    denial = decision.denial
    is_half = sent.row.topic == NAMES.half
    if denial in (Denial.NO_ACCESS_KEY, Denial.UNKNOWN_ACCESS_KEY, Denial.WRONG_SIGNATURE):
        return OF_DENIALS[denial]
    if is_half and not sent.is_in_time:
        return RefusedReason.BORN_TIME_WRONG
    if denial is Denial.NO_PERMISSION:
        return missing_permission(decision)
    return OF_DENIALS[denial] if denial else 0


def missing_permission(decision: AccessDecision) -> int:
    is_topic = decision.steps[-1].rule.startswith("topic ")
    return RefusedReason.TOPIC_NOT_PERMITTED if is_topic else RefusedReason.GROUP_NOT_PERMITTED


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_to_decide_come_to_the_same(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    rules = random_rules(chance)
    sent = [random_record(chance, rules) for _ in range(RECORDS)]

    found = refusals(
        spark, RecordVerification(spark, AccessTable.of(rules)), [one.row for one in sent]
    )

    wanted = [int(expected(rules, one)) for one in sent]
    differing = [
        (one.request, RefusedReason(want) if want else None, got)
        for one, want, got in zip(sent, wanted, found, strict=True)
        if want != got
    ]
    assert differing == []
    assert len(set(wanted)) > 3
