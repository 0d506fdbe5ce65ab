"""Address patterns: every form matches what it says and nothing else, or is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.protocol.errors import ConfigurationError
from checkback.security import RemoteAddressStrategy

MATCHES = [
    # pattern, who matches, who does not
    ("", [], ["127.0.0.1", "::1", ""]),
    ("   ", [], ["127.0.0.1", "::1"]),
    ("*", ["127.0.0.1", "::1", ""], []),
    ("*.*.*.*", ["127.0.0.1", "::1"], []),
    ("*:*:*:*:*:*:*:*", ["127.0.0.1", "::1"], []),
    ("127.0.0.1", ["127.0.0.1"], ["127.0.0.2", "::1", "", "x", "127.0.0.01"]),
    ("::1", ["::1", "0:0:0:0:0:0:0:1", "0000::0001"], ["::2", "127.0.0.1"]),
    ("FE80::AB", ["fe80::ab", "FE80:0:0:0:0:0:0:ab"], ["fe80::ac"]),
    ("127.0.0.1,127.0.0.3", ["127.0.0.1", "127.0.0.3"], ["127.0.0.2"]),
    (",127.0.0.1,,fe80::1,", ["127.0.0.1", "fe80::1"], ["127.0.0.2", "fe80::2"]),
    ("127.0.0.{1,2,,30}", ["127.0.0.1", "127.0.0.2", "127.0.0.30"], ["127.0.0.3", "127.0.0.12"]),
    ("127.0.0.{7}", ["127.0.0.7"], ["127.0.0.1"]),
    ("1050:0:0:0:5:600:300c:{a,1b}", ["1050::5:600:300c:1b"], ["1050::5:600:300c:b"]),
    ("fe80::{1,2}", ["fe80::1", "fe80:0:0:0:0:0:0:2"], ["fe80::3", "fe80:1::1"]),
    ("192.168.*.*", ["192.168.0.1", "192.168.255.255"], ["192.169.0.1", "::1"]),
    ("192.168.1.*", ["192.168.1.0", "192.168.1.255"], ["192.168.2.1"]),
    ("192.168.1.10-20", ["192.168.1.10", "192.168.1.20"], ["192.168.1.9", "192.168.1.21"]),
    ("192.168.1.0-0", ["192.168.1.0"], ["192.168.1.1"]),
    # RocketMQ ignores what stands after the first range or wildcard.
    ("192.*.1.2", ["192.0.1.2", "192.5.1.2"], ["192.5.9.9", "192.5.1.3"]),
    ("127.0.1-20.1-3", ["127.0.1.1", "127.0.20.3"], ["127.0.5.9", "127.0.21.1", "127.0.0.1"]),
    ("127.0.1-20.*", ["127.0.1.0", "127.0.20.255"], ["127.0.21.1"]),
    ("1050:0:0:0:5:600:300c:1-200", ["1050::5:600:300c:1ff"], ["1050::5:600:300c:201"]),
    ("1050:0:0:0:5:600:300c:*", ["1050::5:600:300c:ffff"], ["1050::5:600:300d:1"]),
    ("1050:0:0:0:5:1-300:*", ["1050:0:0:0:5:300:9:9"], ["1050:0:0:0:5:301:9:9"]),
    ("1050:0:0:0:5:1-300:*:*", ["1050:0:0:0:5:1:9:9"], ["1050:0:0:0:6:1:9:9"]),
    ("ac41:9987::bb22:666:*", ["ac41:9987:0:0:0:bb22:666:1"], ["ac41:9987:0:0:1:bb22:666:1"]),
    ("fe80::1-5", ["fe80::1", "fe80::5"], ["fe80::6", "fe80:0:0:0:0:0:1:1"]),
    ("fe80:*", ["fe80::1", "fe80:1:2:3:4:5:6:7"], ["fe81::1"]),
    # An address of the other protocol or of a card is another one.
    ("10.0.0.1", ["10.0.0.1"], ["::ffff:10.0.0.1"]),
    ("10.0.0.*", ["10.0.0.7"], ["::ffff:a00:7"]),
    ("::ffff:10.0.0.1", ["::ffff:a00:1", "0000:0000:0000:0000:0000:FFFF:0a00:0001"], ["10.0.0.1"]),
    ("0:0:0:0:0:ffff:a00:*", ["::ffff:10.0.0.9"], ["10.0.0.9"]),
    ("fe80::1", ["fe80::1"], ["fe80::1%eth0"]),
]  # fmt: skip

REFUSED = [
    # RocketMQ takes these and fails on them at every request.
    "*.0.0.1", "*.*.0.1", "1-5.0.0.1", "127.0.0.**", "127.0.0.1*", "0-0", "::*", "::1-5",
    # RocketMQ takes these for something else.
    "127.0.0.1-2-3",
    # No address can match these.
    ",", ",,", "127.0.0.{}", "127.0.0.{,}", "127.0.0.256", "127.0.0.0-256", "127.0.0.20-10",
    "fe80::5-1", "fe80::1-10000", "127.0.0", "127.0.0.0.*", "127.0.*", "1:2:3:4:5:6:7:8:*",
    "1:2:3:4::5:6:7:*", "fe80::1::*",
    # RocketMQ refuses these, too.
    "127.0.0.1/24", "fe80::/10", "localhost", "a-b", "my-host.example.org", "127.0.0.1 ", " *",
    "127.0.0.1, 127.0.0.2", "127.0.0.1-5,127.0.0.7", "127.0.0.*,127.0.0.7", "127.0.{1,2}.1",
    "127.0.{1,2}", "127.0.0.{1-3}", "127.0.{3.4}", "{127.0.0.1,127.0.0.2}", "127.0.0.{1,2",
    "127.0.0.1}", "127.0.0.{a}", "127.0.0.-1", "127.0.0.1-", "127.-1.0.1", "1:2:*:4:5:6:7:8",
    "1:2:3:4:5:6:1-2:8", "fe80:*:1", "fe80::g", "fe80::g-h", "fe80::1%eth0", "127.0.0.01",
    "[::1]", "127.0.0.1:80", "-", "**", "*:*", "\x00", "\uff11.2.3.4", "\uff11.2.3.*",
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "inside", "outside"), MATCHES, ids=[one[0] for one in MATCHES])
def test_a_pattern_matches_what_it_says(
    pattern: str, inside: list[str], outside: list[str]
) -> None:
    strategy = RemoteAddressStrategy.parse(pattern)

    assert [one for one in inside if not strategy.match(one)] == []
    assert [one for one in outside if strategy.match(one)] == []


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_could_fail_or_never_match_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        RemoteAddressStrategy.parse(pattern)

    assert raised.value.remedy
    is_shown = repr(pattern) in raised.value.message
    assert is_shown is (raised.value.fields.get("pattern") == pattern)
    assert is_shown or raised.value.message.startswith("The address pattern has ")


@pytest.mark.parametrize("pattern", ["10.0.0.0/8", "1.2.3", "127.0.0.**", "fe80:*:1", "1.2.3.{a}"])
def test_the_error_shows_a_pattern_that_looks_like_an_address(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^The address pattern '") as raised:
        RemoteAddressStrategy.parse(pattern)

    assert repr(pattern) in raised.value.message


@pytest.mark.parametrize(
    "pattern", ["hunter2", "0123456789", "dead-beef", "1.2.3.a b", "12:345678"]
)
def test_the_error_keeps_to_itself_what_may_be_a_secret(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^The address pattern has ") as raised:
        RemoteAddressStrategy.parse(pattern)

    assert pattern not in f"{raised.value!r} {raised.value} {raised.value.fields}"
    assert raised.value.remedy


LIKE_PATTERNS = st.text("0123456789abcdef.:,-*{}%/ ", max_size=40)
ADDRESSES = st.one_of(st.ip_addresses().map(str), LIKE_PATTERNS, st.text(max_size=20))


@given(st.one_of(LIKE_PATTERNS, st.text(max_size=30)), ADDRESSES)
def test_a_pattern_is_refused_at_once_or_never_fails(pattern: str, address: str) -> None:
    try:
        strategy = RemoteAddressStrategy.parse(pattern)
    except ConfigurationError:
        return

    assert isinstance(strategy.match(address), bool)


@st.composite
def parts_of_a_pattern(draw: st.DrawFn) -> list[tuple[str, range]]:
    """Draw the four parts of an IPv4 pattern, the first one fixed, with what each stands for."""
    number = st.integers(0, 255)
    fixed = number.map(lambda one: (str(one), range(one, one + 1)))
    span = st.tuples(number, number).map(
        lambda pair: (f"{min(pair)}-{max(pair)}", range(min(pair), max(pair) + 1))
    )
    return [draw(fixed), *(draw(st.one_of(fixed, span, st.just(("*", range(256))))) for _ in "...")]


@given(parts_of_a_pattern(), st.lists(st.integers(0, 255), min_size=4, max_size=4), st.booleans())
def test_every_part_counts(
    parts: list[tuple[str, range]], numbers: list[int], begins_alike: bool
) -> None:
    if begins_alike:
        numbers[0] = parts[0][1].start
    address = ".".join(map(str, numbers))
    inside = all(number in part for number, (_, part) in zip(numbers, parts, strict=True))

    assert RemoteAddressStrategy.parse(".".join(text for text, _ in parts)).match(address) is inside
