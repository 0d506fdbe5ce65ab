"""Halves from a seed: healthy, of every malformed kind, and of kinds that nobody can place."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tests.fuzz.places import GROUPS, HALF_PARTITIONS, HEALTHY_GROUP, MAX_MESSAGE_BYTES, Places
from tests.fuzz.records import (
    DELIVERED_OR_REFUSED,
    FINAL,
    VANISHED_OR_REFUSED,
    Expected,
    Header,
    Moment,
    Place,
    Record,
    Said,
    Transaction,
    refused,
)
from tests.fuzz.talks import (
    AFTER_COMMIT,
    AFTER_COMMIT_OF_OTHERS,
    COMMIT,
    FINAL_OP,
    OP_OF_NO_HALF,
    ROLLBACK,
    TALKS,
)

from checkback.protocol.refusals import RefusedReason as Reason
from checkback.protocol.topics import SYSTEM_TOPICS, TopicNames

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
TIMES_MS: Final = (0, 1, 946_684_800_000, 4_102_444_800_000, 2**62, 2**63 - 1)
IMMUNITY: Final = (
    b"", b"0", b"1", b"30", b"-1", b"999999999999", b"9999999999999", b"9" * 3_000, b"1.5", b"soon",
    b" 5 ", b"1e9", b"\xff\xfe", "٣".encode(), b"+5", b"-0", b"0" * 12, b"0x10", b"1_0", b"5\n",
    None,
)  # fmt: skip
QUEUES: Final = (
    b"0", b"1", b"7", b"-1", b"2147483647", b"2147483648", b"9" * 5_000, b"", b"one", b" 1", b"1.0",
    b"\x00\x01", b"\xff", b"+1", b"-0", b"1 ", b"1_0", b"0x1", b"1e0", b"0000000001",
    "\u0661".encode(), "\uff11".encode(), b"1\n", None,
)  # fmt: skip
ODD_NAMES: Final = (
    "", " ", "\t", "\x1b[2J", "\x7f", "n" * 9_000, "é", "e\u0301", "\ufeff", "\u2028", "\u202ereal",
    "\U0001f600", "\U0010ffff", "\ud7ff", "\uff46", "real_topic", "REAL_TOPIC ", "PGROUP\u200b",
    "\uff30GROUP",
)  # fmt: skip
"""Names that are text, and none of the protocol's."""
REPLACED: Final = "a\ufffd".encode()
"""What the JVM makes of a name that is no text; here it is one."""
GROUPS_OF_ANY_NAME: Final = (
    b"mute", b"not a name/", "\x1b[2J\nevil\u202e".encode(), b" ", b"a b", b"\t", b"a\0b",
    b"\xff\xfe", b"g" * 255, "g\u0301".encode(), b'"}{\\', b"..", b"__consumer_offsets",
)  # fmt: skip
NAMES: Final = frozenset({b"PGROUP", b"UNIQ_KEY", b"REAL_TOPIC", b"TRAN_MSG"})
NAMES_NO_TEXT: Final = (b"\xe9t\xe9", b"\xff", b"\xc3", b"a\xf0\x28\x8c\x28")
NAMES_WITH_NUL: Final = (b"REAL_TOPIC\0x", b"\0", b"PGROUP\0", b"mine\0mine")
ILLEGAL_TOPICS: Final = (
    b"a b", b"a/b", b"..", b".", b"\xff\xfe", b"a\0b", "größe".encode(), b" ", b"\n", b"a:b",
)  # fmt: skip


class HalfMaker:
    """Makes halves, and says what has to become of each.

    Args:
        chance: where all that is random comes from.
        places: real topics.
        names: the topics of Checkback.
    """

    def __init__(self, chance: Random, places: Places, names: TopicNames) -> None:
        self.chance = chance
        self.places = places
        self.names = names
        self.count = 0
        self.refusals: tuple[Callable[[Transaction], Expected], ...] = (
            self._not_a_half, self._blank, self._system_topic, self._long_topic, self._long_name,
            self._no_body,
            self._counted, self._bad_name, self._noise,
        )  # fmt: skip
        self.verdicts: tuple[Callable[[Transaction], Expected], ...] = (
            self._missing_topic, self._illegal_topic, self._too_large_a_final, self._keyless,
            self._limited_in_time, self._changing_limit, self._vanishing_topic, self._longest_topic,
        )  # fmt: skip

    def healthy(self) -> Transaction:
        """Return a transaction that has to be final in time."""
        made = self.plain("healthy", HEALTHY_GROUP.encode())
        made.is_healthy = True
        made.said = [Said(COMMIT, FINAL_OP)]
        self._attack(made)
        return made

    def wild(self) -> Transaction:
        """Return any other transaction."""
        chance = self.chance
        kind = chance.random()
        known = [name.encode() for name in GROUPS]
        made = self.plain("wild", chance.choice([*known, *known, *GROUPS_OF_ANY_NAME]))
        if kind < 0.4:
            self._refused(made)
        elif kind < 0.65:
            self._settled_badly(made)
        elif kind < 0.97:
            self._talked_about(made)
        else:
            self._huge(made)
        if chance.random() < 0.5:
            self.decorate(made)
        return made

    def plain(self, kind: str, group: bytes) -> Transaction:
        """Return a transaction that is in order, of which nothing is said yet."""
        chance = self.chance
        self.count += 1
        own_id = b"%d-%x" % (self.count, chance.getrandbits(64))
        if kind == "wild" and chance.random() < 0.05:
            own_id = own_id.ljust(1_024, chance.choice((b"x", b" ", b"\0", b"\xff")))
        body = chance.randbytes(chance.choice((1, 20, 200)))
        headers: list[Header] = [
            (b"TRAN_MSG", b"true"),
            (b"PGROUP", group),
            (b"UNIQ_KEY", own_id),
            (b"REAL_TOPIC", self.places.healthy.encode()),
            (b"CHECK_IMMUNITY_TIME_IN_SECONDS", b""),
        ]
        key = chance.choice((None, b"", b"\0", *[b"k%d" % chance.randrange(9)] * 3))
        partition = chance.randrange(HALF_PARTITIONS)
        half = Record(kind, Place.HALF, partition, headers, FINAL, body, key)
        return Transaction(half, group, own_id)

    def _attack(self, made: Transaction) -> None:
        """Let strangers speak of a healthy half, before its commit and after."""
        luck = self.chance.random()
        if luck < 0.05:
            made.said.insert(0, Said(ROLLBACK, refused(Reason.OP_GROUP_WRONG), group=b"wild"))
        elif luck < 0.1:
            wrong_id = refused(Reason.OP_TRANSACTION_ID_WRONG)
            made.said.insert(0, Said(ROLLBACK, wrong_id, transaction_id=b"other"))
        elif luck < 0.15:
            made.said.append(Said(ROLLBACK, AFTER_COMMIT))
        elif luck < 0.2:
            made.said.append(Said(ROLLBACK, AFTER_COMMIT_OF_OTHERS, group=b"wild"))

    def _refused(self, made: Transaction) -> None:
        made_wrong = self.chance.choice(self.refusals)
        made.half.kind = made_wrong.__name__.strip("_")
        made.half.expected = made_wrong(made)
        if self.chance.random() < 0.1:
            made.said = [Said(COMMIT, OP_OF_NO_HALF)]

    def _settled_badly(self, made: Transaction) -> None:
        made_wrong = self.chance.choice(self.verdicts)
        made.half.kind = made_wrong.__name__.strip("_")
        made.half.expected = made_wrong(made)
        is_early = self.chance.random() < 0.1
        moment = Moment.BEFORE_HALF if is_early else Moment.AFTER
        made.said = [Said(COMMIT, FINAL_OP, moment)]

    def _talked_about(self, made: Transaction) -> None:
        """Give a half that is in order ops of every kind."""
        name, said, expected = self.chance.choice(TALKS)
        made.half.kind, made.half.expected, made.said = name, expected, list(said)

    def _huge(self, made: Transaction) -> None:
        chance = self.chance
        half = made.half
        made.said = [Said(COMMIT, FINAL_OP)]
        luck = chance.random()
        half.kind, half.expected = "huge", DELIVERED_OR_REFUSED
        if luck < 0.1:
            size = chance.choice((MAX_MESSAGE_BYTES + 1, 9_000_000, 30_000_000))
            half.value, half.compression = bytes(size), chance.choice(("gzip", "zstd"))
            half.expected = refused(Reason.HALF_BODY_TOO_LARGE)
            made.said = []
        elif luck < 0.2:
            half.value, half.compression = bytes(MAX_MESSAGE_BYTES), "zstd"
        elif luck < 0.3:
            half.key = bytes(1_000_000)
        elif luck < 0.6:
            half.value = chance.randbytes(100_000)
        elif luck < 0.98:
            half.headers += [(b"h%d" % one, b"v") for one in range(3_000)]
        else:
            half.headers += [(b"h%d" % one, b"") for one in range(120_000)]
            half.expected = refused(Reason.HALF_UNREADABLE)

    def decorate(self, made: Transaction) -> None:
        """Add what changes no fate."""
        chance, half = self.chance, made.half
        luck = chance.randrange(8)
        if luck == 0:
            half.headers += [
                (b"REAL_QID", chance.choice(QUEUES)) for _ in range(chance.choice((1, 1, 3)))
            ]
        elif luck == 1:
            self._replace(half, b"CHECK_IMMUNITY_TIME_IN_SECONDS", chance.choice(IMMUNITY))
        elif luck == 2:
            half.timestamp_ms = chance.choice(TIMES_MS)
        elif luck == 3 and half.compression == "none":  # else no broker may take it without
            half.compression = chance.choice(COMPRESSIONS)
        elif luck == 4:
            half.headers.append((b"__checkback.errors.reason", b"HALF_LOST"))
            half.headers.append((b"TRAN_HALF_QUEUE_ID", b"-7"))
        elif luck == 5:  # of headers of one name the first counts
            half.headers += [(name, b"again") for name, _ in half.headers if name in NAMES]
        elif luck == 6:
            half.headers += [(chance.choice(ODD_NAMES).encode(), b"\n") for _ in range(3)]
        else:
            half.headers += [(b"n%d" % one, chance.randbytes(9)) for one in range(20)]

    def _replace(self, half: Record, name: bytes, value: bytes | None) -> None:
        half.headers = [(one, value if one == name else kept) for one, kept in half.headers]

    def _without(self, half: Record, name: bytes) -> None:
        half.headers = [one for one in half.headers if one[0] != name]

    def _not_a_half(self, made: Transaction) -> Expected:
        wrong = self.chance.choice((b"True", b"", None, b"false", b"true ", b"1", "missing"))
        if isinstance(wrong, str):
            self._without(made.half, b"TRAN_MSG")
        elif self.chance.random() < 0.3:
            made.half.headers.insert(0, (b"TRAN_MSG", wrong))
        else:
            self._replace(made.half, b"TRAN_MSG", wrong)
        return refused(Reason.NOT_A_HALF)

    def _blank(self, made: Transaction) -> Expected:
        name, reason = self.chance.choice(BLANKS)
        wrong = self.chance.choice((b"", None, "missing"))
        if isinstance(wrong, str):
            self._without(made.half, name)
        else:
            self._replace(made.half, name, wrong)
        return refused(reason)

    def _system_topic(self, made: Transaction) -> Expected:
        own = (self.names.settled, self.names.half, self.names.check("wild"), "__x", "rmq_sys_y")
        name = self.chance.choice((*sorted(SYSTEM_TOPICS), *own))
        prefix = self.chance.choice(("", self.names.prefix))
        full = name if name.startswith(self.names.prefix) else prefix + name
        self._replace(made.half, b"REAL_TOPIC", full.encode())
        return refused(Reason.HALF_FOR_SYSTEM_TOPIC)

    def _long_topic(self, made: Transaction) -> Expected:
        length = self.chance.choice((128, 249, 250, 5_000, 60_000))
        self._replace(made.half, b"REAL_TOPIC", b"t" * length)
        return refused(Reason.HALF_TOPIC_TOO_LONG)

    def _long_name(self, made: Transaction) -> Expected:
        name, longest = self.chance.choice(((b"PGROUP", 255), (b"UNIQ_KEY", 1_024)))
        length = longest + self.chance.choice((1, 100, 60_000))
        if self.chance.random() < 0.05:
            length, made.half.compression = 3_000_000, "zstd"
        self._replace(made.half, name, b"n" * length)
        return refused(Reason.HALF_NAME_TOO_LONG)

    def _no_body(self, made: Transaction) -> Expected:
        made.half.value = b""
        return refused(Reason.HALF_BODY_EMPTY)

    def _counted(self, made: Transaction) -> Expected:
        value = self.chance.choice((b"1", b"", None, b"-3", b"99999"))
        made.half.headers.append((b"TRANSACTION_CHECK_TIMES", value))
        return refused(Reason.HALF_WITH_CHECK_TIMES)

    def _bad_name(self, made: Transaction) -> Expected:
        name = self.chance.choice((*NAMES_NO_TEXT, *NAMES_WITH_NUL, REPLACED))
        place = self.chance.randrange(len(made.half.headers) + 1)
        made.half.headers.insert(place, (name, b"x"))
        return refused(Reason.HALF_HEADER_NAME_INVALID)

    def _noise(self, made: Transaction) -> Expected:
        chance = self.chance
        many = range(chance.randrange(6))
        made.half.headers = [(chance.randbytes(7), chance.randbytes(9)) for _ in many]
        made.half.value, made.half.key = chance.randbytes(99), chance.randbytes(9)
        return refused(Reason.NOT_A_HALF)

    def _missing_topic(self, made: Transaction) -> Expected:
        number = b"-%d" % self.count if self.chance.random() < 0.02 else b""
        self._replace(made.half, b"REAL_TOPIC", self.places.missing.encode() + number)
        return refused(Reason.REAL_TOPIC_MISSING)

    def _illegal_topic(self, made: Transaction) -> Expected:
        self._replace(made.half, b"REAL_TOPIC", self.chance.choice(ILLEGAL_TOPICS))
        return refused()

    def _too_large_a_final(self, made: Transaction) -> Expected:
        self._replace(made.half, b"REAL_TOPIC", self.places.small.encode())
        made.half.value = self.chance.randbytes(3_000)
        return refused(Reason.FINAL_TOO_LARGE)

    def _keyless(self, made: Transaction) -> Expected:
        self._replace(made.half, b"REAL_TOPIC", self.places.compacted.encode())
        has_key = made.half.key is not None
        return DELIVERED_OR_REFUSED if has_key else refused(Reason.FINAL_REJECTED)

    def _limited_in_time(self, made: Transaction) -> Expected:
        self._replace(made.half, b"REAL_TOPIC", self.places.aged.encode())
        return FINAL

    def _changing_limit(self, made: Transaction) -> Expected:
        self._replace(made.half, b"REAL_TOPIC", self.places.changing.encode())
        made.half.value = self.chance.randbytes(3_000)
        return DELIVERED_OR_REFUSED

    def _vanishing_topic(self, made: Transaction) -> Expected:
        self._replace(made.half, b"REAL_TOPIC", self.places.vanishing.encode())
        return VANISHED_OR_REFUSED

    def _longest_topic(self, made: Transaction) -> Expected:
        self._replace(made.half, b"REAL_TOPIC", self.places.missing.encode().ljust(127, b"t"))
        return refused(Reason.REAL_TOPIC_MISSING)


BLANKS: Final = (
    (b"PGROUP", Reason.HALF_WITHOUT_GROUP),
    (b"UNIQ_KEY", Reason.HALF_WITHOUT_TRANSACTION_ID),
    (b"REAL_TOPIC", Reason.HALF_WITHOUT_REAL_TOPIC),
)
