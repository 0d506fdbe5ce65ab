"""Permissions: what an account may do with a topic or a group (RocketMQ's common/Permission)."""

from __future__ import annotations

from enum import IntFlag
from typing import Final


class Permission(IntFlag):
    """RocketMQ's bits.

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
    """Tell whether what is owned allows what is needed, for all 15 x 16 pairs as RocketMQ does.

    Args:
        needed: one permission; of several bits one that is owned is enough.
        owned: what the rules give.
    """
    if owned & Permission.DENY:
        return False
    wanted = Permission.PUB | Permission.SUB if needed & Permission.ANY else needed
    return bool(wanted & owned)
