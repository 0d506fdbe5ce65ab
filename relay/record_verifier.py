"""Verifies halves and ops by the rules of access control, one record at a time.

The job verifies by the same rules in compiled code (streaming/java/RecordVerifier.java); a test
compares the two record by record.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from checkback.protocol import properties as names
from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.protocol.signed_content import (
    BORN_TIME_TOLERANCE_MS,
    TIMESTAMP_BYTES_MAX,
    signed_content,
)
from checkback.protocol.topics import TopicNames
from checkback.security.access_control import AccessControl
from checkback.security.accounts import Account, Permission, is_granted
from checkback.security.signing import sign

RawHeaders = Sequence[tuple[str, bytes | None]]
_BORN: Final = re.compile(rb"0|[1-9][0-9]{0,%d}" % (TIMESTAMP_BYTES_MAX - 1))


@dataclass(frozen=True, slots=True)
class RecordVerifier:
    """Verifies records of the half and the op topic by one version of the rules."""

    rules: AccessControl = field(repr=False)
    topics: TopicNames
    _accounts: Mapping[bytes, Account] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        accounts = {
            key.encode("utf-8", "replace"): account for key, account in self.rules.accounts.items()
        }
        object.__setattr__(self, "_accounts", accounts)

    def accepts_half(
        self, key: bytes | None, body: bytes | None, headers: RawHeaders, time_ms: int
    ) -> bool:
        """Tell whether an account that may send the half has signed it, near the broker's time."""
        found = self._signer(self.topics.half, None, key, body, headers, HALF_PROTOCOL_ORDER)
        if found is None or abs(time_ms - found[1]) > BORN_TIME_TOLERANCE_MS:
            return False
        account = found[0]
        if account.is_admin:
            return True
        if _has_name_with(headers, names.RESUME_HEADER_PREFIX):
            return False
        if self._is_exempt(account, headers):
            return True
        topic, group = _text(headers[3][1]), _text(headers[1][1])
        return _may_send_to(account, topic) and _may_act_for(account, group, Permission.PUB)

    def accepts_op(
        self, partition: int, key: bytes | None, value: bytes | None, headers: RawHeaders
    ) -> bool:
        """Tell whether an account that may end transactions of the op's group has signed it."""
        found = self._signer(self.topics.op, partition, key, value, headers, OP_PROTOCOL_ORDER)
        if found is None:
            return False
        account = found[0]
        if account.is_admin:
            return True
        if _has_name_with(headers, names.MANUAL_OPERATOR):
            return False
        if self._is_exempt(account, headers):
            return True
        group = _text(headers[2][1])
        if headers[4][1] == b"true" and not _may_act_for(account, group, Permission.SUB):
            return False
        return _may_act_for(account, group, Permission.PUB)

    def _signer(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: RawHeaders,
        order: Sequence[str],
    ) -> tuple[Account, int] | None:
        """Return the account that signed a record, and when; None if the signature is wrong."""
        first = len(order)
        if len(headers) <= first or tuple(name for name, _ in headers[:first]) != tuple(order):
            return None
        name, statement = headers[-1]
        parts = (statement or b"").split(b" ", 2)
        if name != names.SIGNATURE or len(parts) < 3 or b"" in parts:
            return None
        born, access_key, signature = parts
        account = self._accounts.get(access_key)
        if account is None or _BORN.fullmatch(born) is None:
            return None
        signed = [*headers[:-1], (name, b"%s %s " % (born, access_key))]
        for secret in account.secrets:
            algorithm = secret.algorithm
            content = signed_content(topic, partition, key, value, signed, algorithm.value)
            right = sign(secret.value, content, algorithm).encode()
            if hmac.compare_digest(right, signature):
                return account, int(born)
        return None

    def _is_exempt(self, account: Account, headers: RawHeaders) -> bool:
        """Tell whether a white list has the address that the signature covers."""
        name, value = headers[-2]
        stated = (value or b"").decode("utf-8", "replace") if name == names.BORN_HOST else ""
        lists = (*self.rules.global_white_addresses, account.white_addresses)
        return any(addresses.match(stated) for addresses in lists)


def _has_name_with(headers: RawHeaders, text: str) -> bool:
    return any(text in name for name, _ in headers[5:-1])


def _text(value: bytes | None) -> str:
    """Return a name as text; bytes that are no UTF-8 become a name that no rule has."""
    return (value or b"").decode("utf-8", "surrogateescape")


def _may_send_to(account: Account, topic: str) -> bool:
    owned = account.topic_permissions.get(topic, account.default_topic_permission)
    return is_granted(Permission.PUB, owned)


def _may_act_for(account: Account, group: str, needed: Permission) -> bool:
    owned = account.group_permissions.get(group, account.default_group_permission)
    return is_granted(needed, owned)
