"""What `decide` says, and `acl check` with it, is what the pipeline's tables and patterns say."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st
from tests.access_requests import check_answer_request, half_request, op_request, operator_request

from checkback.security import AccessControl, RemoteAddressStrategy, SignatureAlgorithm
from checkback.security.accounts import NOTHING, WORDS, Account, Permission, Secret
from checkback.security.decision import AccessRequest, Denial
from checkback.streaming.source.access_table import ANSWER, AccessTable, AccountFlag
from checkback.streaming.source.access_table import exception_key as key_of
from checkback.streaming.source.address_pattern import SEPARATOR
from checkback.streaming.spark.java_protocol import GROUP, TOPIC

DEFAULTS = {
    TOPIC: AccountFlag.TOPICS_BY_DEFAULT,
    GROUP: AccountFlag.GROUPS_BY_DEFAULT,
    ANSWER: AccountFlag.ANSWERS_BY_DEFAULT,
}
# Some are parts of others, or mean something in an expression, or begin as another kind does.
ACCESS_KEYS = ("service", "service.1", "service+1", "(service)", "ser|vice", "ser\\rvice")
NAMES = ("a", "ab", "A", "Ga", "Ta", "Aa", "a\nGa")
STRANGE = ("", " ", "\n", "10.0.0.1\n", "\n10.0.0.1", "x\n10.0.0.1", "10.0.0.01", "fe80::1%eth0")


@dataclass(frozen=True)
class Wanted:
    """A record, as far as permissions look at it."""

    access_key: str
    address: str
    kind: str
    real_topic: str
    group: str

    def request(self) -> AccessRequest:
        who = self.access_key, self.address
        if self.kind == "half":
            return half_request(*who, real_topic=self.real_topic, group=self.group)
        if self.kind == "op":
            return op_request(*who, group=self.group)
        if self.kind == "answer":
            return check_answer_request(*who, group=self.group)
        return operator_request(*who)

    def asks(self) -> list[tuple[str, str]]:
        """Return what verification looks up: a kind of permission and a name."""
        group = ANSWER if self.kind == "answer" else GROUP
        topics = [(TOPIC, self.real_topic)] if self.kind == "half" else []
        return [*topics, (group, self.group)]


def by_table(table: AccessTable, wanted: Wanted) -> Denial | None:
    """Decide as checkback.streaming.source.verification does, of a record that is signed well."""
    account = table.accounts.get(wanted.access_key)
    if not wanted.access_key:
        return Denial.NO_ACCESS_KEY
    if account is None:
        return Denial.UNKNOWN_ACCESS_KEY
    if AccountFlag.ADMIN in account.flags:
        return None
    if wanted.kind == "operator":
        return Denial.ADMIN_NEEDED
    named = f"{wanted.access_key}{SEPARATOR}{wanted.address}"
    if table.address_pattern and re.search(table.address_pattern, named):
        return None
    permitted = all(
        table.exceptions.get(key_of(wanted.access_key, kind, name), DEFAULTS[kind] in account.flags)
        for kind, name in wanted.asks()
    )
    return None if permitted else Denial.NO_PERMISSION


# Few numbers, so that drawn addresses meet drawn patterns; 1 and 10, 9 and a have digits in common.
V4_NUMBERS = st.sampled_from([0, 1, 9, 10, 11, 19, 20, 255])
V6_NUMBERS = st.sampled_from([0, 1, 9, 0xA, 0xF, 0x10, 0x1A0, 0xFFFF])


def v4(head: str = "10.0") -> st.SearchStrategy[str]:
    return st.builds(lambda *numbers: ".".join([head, *map(str, numbers)]), V4_NUMBERS, V4_NUMBERS)


V6 = st.builds("fe80:0:0:0:0:0:{:x}:{:x}".format, V6_NUMBERS, V6_NUMBERS)
MAPPED = v4("::ffff:10.0")


def a_range(numbers: st.SearchStrategy[int], style: str) -> st.SearchStrategy[str]:
    pairs = st.tuples(numbers, numbers).map(sorted)
    return st.one_of(st.just("*"), pairs.map(lambda pair: f"{pair[0]:{style}}-{pair[1]:{style}}"))


PATTERNS = st.one_of(
    st.sampled_from(["", "*", "*.*.*.*", "*:*:*:*:*:*:*:*", "fe80:*", "10.0.0.{1,20}"]),
    v4(), V6, MAPPED,
    st.lists(st.one_of(v4(), V6, MAPPED), min_size=1, max_size=3).map(",".join),
    st.builds("10.0.{}.{}".format, a_range(V4_NUMBERS, "d"), a_range(V4_NUMBERS, "d")),
    st.builds("fe80:0:0:0:0:0:{:x}:{}".format, V6_NUMBERS, a_range(V6_NUMBERS, "x")),
    st.builds("fe80:0:0:0:0:0:{}:*".format, a_range(V6_NUMBERS, "x")),
    st.builds("0:0:0:0:0:ffff:a00:{}".format, a_range(V6_NUMBERS, "x")),
).map(RemoteAddressStrategy.parse)  # fmt: skip
"""Address patterns of every form."""


def is_stated_in_full(text: str) -> bool:
    """Tell whether a text is no address, or one as docs/protocol.md has it stated."""
    try:
        return ipaddress.ip_address(text).exploded == text
    except ValueError:
        return True


ADDRESSES = st.one_of(
    st.one_of(v4(), V6, MAPPED).map(lambda text: ipaddress.ip_address(text).exploded),
    st.sampled_from(STRANGE).filter(is_stated_in_full),
    st.text(max_size=8).filter(is_stated_in_full),
)
PERMISSIONS: st.SearchStrategy[Permission] = st.sampled_from([*WORDS.values(), NOTHING])
NAMED = st.dictionaries(st.sampled_from(NAMES), PERMISSIONS, max_size=4)
ACCOUNTS = st.builds(
    Account,
    access_key=st.sampled_from(ACCESS_KEYS),
    secrets=st.just((Secret("a-secret", SignatureAlgorithm.HMAC_SHA256),)),
    white_addresses=st.one_of(st.just(RemoteAddressStrategy("")), PATTERNS),
    is_admin=st.sampled_from([False, False, False, True]),
    default_topic_permission=PERMISSIONS,
    default_group_permission=PERMISSIONS,
    topic_permissions=NAMED,
    group_permissions=NAMED,
)
RULES = st.builds(
    lambda everywhere, accounts: AccessControl(
        "rules", "version", tuple(everywhere), {one.access_key: one for one in accounts}
    ),
    st.lists(PATTERNS, max_size=2),
    st.lists(ACCOUNTS, min_size=1, max_size=4),
)
WANTED = st.builds(
    Wanted,
    access_key=st.sampled_from([*ACCESS_KEYS, "", "nobody"]),
    address=ADDRESSES,
    kind=st.sampled_from(["half", "op", "answer", "operator"]),
    real_topic=st.sampled_from(NAMES),
    group=st.sampled_from(NAMES),
)


def listed(pattern: str) -> AccessControl:
    """Return rules with one account, which has nothing but an address pattern."""
    account = Account("service", (), RemoteAddressStrategy.parse(pattern))
    return AccessControl("rules", "version", (), {account.access_key: account})


def from_address(address: str) -> list[Wanted]:
    return [Wanted("service", address, "op", "a", "a")]


@example(listed("10.0.0.1"), from_address("0000:0000:0000:0000:0000:ffff:0a00:0001"))
@example(listed("::ffff:10.0.0.1"), from_address("10.0.0.1"))
@example(listed("10.0.0.1"), from_address("10.0.0.1\n"))
@example(listed("*"), from_address("\n\r"))
@given(RULES, st.lists(WANTED, min_size=1, max_size=20))
def test_two_ways_to_decide_come_to_the_same(rules: AccessControl, many: list[Wanted]) -> None:
    table = AccessTable.of(rules)

    for wanted in many:
        decision = rules.decide(wanted.request(), lambda _: True)
        assert by_table(table, wanted) is decision.denial, wanted
