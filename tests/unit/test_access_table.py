"""Rules as verification looks them up: checkback.streaming.source.access_table."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re

import pytest

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


def full(address: str) -> str:
    return ipaddress.ip_address(address).exploded


@pytest.mark.parametrize(
    "pattern",
    [
        "192.168.0.1", "10.0.0.1,10.0.0.20", "10.0.0.{1,20}", "10.0.1-20.*", "10.*.1.7-9",
        "fe80::1", "fe80:0:0:0:0:0:0:1-ff", "fe80:0:0:0:0:0:0:9-1a0", "fe80:0:*", "*",
    ],
)  # fmt: skip
def test_a_list_matches_what_its_strategy_matches(pattern: str) -> None:
    strategy = RemoteAddressStrategy.parse(pattern)
    expression = re.compile(address_pattern([], {"key.1": strategy}))
    addresses = [
        "192.168.0.1", "192.168.0.10", "10.0.0.1", "10.0.0.20", "10.0.0.2", "10.0.1.0",
        "10.0.20.255", "10.0.21.0", "10.5.1.8", "10.5.2.8", "fe80::1", "fe80::ff", "fe80::100",
        "fe80::9", "fe80::1a0", "fe80::1a1", "fe80::8", "fe80:1::1", "::1",
    ]  # fmt: skip

    for address in addresses:
        stated = f"key.1{SEPARATOR}{full(address)}"
        assert bool(expression.search(stated)) == strategy.match(address), address
        assert not expression.search(f"keyx1{SEPARATOR}{full(address)}")


def test_a_list_for_all_accounts_matches_each() -> None:
    found = address_pattern([RemoteAddressStrategy.parse("10.0.0.1")], {})

    assert re.search(found, f"any{SEPARATOR}10.0.0.1")
    assert not re.search(found, f"any{SEPARATOR}10.0.0.11")
    assert address_pattern([RemoteAddressStrategy.parse("")], {}) == ""
