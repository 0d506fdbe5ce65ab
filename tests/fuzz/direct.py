"""Direct halves from a seed: healthy ones that are delivered, and all that can be said of others.

Nobody can tell from a delivered op whether its final was written, so halves that a stranger says
are delivered end nowhere.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from tests.fuzz.halves import HalfMaker
from tests.fuzz.places import GROUPS, HEALTHY_GROUP
from tests.fuzz.records import (
    FINAL,
    NOWHERE,
    UNSETTLED,
    Expected,
    Fate,
    Moment,
    Place,
    Said,
    Transaction,
    refused,
)
from tests.fuzz.talks import AFTER_COMMIT, COMMIT, ROLLBACK, UNKNOWN

from checkback.protocol.direct import direct_transactional_id
from checkback.protocol.properties import HALF_PROTOCOL_ORDER
from checkback.protocol.refusals import RefusedReason as Reason

DELIVERED: Final = b"9"
FENCE_TAG: Final = b"f"
SESSIONS_OF_GROUP: Final = 6
"""Of wild groups: each is fenced once, and that takes its time."""
IN_ORDER: Final = len(HALF_PROTOCOL_ORDER)
OWN: Final = (b"own",)
"""In the tables below: DIRECT_CLOSED, with whatever chance makes of its value; never nothing."""
BEFORE, AFTER, EARLY = Moment.BEFORE_DELIVERY, Moment.AFTER, Moment.BEFORE_HALF


def refused_or_nowhere(*reasons: Reason) -> Expected:
    """Return that a record is refused, or waits for a half whose verdict is forgotten."""
    fates = frozenset({Fate.REFUSED, Fate.NOWHERE})
    return Expected(fates, frozenset(one.name for one in reasons))


LATE: Final = refused_or_nowhere(Reason.DELIVERED_AFTER_COMMIT)
LATE_AFTER_ROLLBACK: Final = refused_or_nowhere(Reason.DELIVERED_AFTER_ROLLBACK)
LATE_AFTER_DISCARD: Final = refused_or_nowhere(Reason.DELIVERED_AFTER_DISCARD)
OF_OTHERS: Final = refused(Reason.OP_GROUP_WRONG)
OF_ANOTHER: Final = refused(Reason.OP_TRANSACTION_ID_WRONG)
OPEN: Final = refused_or_nowhere(Reason.ROLLBACK_AFTER_COMMIT, Reason.OP_WITHOUT_HALF)
"""A rollback that closes no session and stands on the other topic: which is read first is open."""


def direct(state: bytes, expected: Expected, moment: Moment = AFTER, **said: object) -> Said:
    """Return what an op on the direct op topic says."""
    return Said(state, expected, moment, place=Place.DIRECT_OP, **said)  # type: ignore[arg-type]


def forged_fence(moment: Moment = BEFORE) -> Said:
    """Return feedback that only the pipeline may write: it is passed over."""
    return direct(UNKNOWN, NOWHERE, moment, tag=FENCE_TAG)


ATTACKS: Final = (
    forged_fence(BEFORE),
    forged_fence(AFTER),
    forged_fence(EARLY),
    direct(DELIVERED, OF_OTHERS, BEFORE, group=b"wild"),
    direct(DELIVERED, OF_ANOTHER, BEFORE, transaction_id=b"other"),
    direct(ROLLBACK, OF_OTHERS, BEFORE, group=b"wild", closed=OWN),
    direct(ROLLBACK, NOWHERE, BEFORE),
    direct(UNKNOWN, NOWHERE, BEFORE, transaction_id=b"other", closed=OWN),
    direct(UNKNOWN, NOWHERE, BEFORE, closed=OWN),
    direct(DELIVERED, LATE, AFTER),
    direct(DELIVERED, LATE, AFTER, closed=OWN),
    direct(ROLLBACK, AFTER_COMMIT, AFTER, closed=OWN),
    direct(COMMIT, NOWHERE, AFTER, closed=OWN),
    Said(ROLLBACK, OPEN, BEFORE),
    Said(ROLLBACK, OPEN, BEFORE, closed=OWN),
    Said(DELIVERED, refused(Reason.OP_STATE_UNKNOWN), BEFORE),
)
"""What strangers say of a healthy direct half."""

TALKS: Final = (
    ("delivered", (direct(DELIVERED, NOWHERE),), NOWHERE),
    ("delivered early", (direct(DELIVERED, NOWHERE, EARLY),), NOWHERE),
    ("delivered and closed", (direct(DELIVERED, NOWHERE, closed=OWN),), NOWHERE),
    ("delivered twice", (direct(DELIVERED, NOWHERE), direct(DELIVERED, LATE)), NOWHERE),
    (
        "delivered, then answered",
        (direct(DELIVERED, NOWHERE), direct(COMMIT, NOWHERE, closed=OWN)),
        NOWHERE,
    ),
    (
        "delivered, then rolled back",
        (direct(DELIVERED, NOWHERE), direct(ROLLBACK, AFTER_COMMIT, closed=OWN)),
        NOWHERE,
    ),
    (
        "rolled back, then delivered",
        (direct(ROLLBACK, NOWHERE, closed=OWN), direct(DELIVERED, LATE_AFTER_ROLLBACK)),
        NOWHERE,
    ),
    ("answered", (direct(COMMIT, NOWHERE, closed=OWN),), FINAL),
    ("answered early", (direct(COMMIT, NOWHERE, EARLY, closed=OWN),), FINAL),
    (
        "answered, then delivered",
        (direct(COMMIT, NOWHERE, closed=OWN), direct(DELIVERED, LATE)),
        FINAL,
    ),
    ("shuffled", (direct(COMMIT, NOWHERE, closed=(b"x",), is_shuffled=True),), FINAL),
    ("closed twice", (direct(COMMIT, NOWHERE, closed=(b"a", b"b")),), FINAL),
    ("open", (direct(COMMIT, NOWHERE), direct(ROLLBACK, NOWHERE)), UNSETTLED),
    (
        "closed by nobody",
        (
            direct(COMMIT, NOWHERE, closed=(b"",)),
            direct(COMMIT, NOWHERE, closed=(None,)),
            direct(ROLLBACK, NOWHERE, closed=(None,), is_shuffled=True),
        ),
        UNSETTLED,
    ),
    ("open early", (direct(COMMIT, NOWHERE, EARLY),), UNSETTLED),
    ("closed without a verdict", (direct(UNKNOWN, NOWHERE, closed=OWN),), UNSETTLED),
    ("unknown", (direct(UNKNOWN, NOWHERE),), UNSETTLED),
    ("silent", (), UNSETTLED),
    ("silent, and fences forged", (forged_fence(BEFORE), forged_fence(AFTER)), UNSETTLED),
    ("on the op topic", (Said(COMMIT, NOWHERE), Said(ROLLBACK, NOWHERE, closed=OWN)), UNSETTLED),
    (
        "forged fences",
        (forged_fence(EARLY), forged_fence(BEFORE), direct(COMMIT, NOWHERE, closed=OWN)),
        FINAL,
    ),
    (
        "of others",
        (
            direct(DELIVERED, OF_OTHERS, group=b"other"),
            direct(DELIVERED, OF_ANOTHER, transaction_id=b"x" * 3_000),
            direct(COMMIT, OF_OTHERS, group=b"other", closed=OWN),
            direct(ROLLBACK, NOWHERE, closed=OWN),
        ),
        NOWHERE,
    ),
)
"""What is said of a direct half, what becomes of each op and of the half."""

PLAIN_TALKS: Final = (
    ("committed as a direct one", (direct(COMMIT, NOWHERE),), FINAL),
    ("rolled back as a direct one", (direct(ROLLBACK, NOWHERE, closed=OWN),), NOWHERE),
    ("delivered, of no session", (direct(DELIVERED, NOWHERE),), NOWHERE),
    ("plain and fenced", (forged_fence(BEFORE), Said(COMMIT, NOWHERE)), FINAL),
    ("closed on the op topic", (Said(COMMIT, NOWHERE, closed=OWN),), FINAL),
    (
        "delivered on the op topic",
        (Said(DELIVERED, refused(Reason.OP_STATE_UNKNOWN)), Said(COMMIT, NOWHERE)),
        FINAL,
    ),
    (
        "delivered by others",
        (
            direct(DELIVERED, OF_OTHERS, BEFORE, group=b"other"),
            direct(COMMIT, NOWHERE),
        ),
        FINAL,
    ),
)
"""What is said on the direct op topic of a plain half."""


class DirectMaker:
    """Makes direct halves, and ops of direct halves for plain ones.

    Args:
        chance: where all that is random comes from.
        halves: makes plain ones.

    Attributes:
        session: the one that delivers healthy halves.
        others: ids of producers that have nothing to do with a half.
    """

    def __init__(self, chance: Random, halves: HalfMaker) -> None:
        self.chance = chance
        self.halves = halves
        self.session = b"nobody's"
        self.others: list[bytes] = [b"checkback-0"]
        self._sessions = [b"%032x" % chance.getrandbits(128) for _ in range(SESSIONS_OF_GROUP)]

    def healthy(self) -> Transaction:
        """Return a transaction that has to be final in time, whoever writes the final."""
        made = self.halves.plain("healthy direct", HEALTHY_GROUP.encode())
        made.is_healthy = True
        made.half.headers.insert(IN_ORDER, (b"DIRECT_ID", self.session))
        luck = self.chance.random()
        if luck < 0.75:
            made.said = [direct(DELIVERED, NOWHERE, Moment.DELIVERY)]
        else:
            # Its owner falls back, some of them after a transaction that was aborted.
            made.said = [direct(COMMIT, NOWHERE, closed=(self.session,))]
            if luck < 0.88:
                made.said.insert(0, direct(DELIVERED, NOWHERE, Moment.ABORTED))
        if self.chance.random() < 0.4:
            self._attack(made)
        return made

    def wild(self) -> Transaction:
        """Return any other transaction with direct ops."""
        chance = self.chance
        group = chance.choice([*GROUPS, "wild", "mute", "not a name/"]).encode()
        made = self.halves.plain("direct", group)
        is_plain = chance.random() < 0.25
        name, said, expected = chance.choice(PLAIN_TALKS if is_plain else TALKS)
        made.half.kind, made.half.expected = f"direct: {name}", expected
        made.said = self._closing(said)
        at = chance.choice((IN_ORDER, IN_ORDER, IN_ORDER, 0, 2))
        if not is_plain:
            made.half.headers.insert(at, (b"DIRECT_ID", self.session_id(group)))
        elif chance.random() < 0.3:
            made.half.headers.insert(at, (b"DIRECT_ID", chance.choice((b"", None))))
        if chance.random() < 0.3:
            self.halves.decorate(made)
        return made

    def _attack(self, made: Transaction) -> None:
        attack = self.chance.choice(ATTACKS)
        at = len(made.said) if attack.moment is AFTER else 0
        made.said[at:at] = self._closing((attack,))

    def _closing(self, said: tuple[Said, ...]) -> list[Said]:
        values = (b"x", self.session, b"\xff\xfe", b"long" * 3_000, b"\0")
        return [
            replace(one, closed=(self.chance.choice(values),)) if one.closed == OWN else one
            for one in said
        ]

    def session_id(self, group: bytes) -> bytes:
        """Return the id that a wild half names: one of its group, or what can't be one."""
        chance = self.chance
        own = direct_transactional_id(
            self.halves.names.prefix, group.decode(), chance.choice(self._sessions).decode()
        ).encode()
        luck = chance.random()
        if luck < 0.6:
            return own
        if luck < 0.62:
            return chance.choice((b"x" * 100_000, b"\xff" * 900_000, own[:-32] + b"0" * 2_500_000))
        shapes = (
            b"x", own[:-1], own + b"0", own.upper(), own[:-32], own[:-1] + b"g", b"\xff\xfe",
            own + b"\n", b"\0" + own, own.replace(b"direct", b"plain"), own + b"\0",
        )  # fmt: skip
        others = (self.session, *self.others)
        return chance.choice((*shapes, *others))
