"""The identity of a half and of an op: 96 bits that tell whether the two belong together.

Only this module knows the layout of the bits. The first word, of 64 bits, has a hash of the
producer group in its upper 16: it distinguishes a wrong group from a wrong transaction id, and
finds the halves of a group. The 80 bits below it and in the second word come from SHA-256 over
group and transaction id: a second transaction with the same identity can't be found.
streaming/java/EventIdentity.java makes identities in Spark; numpy takes them apart; Python makes
one to compare a record with.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

GROUP_BITS: Final = 16
"""The upper bits of the first word: a hash of the producer group."""
TRANSACTION_BITS: Final = 64 - GROUP_BITS
"""The lower bits of the first word: of the digest."""
SLICE: Final = 21
"""Of the digest's 64 hex digits, which are cut into three slices. Of each its CRC-32 is taken: a
hash of bytes that a sender can't choose. Spark's own functions computed it in a tenth of the time
that they take to read digits as a number."""
_LAST_BITS: Final = TRANSACTION_BITS - 32


def group_part(identity: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the groups' parts of first words; of two words' difference (^): 0 where alike."""
    return identity >> TRANSACTION_BITS


def identity_words(group: bytes, transaction_id: bytes) -> tuple[int, int]:
    """Return both words of a record's identity, as they stand in a page and in its outcomes."""
    digest = hashlib.sha256(b"%d:%b%b" % (len(group), group, transaction_id)).hexdigest().encode()
    first, rest, last = (zlib.crc32(digest[SLICE * at : SLICE * (at + 1)]) for at in range(3))
    group_hash = zlib.crc32(group) & 2**GROUP_BITS - 1
    lower = first << _LAST_BITS | last & 2**_LAST_BITS - 1
    word = group_hash << TRANSACTION_BITS | lower
    return word - 2**64 if word >= 2**63 else word, rest
