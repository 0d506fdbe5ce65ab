"""Address lists as one regular expression of Java's, for the compiled verification.

A producer states its address in full: 10.0.0.1, or eight groups of four small hexadecimal digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from checkback.security.addresses import Block, RemoteAddressStrategy

_V4_PARTS: Final = 4
_DIGITS: Final = "0123456789abcdef"
# No dollar and no dot: at line ends they do not mean what they mean elsewhere.
_ANYTHING: Final = r"[\s\S]*"
_END: Final = r"(?![\s\S])"
SEPARATOR: Final = "\n"
"""Stands between access key and address in the text that the expression is compared with."""


def address_pattern(
    everywhere: Iterable[RemoteAddressStrategy], by_account: Mapping[str, RemoteAddressStrategy]
) -> str:
    """Return an expression over access key, SEPARATOR and address; empty if none can match."""
    shared = [text for one in everywhere for text in _texts(one)]
    choices = [f"[^{SEPARATOR}]+{SEPARATOR}(?:{'|'.join(shared)})"] if shared else []
    for access_key, strategy in by_account.items():
        texts = _texts(strategy)
        if texts:
            choices.append(f"{re.escape(access_key)}{SEPARATOR}(?:{'|'.join(texts)})")
    return f"^(?:{'|'.join(choices)}){_END}" if choices else ""


def _texts(strategy: RemoteAddressStrategy) -> list[str]:
    if strategy.has_everybody:
        return [_ANYTHING]
    single = [tuple(range(part, part + 1) for part in parts) for parts in strategy.addresses]
    return [_block_text(block) for block in (*sorted(single, key=repr), *strategy.blocks)]


def _block_text(block: Block) -> str:
    if len(block) == _V4_PARTS:
        return r"\.".join(f"(?:{'|'.join(map(str, numbers))})" for numbers in block)
    return ":".join(_between(f"{numbers[0]:04x}", f"{numbers[-1]:04x}") for numbers in block)


def _between(low: str, high: str) -> str:
    """Return an expression for the numbers from low to high, both of as many digits."""
    if not low:
        return ""
    if low[0] == high[0]:
        return low[0] + _between(low[1:], high[1:])
    left = len(low) - 1
    choices = [low[0] + _between(low[1:], "f" * left), high[0] + _between("0" * left, high[1:])]
    inside = _DIGITS[_DIGITS.index(low[0]) + 1 : _DIGITS.index(high[0])]
    if inside:
        choices.append(f"[{inside}]" + "[0-9a-f]" * left)
    return f"(?:{'|'.join(choices)})"
