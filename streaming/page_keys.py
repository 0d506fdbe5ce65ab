"""The key of a page: what Spark groups events and state by.

Two things follow from it, and neither is Spark's to give. The state store walks its rows in the
order of their key's bytes: so the page's number comes first, with its own bytes reversed. And Spark
hands pages to state partitions by a hash (Murmur3), which is as even as a hash is: of the 122 pages
of a batch the fullest of 16 partitions had 1.69 times its share. So the second column is whatever
number makes the hash of both what it should be: pages counted through, those of one number in each
half partition after each other. Then they take turns, whatever the number of state partitions. The
half partition is read back out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

HALF_PARTITIONS_MAX: Final = 1 << 16
"""Pages of one number in two half partitions need keys of their own; Kafka has fewer partitions."""

_SEED: Final = 42
"""Of Spark's hash, for shuffles as for the function `hash` (HashPartitioning, Murmur3Hash)."""
_INT_BYTES: Final = 4
_LONG_BYTES: Final = 8
_LOW: Final = 0xFFFFFFFF

# Murmur3's constants, by what they are for; what undoes a multiplication is its inverse.
_BLOCK: Final = (0xCC9E2D51, 15, 0x1B873593)
_STEP: Final = (13, 5, 0xE6546B64)
_END: Final = (0x85EBCA6B, 0xC2B2AE35)


@dataclass(frozen=True, slots=True)
class PageKeys:
    """How a checkpoint's pages are keyed, for its life.

    Args:
        half_partitions: how many there were when the checkpoint was made. More may have come since:
            their pages have keys as well, only not in turn with the others. None: pages are keyed
            by the half partition itself, as those of older checkpoints.
    """

    half_partitions: int | None

    @property
    def columns(self) -> tuple[str, str]:
        """The columns to group by."""
        return "page_key", "partition" if self.half_partitions is None else "turn"

    def put_on(self, rows: DataFrame) -> DataFrame:
        """Return the rows with these columns, and without partition where it is not one of them.

        Args:
            rows: with page_key long and partition int, from 0 to HALF_PARTITIONS_MAX - 1.
        """
        if self.half_partitions is None:
            return rows
        return _with_turn(rows, self.half_partitions)

    def place_of(self, key: tuple[Any, ...]) -> tuple[int, int]:
        """Return the number and the half partition of the page with that key."""
        page_key, second = int(key[0]), int(key[1])
        page = page_of_key(page_key)
        if self.half_partitions is None:
            return page, second
        hashed = _hash_int(second, _hash_long(page_key, _SEED))
        return page, (hashed - page * self.half_partitions) % HALF_PARTITIONS_MAX


def page_key_of(page: Column) -> Column:
    """Return a page's number with its eight bytes reversed.

    The state store walks its rows in the order of their key's bytes, and Spark stores a number's
    lowest byte first. Reversed, the order of bytes is the order of pages: those whose time has come
    are called oldest first, so that the budget of check requests goes to the oldest.
    """
    key = f.lit(0)
    for byte in range(8):
        lowest = f.shiftright(page, 8 * byte).bitwiseAND(f.lit(0xFF))
        key = key.bitwiseOR(f.shiftleft(lowest.cast("long"), 56 - 8 * byte))
    return key


def page_of_key(key: int) -> int:
    """Return the number of the page whose key that is."""
    return int.from_bytes(key.to_bytes(8, "little", signed=True), "big", signed=True)


def _with_turn(rows: DataFrame, half_partitions: int) -> DataFrame:
    """Put the number that gives the hash of (page_key, turn) its wanted value for the partition.

    It is Murmur3 backwards from that value, as far as the hash of page_key, with 32-bit numbers in
    the lower half of 64. A plan is made anew for every batch: so what is needed twice is a column
    of its own only where copying it would take more.
    """
    low_bits = f.lit(HALF_PARTITIONS_MAX - 1)
    # A page's number is in its key; the lowest byte of one is the highest of the other.
    page = f.shiftrightunsigned("page_key", 56).bitwiseOR(
        f.shiftrightunsigned("page_key", 40).bitwiseAND(f.lit(0xFF00))
    )
    wanted = (page * half_partitions + f.col("partition")).bitwiseAND(low_bits)
    others = [name for name in rows.columns if name != "partition"]
    turn = f.col("turn")
    # Nothing is above the lowest 16 bits: the last step of the hash changes nothing.
    last = rows.select(*others, _times(wanted, _inverse(_END[1])).alias("turn"))
    mixed = last.select(*others, _before_end(turn).alias("turn"))
    return mixed.select(*others, _before_block(turn, f.hash("page_key")).alias("turn"))


def _before_end(number: Column) -> Column:
    """Undo what follows the mixing of the last block, and that mixing's sum and product."""
    third = number.bitwiseXOR(f.shiftright(number, 13)).bitwiseXOR(f.shiftright(number, 26))
    second = _times(third, _inverse(_END[0]))
    first = second.bitwiseXOR(f.shiftright(second, 16)).bitwiseXOR(f.lit(_INT_BYTES))
    return _times(first - f.lit(_STEP[2]), _inverse(_STEP[1]))


def _before_block(number: Column, hashed: Column) -> Column:
    """Return the block that makes of what was hashed before it that number."""
    block = _times(_rotated_back(number, _STEP[0]).bitwiseXOR(hashed), _inverse(_BLOCK[2]))
    unsigned = _times(_rotated_back(block, _BLOCK[1]), _inverse(_BLOCK[0]))
    return f.shiftright(f.shiftleft(unsigned, 32), 32).cast("int")


def _times(number: Column, factor: int) -> Column:
    """Multiply as 32-bit numbers do; by a signed factor, or Spark would find an overflow."""
    return (number * f.lit(_signed(factor))).bitwiseAND(f.lit(_LOW))


def _rotated_back(number: Column, bits: int) -> Column:
    rotated = f.shiftright(number, bits).bitwiseOR(f.shiftleft(number, 32 - bits))
    return rotated.bitwiseAND(f.lit(_LOW))


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


def _inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 32)


def _hash_long(number: int, seed: int) -> int:
    hashed = _with_block(seed, number & _LOW)
    return _ended(_with_block(hashed, number >> 32 & _LOW), _LONG_BYTES)


def _hash_int(number: int, seed: int) -> int:
    return _ended(_with_block(seed, number & _LOW), _INT_BYTES)


def _with_block(hashed: int, block: int) -> int:
    first, bits, last = _BLOCK
    hashed ^= _rotated(block * first & _LOW, bits) * last & _LOW
    bits, factor, added = _STEP
    return _rotated(hashed, bits) * factor + added & _LOW


def _ended(hashed: int, length: int) -> int:
    hashed ^= length
    hashed = (hashed ^ hashed >> 16) * _END[0] & _LOW
    hashed = (hashed ^ hashed >> 13) * _END[1] & _LOW
    return hashed ^ hashed >> 16


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _LOW
