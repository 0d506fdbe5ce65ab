"""The rules of access control, in the form in which the compiled decoding looks them up.

It holds secrets as the pads of their HMACs, and never shows them: neither repr nor a checkpoint has
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any, Final

from checkback.security.access_control import AccessControl
from checkback.security.accounts import Account, Permission, is_granted
from checkback.security.signing import SignatureAlgorithm
from checkback.streaming.source.address_pattern import address_pattern
from checkback.streaming.spark.java_protocol import BLOCK_BYTES, GROUP, TOPIC

_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
ANSWER: Final = "A"
"""Answers to a group's checks: they need SUB on the group besides the PUB of every op."""
_NEEDED: Final = {
    TOPIC: (Permission.PUB,),
    GROUP: (Permission.PUB,),
    ANSWER: (Permission.PUB, Permission.SUB),
}
_HASHES: Final = {
    SignatureAlgorithm.HMAC_SHA1: hashlib.sha1,
    SignatureAlgorithm.HMAC_SHA256: hashlib.sha256,
}


class AccountFlag(IntFlag):
    """Properties of an account, in one number."""

    ADMIN = 1
    TOPICS_BY_DEFAULT = 2
    GROUPS_BY_DEFAULT = 4
    SHA1 = 8
    SECOND_SHA1 = 16
    ANSWERS_BY_DEFAULT = 32


@dataclass(frozen=True, slots=True)
class Pads:
    """The two blocks that an HMAC begins with (RFC 2104)."""

    inner: bytes = field(repr=False)
    outer: bytes = field(repr=False)

    @classmethod
    def of(cls, secret_key: str, algorithm: SignatureAlgorithm) -> Pads:
        """Return the pads of a secret."""
        key = secret_key.encode("utf-8", "replace")
        if len(key) > BLOCK_BYTES:
            key = _HASHES[algorithm](key).digest()
        block = key.ljust(BLOCK_BYTES, b"\0")
        return cls(block.translate(_INNER), block.translate(_OUTER))


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An account, as verification needs it.

    Args:
        pads: of its secrets: one, or two while the secret is changed.
    """

    flags: AccountFlag
    pads: Sequence[Pads]


@dataclass(frozen=True, slots=True)
class AccessTable:
    """The rules of one version.

    Args:
        version: names the rules; tells nothing about secrets.
        accounts: by access key.
        exceptions: permissions that differ from the account's default, by `exception_key`.
        address_pattern: a Java regular expression over "<access key> <address>", empty for none.
    """

    version: str
    accounts: Mapping[str, AccountRow] = field(repr=False)
    exceptions: Mapping[str, bool] = field(repr=False)
    address_pattern: str = ""

    @classmethod
    def of(cls, rules: AccessControl) -> AccessTable:
        """Return the table of some rules."""
        accounts = rules.accounts
        lists = {key: one.white_addresses for key, one in accounts.items()}
        return cls(
            rules.version,
            {key: _row(one) for key, one in accounts.items()},
            {key: granted for one in accounts.values() for key, granted in _exceptions(one)},
            address_pattern(rules.global_white_addresses, lists),
        )

    def as_data(self) -> dict[str, Any]:
        """Return the rules as plain data, without secrets."""
        return {
            "accounts": {
                key: {"flags": int(row.flags), "secrets": len(row.pads)}
                for key, row in self.accounts.items()
            },
            "exceptions": dict(self.exceptions),
            "address_pattern": self.address_pattern,
        }


def _row(account: Account) -> AccountRow:
    flags = AccountFlag(0)
    if account.is_admin:
        flags |= AccountFlag.ADMIN
    for kind, flag, default in (
        (TOPIC, AccountFlag.TOPICS_BY_DEFAULT, account.default_topic_permission),
        (GROUP, AccountFlag.GROUPS_BY_DEFAULT, account.default_group_permission),
        (ANSWER, AccountFlag.ANSWERS_BY_DEFAULT, account.default_group_permission),
    ):
        if _is_permitted(kind, default):
            flags |= flag
    for secret, flag in zip(
        account.secrets, (AccountFlag.SHA1, AccountFlag.SECOND_SHA1), strict=False
    ):
        if secret.algorithm is SignatureAlgorithm.HMAC_SHA1:
            flags |= flag
    return AccountRow(flags, [Pads.of(one.value, one.algorithm) for one in account.secrets])


def _exceptions(account: Account) -> Iterator[tuple[str, bool]]:
    for kind, default, named in (
        (TOPIC, account.default_topic_permission, account.topic_permissions),
        (GROUP, account.default_group_permission, account.group_permissions),
        (ANSWER, account.default_group_permission, account.group_permissions),
    ):
        by_default = _is_permitted(kind, default)
        for name, owned in named.items():
            permitted = _is_permitted(kind, owned)
            if permitted != by_default:
                yield exception_key(account.access_key, kind, name), permitted


def _is_permitted(kind: str, owned: Permission) -> bool:
    return all(is_granted(one, owned) for one in _NEEDED[kind])


def exception_key(access_key: str, kind: str, name: str) -> str:
    """Return the key of a permission that an account has by name.

    Args:
        access_key: the account; the reader of rules sees to it that it has no line end.
        kind: TOPIC, GROUP or ANSWER.
    """
    return f"{access_key}\n{kind}{name}"


def exception_parts(key: str) -> tuple[str, str, str]:
    """Return the access key, the kind and the name in the key of an exception."""
    access_key, _, rest = key.partition("\n")
    return access_key, rest[:1], rest[1:]
