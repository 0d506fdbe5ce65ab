"""Rules as verification looks them up: checkback.streaming.source.access_table."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checkback.protocol.errors import ConfigurationError
from checkback.security import AccessControl, RemoteAddressStrategy, SignatureAlgorithm
from checkback.streaming.source.access_table import AccessTable, AccountFlag, Pads, exception_key
from checkback.streaming.source.address_pattern import SEPARATOR, address_pattern

RULES = """
accounts:
- accessKey: service
  secretKey: the-secret-of-service
  defaultTopicPerm: PUB
  topicPerms: [denied=DENY, same=PUB|SUB, read=SUB]
  groupPerms: [own=PUB, both=PUB|SUB, read=SUB]
- accessKey: operators
  secretKey: [the-new-secret, the-old-secret]
  signatureAlgorithm: HmacSHA1
  admin: true
"""


def table(text: str = RULES) -> AccessTable:
    return AccessTable.of(AccessControl.parse(text, "rules"))


def test_a_table_has_the_rules() -> None:
    found = table()

    service, operators = found.accounts["service"], found.accounts["operators"]
    assert service.flags == AccountFlag.TOPICS_BY_DEFAULT
    assert operators.flags == AccountFlag.ADMIN | AccountFlag.SHA1 | AccountFlag.SECOND_SHA1
    assert [len(one.pads) for one in (service, operators)] == [1, 2]
    assert found.exceptions == {
        exception_key("service", "T", "denied"): False,
        exception_key("service", "T", "read"): False,
        exception_key("service", "G", "own"): True,
        exception_key("service", "G", "both"): True,
        exception_key("service", "A", "both"): True,
    }


def test_no_form_of_a_table_shows_a_secret() -> None:
    shown = repr(table()) + json.dumps(table().as_data()) + repr(table().accounts)

    assert "the-" not in shown
    assert "service" in shown


def test_an_access_key_with_a_line_end_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="line end"):
        table(RULES.replace("accessKey: service", 'accessKey: "ser\\nvice"'))


@pytest.mark.parametrize("size", [1, 64, 65, 300])
def test_an_hmac_is_two_hashes_over_the_pads(size: int) -> None:
    pads = Pads.of("s" * size, SignatureAlgorithm.HMAC_SHA256)

    inner = hashlib.sha256(pads.inner + b"content").digest()
    made = hashlib.sha256(pads.outer + inner).digest()

    assert made == hmac.digest(b"s" * size, b"content", "sha256")


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
)  # fmt: skip
"""Address patterns of every form."""


def is_stated_in_full(text: str) -> bool:
    """Tell whether a text is no address, or one as docs/protocol.md has it stated."""
    try:
        return ipaddress.ip_address(text).exploded == text
    except ValueError:
        return True


STRANGE = ("", " ", "\n", "10.0.0.1\n", "\n10.0.0.1", "x\n10.0.0.1", "10.0.0.01", "fe80::1%eth0")
ADDRESSES = st.one_of(
    st.one_of(v4(), V6, MAPPED).map(lambda text: ipaddress.ip_address(text).exploded),
    st.sampled_from(STRANGE).filter(is_stated_in_full),
    st.text(max_size=8).filter(is_stated_in_full),
)


@example("10.0.0.1", "0000:0000:0000:0000:0000:ffff:0a00:0001")
@example("::ffff:10.0.0.1", "10.0.0.1")
@example("10.0.0.1", "10.0.0.1\n")
@example("*", "\n\r")
@given(PATTERNS, ADDRESSES)
def test_a_list_matches_what_its_strategy_matches(pattern: str, address: str) -> None:
    strategy = RemoteAddressStrategy.parse(pattern)
    expression = address_pattern([], {"key.1": strategy})

    matched = bool(expression and re.search(expression, f"key.1{SEPARATOR}{address}"))

    assert matched == strategy.match(address)
    assert not expression or not re.search(expression, f"keyx1{SEPARATOR}{address}")


def test_a_list_for_all_accounts_matches_each() -> None:
    found = address_pattern([RemoteAddressStrategy.parse("10.0.0.1")], {})

    assert re.search(found, f"any{SEPARATOR}10.0.0.1")
    assert not re.search(found, f"any{SEPARATOR}10.0.0.11")
    assert address_pattern([RemoteAddressStrategy.parse("")], {}) == ""
