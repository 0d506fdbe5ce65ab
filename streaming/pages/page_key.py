"""The key of a page, by which Spark groups events and state.

The key decides two things. First, the state store walks its rows in the order of their keys' bytes.
So the first column is the page's number with its bytes reversed, and older pages come first.
Second, Spark assigns pages to state partitions by a hash (Murmur3), which spreads few pages
unevenly: of the 122 pages of a batch the fullest of 16 partitions had 1.69 times its share. So the
second column is a number computed to give both columns together a wanted hash. The wanted hashes
count pages through: page 0 of each half partition, then page 1 of each, and so on. So pages take
turns at the state partitions, however many there are. The half partition can be computed back from
the key. With order by key, pages do not take turns: the wanted hash is the half partition alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from checkback.checkpoints.own_files.identity import CheckpointIdentity
from checkback.checkpoints.spark_internals import call_for_rows
from checkback.protocol.configuration import ORDER_BY_KEY
from checkback.streaming.spark.java_classes import java_class

KEY_COLUMNS: Final = ("page_key", "turn")
"""The columns to group by."""
HALF_PARTITIONS_MAX: Final = 1 << 16
"""The limit of half partitions; Kafka allows fewer. Pages with the same number in different half
partitions need different keys."""
PAGE_KEYS: Final = "PageKeys"
"""The class that computes the second column, running Murmur3 backwards."""

_SEED: Final = 42
"""Seed of Spark's hash, both for shuffles and for the function `hash` (HashPartitioning,
Murmur3Hash)."""
_INT_BYTES: Final = 4
_LONG_BYTES: Final = 8
_LOW: Final = 0xFFFFFFFF

# Murmur3's constants by their purpose.
_BLOCK: Final = (0xCC9E2D51, 15, 0x1B873593)
_STEP: Final = (13, 5, 0xE6546B64)
_END: Final = (0x85EBCA6B, 0xC2B2AE35)


@dataclass(frozen=True, slots=True)
class PageKeys:
    """The keys of a checkpoint's pages; they never change.

    Args:
        step: how much the wanted hash grows from a page to the next of the same half partition.
    """

    step: int

    @classmethod
    def of(cls, identity: CheckpointIdentity) -> PageKeys:
        """Return the keys of a checkpoint.

        With order, all pages of a half partition want the same hash, so one state partition has
        them and writes their finals one batch after the other. Without it the step is the number
        of half partitions when the checkpoint was made. Pages of partitions that were added later
        have keys, too, but do not take turns with the others.
        """
        keeps_order = identity.order == ORDER_BY_KEY
        return cls(0 if keeps_order else identity.half_partitions)

    def put_on(self, rows: DataFrame) -> DataFrame:
        """Return the rows with KEY_COLUMNS, and without partition.

        Args:
            rows: have page_key long, and partition int from 0 to HALF_PARTITIONS_MAX - 1.
        """
        made = java_class(rows.sparkSession, PAGE_KEYS)(self.step)
        key = [f.col("page_key"), f.col("partition")]
        turn = call_for_rows(rows.sparkSession, made, "turn", "int", key)
        return rows.withColumn("turn", turn).drop("partition")

    def place_of(self, key: tuple[Any, ...]) -> tuple[int, int]:
        """Return the number and the half partition of the page with this key."""
        page_key, turn = int(key[0]), int(key[1])
        page = page_of_key(page_key)
        hashed = _hash_int(turn, _hash_long(page_key, _SEED))
        return page, (hashed - page * self.step) % HALF_PARTITIONS_MAX


def page_key_of(page: Column) -> Column:
    """Return a page's number with its eight bytes reversed.

    The state store walks its rows in the order of their keys' bytes, and Spark stores a number's
    lowest byte first. With reversed bytes that is the order of pages. So Spark calls due pages
    oldest first, and the oldest halves get the batch's check requests.
    """
    key = f.lit(0)
    for byte in range(8):
        lowest = f.shiftright(page, 8 * byte).bitwiseAND(f.lit(0xFF))
        key = key.bitwiseOR(f.shiftleft(lowest.cast("long"), 56 - 8 * byte))
    return key


def page_of_key(key: int) -> int:
    """Return the number of the page with this key."""
    return int.from_bytes(key.to_bytes(8, "little", signed=True), "big", signed=True)


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
