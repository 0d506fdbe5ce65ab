"""Lists of addresses as one regular expression, compared with what each list matches."""

from __future__ import annotations

import ipaddress
import re

from hypothesis import example, given
from hypothesis import strategies as st

from checkback.security import RemoteAddressStrategy
from checkback.streaming.source.address_pattern import SEPARATOR, address_pattern

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
