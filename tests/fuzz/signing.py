"""Signs records right before they are written, rightly or in a way that nobody may believe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from tests.fuzz.accounts import (
    ADMIN,
    EVERYBODYS_ADDRESS,
    LISTED,
    NO_GROUP,
    NO_TOPIC,
    OLD_ADMIN,
    OWN_ADDRESS,
    OWNER,
    PUBLISHER,
    READER,
    SECOND_SECRET,
    secret_of,
    signer,
)
from tests.fuzz.records import Header, Place, Record, Trust, refused

from checkback.protocol.properties import HALF_PROTOCOL_ORDER, OP_PROTOCOL_ORDER
from checkback.protocol.refusals import RefusedReason as Reason
from checkback.security import SignatureAlgorithm
from checkback.security.record_signer import RecordSigner

VERIFIED: Final = frozenset({Place.HALF, Place.OP})
IN_ORDER: Final = len(OP_PROTOCOL_ORDER)
LATE_MS: Final = (-400_000.0, 400_000.0, 10**9)
ODD_TIMES: Final = (
    b"01", b"00", b"-1", b"+1", b"1" * 14, b"1.0", b"1e9", b"\xd9\xa3", b"0x1", b"\0", b"now",
    b"1\n", b"\xff", b"9" * 5_000,
)  # fmt: skip
ODD_SIGNATURES: Final = (b"", None, b" ", b"  ", b"1", b"1 2", b" 1 2", b"1  2", b"1 2 ", b"\xff")
ODD_KEYS: Final = (
    "nobody-at-all", "Administrators", "administrators\ufe0f", "админы", "k" * 9_000, "'\"]}{[\\",
)  # fmt: skip


def is_in_order(record: Record) -> bool:
    """Tell whether a record's first headers are those of the protocol: no other can be signed."""
    order = HALF_PROTOCOL_ORDER if record.place is Place.HALF else OP_PROTOCOL_ORDER
    return [name for name, _ in record.headers[:IN_ORDER]] == [name.encode() for name in order]


class Signing:
    """Signs each record by how far it is trusted, and says what becomes of one that is not.

    Args:
        chance: decides the account, and what is wrong.
        topics: what stands where.
    """

    def __init__(self, chance: Random, topics: Mapping[Place, str]) -> None:
        self.chance = chance
        self.topics = topics
        self._copied: dict[Place, Header] = {}
        always: tuple[Callable[[Record], Reason], ...] = (
            self._unsigned, self._not_at_the_end, self._exchanged, self._odd_signature,
            self._odd_time, self._unknown, self._wrong_secret, self._elsewhere, self._other_value,
            self._other_header, self._other_key, self._another_header, self._cut, self._copy,
            self._by_no_group, self._by_an_operator,
        )  # fmt: skip
        self.of_halves = (*always, self._late, self._by_no_topic)
        self.of_ops = (*always, self._as_an_answer)

    def prepare(self, record: Record) -> None:
        """Sign a record, or do what a stranger does; then its topic decides what becomes of it."""
        if record.place not in VERIFIED:
            return
        if not is_in_order(record):
            self._sign(record, self._believed(record.place))
            record.expected = refused(Reason.ACCESS_KEY_MISSING)
        elif record.trust is Trust.DISTRUSTED:
            ways = self.of_halves if record.place is Place.HALF else self.of_ops
            record.expected = refused(self.chance.choice(ways)(record))
        else:
            is_own = record.trust is Trust.OWNER
            self._sign(record, signer(OWNER) if is_own else self._believed(record.place))
            self._copied[record.place] = record.headers[-1]

    def _sign(self, record: Record, by: RecordSigner, place: Place | None = None) -> None:
        """Put the headers of a signed record behind the others.

        Args:
            record: gets them.
            by: signs.
            place: the topic that is signed, None for the record's own.
        """
        # The job's JVM reads a name that is no text so, and signatures are over what it reads.
        stated: Any = [(name.decode("utf-8", "replace"), value) for name, value in record.headers]
        place = record.place if place is None else place
        topic, key, value = self.topics[place], record.key, record.value
        if place is Place.HALF:
            signed = by.half(topic, key, value, stated)
        else:
            no_key_too: Any = key
            no_value_too: Any = value
            signed = by.op(topic, record.partition, no_key_too, no_value_too, stated)
        tail = [(name.encode(), value) for name, value in signed[len(stated) :]]
        record.headers = [*record.headers, *tail]

    def _believed(self, place: Place) -> RecordSigner:
        """Return what signs for somebody who may write any record that is not an operator's."""
        signers = [
            signer(ADMIN), signer(PUBLISHER), signer(OLD_ADMIN),
            signer(OLD_ADMIN, secret=SECOND_SECRET), signer(LISTED, born_host=OWN_ADDRESS),
            signer(READER, born_host=EVERYBODYS_ADDRESS),
        ]  # fmt: skip
        if place is not Place.HALF:
            signers += [signer(NO_TOPIC), signer(PUBLISHER, late_ms=self.chance.choice(LATE_MS))]
        return self.chance.choice(signers)

    def _sign_rightly(self, record: Record) -> None:
        self._sign(record, self._believed(record.place))

    def _unsigned(self, _: Record) -> Reason:
        return Reason.ACCESS_KEY_MISSING

    def _not_at_the_end(self, record: Record) -> Reason:
        self._sign_rightly(record)
        name = self.chance.choice((b"later", b"signature", b"__BORNHOST", b""))
        record.headers.append((name, record.headers[-1][1]))
        return Reason.ACCESS_KEY_MISSING

    def _exchanged(self, record: Record) -> Reason:
        self._sign_rightly(record)
        at = self.chance.randrange(IN_ORDER - 1)
        record.headers[at : at + 2] = reversed(record.headers[at : at + 2])
        return Reason.ACCESS_KEY_MISSING

    def _odd_signature(self, record: Record) -> Reason:
        record.headers = [*record.headers, (b"Signature", self.chance.choice(ODD_SIGNATURES))]
        return Reason.SIGNATURE_UNREADABLE

    def _odd_time(self, record: Record) -> Reason:
        self._sign_rightly(record)
        _, key, signature = self._parts(record)
        self._say(record, (self.chance.choice(ODD_TIMES), key, signature))
        return Reason.BORN_TIME_UNREADABLE

    def _unknown(self, record: Record) -> Reason:
        self._sign(record, signer(self.chance.choice(ODD_KEYS), secret=secret_of(ADMIN)))
        return Reason.ACCESS_KEY_UNKNOWN

    def _wrong_secret(self, record: Record) -> Reason:
        guessed = signer(ADMIN, secret=self.chance.choice(("password", secret_of(OWNER))))
        weaker = signer(ADMIN, algorithm=SignatureAlgorithm.HMAC_SHA1)
        stronger = signer(OLD_ADMIN, algorithm=SignatureAlgorithm.HMAC_SHA256)
        self._sign(record, self.chance.choice((guessed, weaker, stronger)))
        return Reason.SIGNATURE_WRONG

    def _elsewhere(self, record: Record) -> Reason:
        """Sign what is written to another topic, or another partition."""
        place = self.chance.choice(sorted(self.topics))
        is_here = place is record.place
        at = record.partition
        record.partition += is_here
        # A half's partition is not signed; that of an op is, for a half's topic as well.
        if is_here and place is Place.HALF:
            place = Place.OP
        self._sign(record, self._believed(record.place), place)
        record.partition = at
        return Reason.SIGNATURE_WRONG

    def _other_value(self, record: Record) -> Reason:
        self._sign_rightly(record)
        record.value = self._changed(record.value)
        return Reason.SIGNATURE_WRONG

    def _other_key(self, record: Record) -> Reason:
        self._sign_rightly(record)
        # No key and an empty one are two things.
        record.key = b"" if record.key is None else self._changed(record.key)
        return Reason.SIGNATURE_WRONG

    def _other_header(self, record: Record) -> Reason:
        self._sign_rightly(record)
        at = self.chance.randrange(len(record.headers) - 1)
        name, value = record.headers[at]
        record.headers[at] = name, self._changed(value)
        return Reason.SIGNATURE_WRONG

    def _another_header(self, record: Record) -> Reason:
        self._sign_rightly(record)
        if self.chance.random() < 0.5 and len(record.headers) > IN_ORDER + 1:
            del record.headers[self.chance.randrange(IN_ORDER, len(record.headers) - 1)]
        else:
            added = self.chance.choice((record.headers[-1], (b"", None), (b"MANUAL_OPERATOR", b"")))
            record.headers.insert(self.chance.randrange(IN_ORDER, len(record.headers)), added)
        return Reason.SIGNATURE_WRONG

    def _cut(self, record: Record) -> Reason:
        self._sign_rightly(record)
        time, key, signature = self._parts(record)
        size = self.chance.randrange(1, len(signature))
        longer = signature + self.chance.choice((b"=", b" ", b"\n", b"A" * 5_000))
        said = self.chance.choice((signature[:size], signature.lower()[::-1], longer))
        self._say(record, (time, key, said))
        return Reason.SIGNATURE_WRONG

    def _copy(self, record: Record) -> Reason:
        """Take the signature of what was written to another topic."""
        others = [header for place, header in self._copied.items() if place is not record.place]
        if not others:
            return self._cut(record)
        record.headers = [*record.headers, self.chance.choice(others)]
        return Reason.SIGNATURE_WRONG

    def _by_no_group(self, record: Record) -> Reason:
        """Sign as somebody who may not publish for the group, whatever address that is stated."""
        is_half = record.place is Place.HALF
        who = self.chance.choice((NO_GROUP, READER) if is_half else (NO_GROUP, READER, LISTED))
        address = self.chance.choice(("", "10.1.2.4", "::1"))
        self._sign(record, signer(who, born_host=address))
        return Reason.GROUP_NOT_PERMITTED

    def _by_no_topic(self, record: Record) -> Reason:
        address = self.chance.choice(("", OWN_ADDRESS, "::ffff:10.1.2.3"))
        self._sign(record, signer(NO_TOPIC, born_host=address))
        return Reason.TOPIC_NOT_PERMITTED

    def _by_an_operator(self, record: Record) -> Reason:
        """Sign as somebody who is no operator what only operators write."""
        is_half = record.place is Place.HALF
        name = b"__checkback.resume.from" if is_half else b"MANUAL_OPERATOR"
        record.headers = [*record.headers, (name, self.chance.choice((b"", b"ann")))]
        listed = signer(LISTED, born_host=OWN_ADDRESS)
        self._sign(record, self.chance.choice((signer(PUBLISHER), signer(OWNER), listed)))
        return Reason.ADMIN_NEEDED

    def _as_an_answer(self, record: Record) -> Reason:
        """Say that a check is answered, as somebody who may publish for the group only."""
        answer: Header = (b"FROM_TRANSACTION_CHECK", b"true")
        record.headers = [*record.headers[: IN_ORDER - 1], answer, *record.headers[IN_ORDER:]]
        self._sign(record, signer(PUBLISHER))
        return Reason.GROUP_NOT_PERMITTED

    def _late(self, record: Record) -> Reason:
        self._sign(record, signer(ADMIN, late_ms=self.chance.choice(LATE_MS)))
        return Reason.BORN_TIME_WRONG

    def _changed(self, value: bytes | None) -> bytes:
        if not value:
            return b"x"
        at = self.chance.randrange(len(value))
        return value[:at] + bytes([value[at] ^ 1 << self.chance.randrange(8)]) + value[at + 1 :]

    def _parts(self, record: Record) -> Sequence[bytes]:
        return (record.headers[-1][1] or b"").split(b" ", 2)

    def _say(self, record: Record, parts: Sequence[bytes]) -> None:
        record.headers[-1] = record.headers[-1][0], b" ".join(parts)
