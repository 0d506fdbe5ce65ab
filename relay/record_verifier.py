"""Verifies halves and ops by the rules of access control, one record at a time.

The job verifies by the same rules in compiled code (streaming/java/RecordVerifier.java); a test
compares the two record by record.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from checkback.protocol import properties as names
from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.protocol.signed_content import TIMESTAMP_BYTES_MAX, is_in_time, signed_content
from checkback.protocol.topics import TopicNames
from checkback.security.access_control import AccessControl
from checkback.security.accounts import Account, Permission
from checkback.security.decision import AccessRequest, Need, ResourceKind
from checkback.security.signing import sign
from checkback.sinks.records.source_record import SourceRecord

RawHeaders = Sequence[tuple[str, bytes | None]]
_BORN: Final = re.compile(rb"0|[1-9][0-9]{0,%d}" % (TIMESTAMP_BYTES_MAX - 1))


@dataclass(frozen=True, slots=True)
class RecordVerifier:
    """Verifies records of the half and the op topic by one version of the rules."""

    rules: AccessControl = field(repr=False)
    topics: TopicNames

    def accepts_half(self, record: SourceRecord, headers: RawHeaders) -> bool:
        """Tell whether an account that may send the half has signed it, near the broker's time."""
        said = _statement(headers, HALF_PROTOCOL_ORDER)
        if said is None or not is_in_time(int(said[0]), record.timestamp()[1]):
            return False
        needs = _need(ResourceKind.TOPIC, headers[3]), _need(ResourceKind.GROUP, headers[1])
        is_operator_s = _has_name_with(headers, names.RESUME_HEADER_PREFIX)
        return self._is_allowed(said, (self.topics.half, None), record, headers, needs,
                                needs_admin=is_operator_s)  # fmt: skip

    def accepts_op(self, record: SourceRecord, headers: RawHeaders, partition: int) -> bool:
        """Tell whether an account that may end transactions of the op's group has signed it."""
        said = _statement(headers, OP_PROTOCOL_ORDER)
        if said is None:
            return False
        permissions = [Permission.PUB, *[Permission.SUB] * (headers[4][1] == b"true")]
        needs = tuple(_need(ResourceKind.GROUP, headers[2], one) for one in permissions)
        is_operator_s = _has_name_with(headers, names.MANUAL_OPERATOR)
        return self._is_allowed(said, (self.topics.op, partition), record, headers, needs,
                                needs_admin=is_operator_s)  # fmt: skip

    def _is_allowed(
        self,
        said: Sequence[bytes],
        place: tuple[str, int | None],
        record: SourceRecord,
        headers: RawHeaders,
        needs: tuple[Need, ...],
        *,
        needs_admin: bool,
    ) -> bool:
        born, access_key, signature = said
        name, address = headers[-2]
        stated = _text(address, "replace") if name == names.BORN_HOST else ""
        signed = [*headers[:-1], (names.SIGNATURE, b"%s %s " % (born, access_key))]

        def has_signed(account: Account) -> bool:
            for secret in account.secrets:
                algorithm = secret.algorithm
                content = signed_content(
                    *place, record.key(), record.value(), signed, algorithm.value
                )
                right = sign(secret.value, content, algorithm).encode()
                if hmac.compare_digest(right, signature):
                    return True
            return False

        request = AccessRequest(_text(access_key), stated, needs, needs_admin)
        return self.rules.decide(request, has_signed).is_allowed


def _statement(headers: RawHeaders, order: tuple[str, ...]) -> Sequence[bytes] | None:
    """Return what Signature states: when, which account, the signature; None if it is not there."""
    first = len(order)
    if len(headers) <= first or tuple(name for name, _ in headers[:first]) != order:
        return None
    name, statement = headers[-1]
    parts = (statement or b"").split(b" ", 2)
    if name != names.SIGNATURE or len(parts) < 3 or b"" in parts:
        return None
    return parts if _BORN.fullmatch(parts[0]) is not None else None


def _need(
    kind: ResourceKind, header: tuple[str, bytes | None], permission: Permission = Permission.PUB
) -> Need:
    return Need(kind, _text(header[1]), permission)


def _has_name_with(headers: RawHeaders, text: str) -> bool:
    return any(text in name for name, _ in headers[5:-1])


def _text(value: bytes | None, errors: str = "surrogateescape") -> str:
    """Return a name as text; bytes that are no UTF-8 become a name that no rule has."""
    return (value or b"").decode("utf-8", errors)
