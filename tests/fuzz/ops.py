"""Ops and feedback from a seed that belong to no half."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tests.fuzz.halves import NAMES_NO_TEXT, NAMES_WITH_NUL, ODD_NAMES, TIMES_MS
from tests.fuzz.places import HALF_PARTITIONS
from tests.fuzz.records import (
    NOWHERE,
    OP_AT_MOST_REFUSED,
    Expected,
    Header,
    Place,
    Record,
    op_headers,
    refused,
)

from checkback.protocol.refusals import RefusedReason as Reason

UNREADABLE: Final = (
    b"", None, b"abc", b"-5", b"9" * 30, b"0x10", b"\xff\xfe", b"12 monkeys",
    b"9223372036854775808", b"NaN", b"--1", bytes(8),
)  # fmt: skip
DOUBTFUL: Final = (b" 7", b"+7", b"7.0", b"1e3", "٣".encode(), b"007", b"7\n")
"""Offsets that one reader takes for numbers and another does not."""
FAR: Final = (2**31, 2**40, 2**53, 2**60, 2**62, 2**63 - 2, 2**63 - 1)
STATES: Final = (b"9", b"", None, b"commit", b"8 ", b"08", b"-8", b"\xff", b"8\0", b"16")
TAGS: Final = (b"u", b"t", b"x", b"", None, b"D", b"d ", b"\xff" * 9)


class OpMaker:
    """Makes ops that are refused whatever was written, and garbage for the feedback topic."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.kinds: tuple[Callable[[Record], Expected], ...] = (
            self._unreadable, self._doubtful, self._far, self._state, self._tag, self._blank,
            self._bad_name, self._noise, self._zeros, self._long_name, self._heavy,
        )  # fmt: skip

    def op(self) -> Record:
        """Return an op that names no half, or says nothing that counts."""
        chance = self.chance
        offset = b"%d" % chance.randrange(10**6, 10**6 + 500)
        headers = op_headers(chance.choice((b"8", b"12")), b"wild", b"%x" % chance.getrandbits(64))
        partition = chance.randrange(HALF_PARTITIONS)
        made = Record(Place.OP, Place.OP, partition, headers, NOWHERE, offset)
        make_wrong = chance.choice(self.kinds)
        made.kind = f"{Place.OP}:{make_wrong.__name__.strip('_')}"
        made.expected = make_wrong(made)
        if chance.random() < 0.2:
            made.timestamp_ms = chance.choice(TIMES_MS)
        return made

    def decorated(self, op: Record) -> Record:
        """Return an op with what changes no fate: of headers of one name the first counts."""
        luck = self.chance.random()
        if luck < 0.1:
            op.headers += [(name, b"other") for name, _ in op.headers]
        elif luck < 0.2:
            op.headers += [(self.chance.choice(ODD_NAMES).encode(), None) for _ in range(3)]
        elif luck < 0.25:
            op.headers += [(b"REMARK", self.chance.randbytes(2_000))] * 5
        elif luck < 0.4:
            op.key = self.chance.choice((None, b"", b"\0", b"\xff" * 2_000))
        return op

    def stranger(self) -> Record:
        """Return what means nothing on a topic that only the pipeline writes, and never reads."""
        chance = self.chance
        place = chance.choice((Place.SETTLED, Place.STATUS, Place.CHECK))
        value = chance.choice(
            (None, b"", b"\0", b"\1", b"\x09", b"{}", b"[" * 9_000, b'{"reject_transactions": 1}',
             chance.randbytes(99))
        )  # fmt: skip
        # The status topic is compacted and takes none without a key.
        keys = (b"", b"0:0", b"claim", b"status", b"\xff")
        key = chance.choice(keys if place is Place.STATUS else (*keys, None))
        many = chance.randrange(3)
        headers: list[Header] = [(b"__checkback.claim", b"{}"), (b"UNIQ_KEY", None)][:many]
        return Record(place, place, 0, headers, NOWHERE, value, key)

    def feedback(self) -> Record:
        """Return what a stranger writes where only the pipeline may: it is passed over."""
        chance = self.chance
        value = chance.choice((*UNREADABLE, *DOUBTFUL, b"%d" % chance.choice(FAR), b"3"))
        tag = chance.choice(TAGS)
        times = chance.choice((b"1", b"0", b"-1", b"9" * 30, b"", None, b"\xff"))
        headers = [(b"TAGS", tag), (b"TRANSACTION_CHECK_TIMES", times)][: chance.randrange(3)]
        partition = chance.randrange(HALF_PARTITIONS)
        return Record("feedback", Place.FEEDBACK, partition, headers, NOWHERE, value)

    def _unreadable(self, made: Record) -> Expected:
        made.value = self.chance.choice(UNREADABLE)
        return refused(Reason.OP_OFFSET_UNREADABLE)

    def _doubtful(self, made: Record) -> Expected:
        made.value = self.chance.choice(DOUBTFUL)
        return OP_AT_MOST_REFUSED

    def _far(self, made: Record) -> Expected:
        if self.chance.random() < 0.3:
            made.value = b"%d" % (self.chance.choice(FAR) - self.chance.randrange(5_000))
        return OP_AT_MOST_REFUSED

    def _state(self, made: Record) -> Expected:
        made.headers[1] = (b"COMMIT_OR_ROLLBACK", self.chance.choice(STATES))
        return refused(Reason.OP_STATE_UNKNOWN)

    def _heavy(self, made: Record) -> Expected:
        """Give it more than a record should have."""
        luck = self.chance.random()
        if luck < 0.4:
            made.headers += [(b"h%d" % one, b"v") for one in range(3_000)]
        elif luck < 0.7:
            made.key = bytes(500_000)
        else:
            made.headers[self.chance.choice((2, 3))] = (b"UNIQ_KEY", b"x" * 300_000)
        return OP_AT_MOST_REFUSED

    def _long_name(self, made: Record) -> Expected:
        size = 3_000_000 if self.chance.random() < 0.02 else 30_000
        at = self.chance.choice((2, 3))
        made.headers[at], made.compression = (made.headers[at][0], b"n" * size), "zstd"
        return self._far(made)

    def _tag(self, made: Record) -> Expected:
        made.headers[0] = (b"TAGS", self.chance.choice(TAGS))
        if self.chance.random() < 0.2:
            del made.headers[0]
        return refused(Reason.OP_TAG_UNKNOWN)

    def _blank(self, made: Record) -> Expected:
        place = self.chance.choice((2, 3))
        if self.chance.random() < 0.5:
            made.headers[place] = (made.headers[place][0], self.chance.choice((b"", None)))
        else:
            del made.headers[place]
        missing = (Reason.OP_WITHOUT_GROUP, Reason.OP_WITHOUT_TRANSACTION_ID)
        return refused(missing[place - 2])

    def _bad_name(self, made: Record) -> Expected:
        name = self.chance.choice((*NAMES_NO_TEXT, *NAMES_WITH_NUL))
        made.headers.insert(self.chance.randrange(6), (name, b"x"))
        return refused(Reason.OP_HEADER_NAME_INVALID)

    def _noise(self, made: Record) -> Expected:
        chance = self.chance
        many = range(chance.randrange(6))
        made.headers = [(chance.randbytes(7), chance.randbytes(9)) for _ in many]
        made.value, made.key = chance.randbytes(99), chance.randbytes(9)
        return refused(Reason.OP_TAG_UNKNOWN)

    def _zeros(self, made: Record) -> Expected:
        size = 9_000_000 if self.chance.random() < 0.02 else 100_000
        made.value, made.compression = bytes(size), self.chance.choice(("gzip", "zstd"))
        return refused(Reason.OP_OFFSET_UNREADABLE)
