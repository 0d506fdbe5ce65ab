"""Address patterns: RocketMQ's RemoteAddressStrategy in all its forms, without its traps.

::

    (empty)                  no address
    *                        everybody; so do *.*.*.* and *:*:*:*:*:*:*:*
    192.168.0.1   fe80::1    one address
    10.0.0.1,10.0.0.2        several
    10.0.0.{1,2}  fe80::{1,a}    several that differ in the last part
    10.0.1-20.*   fe80:0:0:0:0:0:0:1-ff    a range of numbers, or any, in a part

RocketMQ stops to compare at the first range or wildcard, so that 192.*.1.2 lets 192.5.9.9 in. Here
every part counts. A pattern that RocketMQ takes and then fails on at every request is refused.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from checkback.protocol.errors import ConfigurationError

EVERYBODY: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})

Parts: TypeAlias = tuple[int, ...]
"""The numbers of an address: four, or eight of IPv6."""
Block: TypeAlias = tuple[range, ...]
"""The addresses in these ranges of numbers, one by one."""

_ANY_PART: Final = re.compile(r"\*")
_NUMBERS: Final = {
    4: re.compile(r"(0|[1-9][0-9]{0,2})(?:-(0|[1-9][0-9]{0,2}))?"),
    6: re.compile(r"([0-9a-fA-F]{1,4})(?:-([0-9a-fA-F]{1,4}))?"),
}
_BASES: Final = {4: 10, 6: 16}
_BIGGEST: Final = {4: 255, 6: 0xFFFF}
_PARTS: Final = {4: 4, 6: 8}
_SEPARATORS: Final = {4: ".", 6: ":"}
_LIKE_AN_ADDRESS: Final = re.compile(
    r"(?=[^.:]*[.:])[0-9a-fA-F]{0,4}(?:[.:*,{}/%-][0-9a-fA-F]{0,4})*", re.ASCII
)
"""Dots or colons, and few digits in a row: no secret."""
_SET: Final = re.compile(r"(?P<head>[^{},]+[.:])\{(?P<items>[0-9a-fA-F,]+)\}")


@dataclass(frozen=True, slots=True)
class RemoteAddressStrategy:
    """An address pattern that was found right.

    Args:
        has_everybody: whether every address matches, and an absent one too.
    """

    pattern: str
    addresses: frozenset[Parts] = frozenset()
    blocks: tuple[Block, ...] = ()
    has_everybody: bool = False

    @classmethod
    def parse(cls, pattern: str) -> RemoteAddressStrategy:
        """Read a pattern.

        Raises:
            ConfigurationError: it is no pattern, it could match no address, or RocketMQ would take
                it and fail on it later.
        """
        if not pattern.strip():
            return cls(pattern)
        if pattern in EVERYBODY:
            return cls(pattern, has_everybody=True)
        if re.search(r"\s", pattern):
            raise _refused(pattern, "has a blank in it", "Write it without blanks.")
        if "{" in pattern or "}" in pattern:
            return cls(pattern, frozenset(_set_of(pattern)))
        if "," in pattern:
            return cls(pattern, frozenset(_list_of(pattern)))
        if "*" in pattern or "-" in pattern:
            return cls(pattern, blocks=(_block_of(pattern),))
        return cls(pattern, frozenset({_single(pattern, pattern)}))

    @property
    def has_nobody(self) -> bool:
        """Whether no address matches."""
        return not (self.has_everybody or self.addresses or self.blocks)

    def match(self, address: str) -> bool:
        """Tell whether an address is one of the pattern's.

        An IPv4 address and its form in IPv6, ::ffff:10.0.0.1, are two addresses, as in RocketMQ.

        Args:
            address: as text, without a port; what is no address matches only a pattern for
                everybody.
        """
        if self.has_everybody:
            return True
        parts = _parts_of(address)
        return parts is not None and (
            parts in self.addresses or any(_is_inside(parts, block) for block in self.blocks)
        )


NO_ADDRESS: Final = RemoteAddressStrategy("")


def _is_inside(parts: Parts, block: Block) -> bool:
    return len(parts) == len(block) and all(
        part in numbers for part, numbers in zip(parts, block, strict=True)
    )


def _parts_of(address: str) -> Parts | None:
    """Return an address's numbers; None if it is none."""
    # A scope names a network card of one machine; such an address says nothing on another.
    if "%" in address:
        return None
    try:
        packed = ipaddress.ip_address(address).packed
    except ValueError:
        return None
    if len(packed) == _PARTS[4]:
        return tuple(packed)
    return tuple(int.from_bytes(packed[at : at + 2]) for at in range(0, len(packed), 2))


def _single(pattern: str, address: str) -> Parts:
    if "/" in address:
        raise _refused(
            pattern, "has a network in it", "Write a range: 10.0.0-255.* for 10.0.0.0/16."
        )
    parts = _parts_of(address)
    if parts is not None:
        return parts
    what = _shown(pattern, f"has {address!r} in it, which is", "has a part that is")
    raise _refused(pattern, f"{what} no IP address", "Correct it.")


def _list_of(pattern: str) -> list[Parts]:
    found = [_single(pattern, item) for item in pattern.split(",") if item]
    if not found:
        raise _refused(pattern, "has no address in it", "Leave it empty to let no address in.")
    return found


def _set_of(pattern: str) -> list[Parts]:
    shape = _SET.fullmatch(pattern)
    items = [item for item in shape["items"].split(",") if item] if shape else []
    if shape is None or not items:
        raise _refused(
            pattern,
            "has braces that are no set of last parts",
            "Write one set at the end: 10.0.0.{1,2}.",
        )
    return [_single(pattern, shape["head"] + item) for item in items]


def _block_of(pattern: str) -> Block:
    version = 6 if ":" in pattern else 4
    texts = pattern.split(_SEPARATORS[version]) if version == 4 else _groups(pattern)
    if len(texts) != _PARTS[version]:
        raise _refused(
            pattern,
            f"has {len(texts)} parts instead of {_PARTS[version]}",
            "Write all parts of the address.",
        )
    block = tuple(_numbers(pattern, version, text) for text in texts)
    if len(block[0]) != 1:
        raise _refused(pattern, "does not begin with a fixed part", "Write the first part out.")
    if version == 6:
        _check_groups(pattern, texts)
    return block


def _groups(pattern: str) -> list[str]:
    """Return the groups of an IPv6 pattern; ``::`` and a last ``*`` stand for those missing."""
    head, gap, tail = pattern.partition("::")
    first, last = (text.split(":") if text else [] for text in (head, tail))
    missing = _PARTS[6] - len(first) - len(last)
    if gap:
        if not first:
            raise _refused(pattern, "does not begin with a fixed part", "Write the first part out.")
        if missing < 1:
            raise _refused(pattern, "has too many parts for ::", "Write :: for one part at least.")
        return [*first, *["0"] * missing, *last]
    if first[-1] == "*":
        return first + ["*"] * missing
    return first


def _check_groups(pattern: str, texts: list[str]) -> None:
    """Refuse a range or wildcard that is followed by anything but wildcards."""
    opened = [("-" in text or text == "*") for text in texts]
    fixed = texts[: opened.index(True) + 1]
    if any(text != "*" for text in texts[len(fixed) :]):
        raise _refused(
            pattern,
            "has a fixed part or a range after one that is open",
            "In IPv6, put a range last, or before a last *.",
        )


def _numbers(pattern: str, version: int, text: str) -> range:
    """Return the numbers that a part stands for."""
    if _ANY_PART.fullmatch(text):
        return range(_BIGGEST[version] + 1)
    found = _NUMBERS[version].fullmatch(text)
    if found is None:
        raise _refused(
            pattern,
            f"{_part(pattern, text)} no number, no range and not *",
            "Correct this part.",
        )
    low, high = (int(number, _BASES[version]) for number in (found[1], found[2] or found[1]))
    if high > _BIGGEST[version]:
        raise _refused(
            pattern,
            f"{_part(pattern, text)} over the biggest number of a part",
            "Correct this part.",
        )
    if low > high:
        what = _shown(pattern, f"has the range {text!r}, which", "has a range that")
        raise _refused(pattern, f"{what} ends before it begins", "Turn it round.")
    return range(low, high + 1)


def _part(pattern: str, text: str) -> str:
    return _shown(pattern, f"has the part {text!r}, which is", "has a part that is")


def _shown(pattern: str, with_text: str, without: str) -> str:
    """Return what may be said: a secret that stands here by mistake must not get into a log."""
    return with_text if _LIKE_AN_ADDRESS.fullmatch(pattern) else without


def _refused(pattern: str, what: str, remedy: str) -> ConfigurationError:
    if not _shown(pattern, pattern, ""):
        return ConfigurationError(f"The address pattern {what}.", remedy=remedy)
    return ConfigurationError(
        f"The address pattern {pattern!r} {what}.", remedy=remedy, pattern=pattern
    )
