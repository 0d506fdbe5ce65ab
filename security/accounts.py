"""What the rules of access hold: accounts, their secrets and their permissions."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final, Literal, TypeAlias

from checkback.protocol.configuration import MASK
from checkback.security.addresses import NO_ADDRESS, RemoteAddressStrategy
from checkback.security.signing import SignatureAlgorithm

SECRETS_MAX: Final = 2
"""The new secret and the old one: keys are exchanged without a pause while both are valid."""


class Permission(IntFlag):
    """What an account may do with a topic or a group: RocketMQ's bits (common/Permission).

    ``PUB`` is to send, ``SUB`` to receive. A request needs ``ANY`` if either of the two is enough;
    an account that has ``ANY`` has neither. ``DENY`` beside other permissions refuses everything.
    """

    DENY = 1
    ANY = 2
    PUB = 4
    SUB = 8


NOTHING: Final = Permission(0)

WORDS: Final[dict[str, Permission]] = {
    "DENY": Permission.DENY,
    "ANY": Permission.ANY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
}
"""What rules may say. RocketMQ takes every other word for DENY; here it is a mistake."""


def word_of(permission: Permission) -> str:
    """Return a permission as rules write it."""
    return next((word for word, bits in WORDS.items() if bits == permission), str(int(permission)))


def is_granted(needed: Permission, owned: Permission) -> bool:
    """Tell whether what is owned allows what is needed, for all 15 x 16 pairs as RocketMQ does."""
    if owned & Permission.DENY:
        return False
    wanted = Permission.PUB | Permission.SUB if needed & Permission.ANY else needed
    return bool(wanted & owned)


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, and the algorithm that is used with it. Its text never shows it."""

    value: str = field(repr=False)
    algorithm: SignatureAlgorithm

    def __str__(self) -> str:
        return MASK


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A reference to a secret outside the file of rules."""

    kind: Literal["env", "file"]
    name: str


SecretReader: TypeAlias = Callable[[SecretReference], str | None]
"""Returns the secret, None to leave it out; raises LookupError with the reason if there is none."""


@dataclass(frozen=True, slots=True)
class Account:
    """One account.

    Args:
        secrets: those that are valid, the newest first; none if they were not read.
        white_addresses: from there the account needs no permission.
        line: where it begins in the file of rules.
    """

    access_key: str
    secrets: tuple[Secret, ...]
    white_addresses: RemoteAddressStrategy = NO_ADDRESS
    is_admin: bool = False
    default_topic_permission: Permission = Permission.DENY
    default_group_permission: Permission = Permission.DENY
    topic_permissions: Mapping[str, Permission] = field(default_factory=dict)
    group_permissions: Mapping[str, Permission] = field(default_factory=dict)
    line: int = 0

    def has_secret(self, secret: str) -> bool:
        """Tell whether this is one of the account's secrets."""
        given = secret.encode("utf-8", "replace")
        # All are compared, as above.
        same = [
            hmac.compare_digest(one.value.encode("utf-8", "replace"), given) for one in self.secrets
        ]
        return any(same)
