"""Writes Protocol.java: the constants of the protocol and the state that the Java classes need."""

from __future__ import annotations

from typing import Final

from checkback.protocol import properties as names
from checkback.protocol import refusals
from checkback.protocol.decided import OP_KIND_HEADERS, OpKind
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.signed_content import (
    BORN_TIME_TOLERANCE_MS,
    SEPARATOR,
    TIMESTAMP_BYTES_MAX,
)
from checkback.state import BEFORE_OPS, EventKind
from checkback.state.formats.events import NO_IMMUNITY
from checkback.state.formats.identity import SLICE, TRANSACTION_BITS

HALF: Final = names.HALF_PROTOCOL_ORDER
OP: Final = names.OP_PROTOCOL_ORDER
KINDS: Final = tuple(OpKind)
TERMS_PROPERTY: Final = "checkback.batch_terms"
"""The local property with the terms of a batch (streaming/batch/terms.py)."""
BLOCK_BYTES: Final = 64
"""Block size of SHA-1 and of SHA-256."""
TOPIC: Final = "T"
GROUP: Final = "G"
"""Kinds of permissions, as RecordVerifier.java has them."""
OPENING_LINE_MAX: Final = f"HmacSHA256 {'t' * 249} {2**31 - 1} {2**31 - 1} {2**31 - 1}\n"
"""The longest line of sizes in signed content; Kafka's topics have 249 characters at most."""
NUMBERS: Final = {
    **{reason.name: int(reason) for reason in RefusedReason},
    **{kind.name: int(kind) for kind in EventKind},
    "TRAN_MSG_OF_HALF": HALF.index(names.TRAN_MSG),
    "PGROUP_OF_HALF": HALF.index(names.PGROUP),
    "UNIQ_KEY_OF_HALF": HALF.index(names.UNIQ_KEY),
    "REAL_TOPIC_OF_HALF": HALF.index(names.REAL_TOPIC),
    "IMMUNITY_OF_HALF": HALF.index(names.CHECK_IMMUNITY_TIME_IN_SECONDS),
    "TAGS_OF_OP": OP.index(names.TAGS),
    "STATE_OF_OP": OP.index(names.COMMIT_OR_ROLLBACK),
    "PGROUP_OF_OP": OP.index(names.PGROUP),
    "UNIQ_KEY_OF_OP": OP.index(names.UNIQ_KEY),
    "ANSWERS_CHECK_OF_OP": OP.index(names.FROM_TRANSACTION_CHECK),
    "HEADERS_IN_ORDER": len(HALF),
    "GROUP_BYTES_MAX": refusals.GROUP_BYTES_MAX,
    "ID_BYTES_MAX": refusals.ID_BYTES_MAX,
    "TOPIC_LENGTH_MAX": refusals.TOPIC_LENGTH_MAX,
    "IMMUNITY_DIGITS_MAX": refusals.IMMUNITY_DIGITS_MAX,
    "NO_IMMUNITY": NO_IMMUNITY,
    "OFFSET_DIGITS_MAX": len(str(2**63 - 1)),
    "DELIVERED_BY_RELAY": KINDS.index(OpKind.DELIVERED),
    "EARLY_FOR_RELAY": KINDS.index(OpKind.EARLY),
    "UNREADABLE_FOR_RELAY": KINDS.index(OpKind.UNREADABLE),
    "TRANSACTION_BITS": TRANSACTION_BITS,
    "SLICE": SLICE,
    "TIMESTAMP_BYTES_MAX": TIMESTAMP_BYTES_MAX,
    "OPENING_BYTES_MAX": BLOCK_BYTES + len(OPENING_LINE_MAX),
}
LONGS: Final = {"BEFORE_OPS": BEFORE_OPS, "BORN_TIME_TOLERANCE_MS": BORN_TIME_TOLERANCE_MS}
TEXTS: Final = {
    "DELIVERED": names.TRANSACTION_DELIVERED,
    "OP_TAG_REMOVE": names.OP_TAG_REMOVE,
    "OP_TAG_UNDELIVERED": names.OP_TAG_UNDELIVERED,
    "TAGS": names.TAGS,
    "TRANSACTION_CHECK_TIMES": names.TRANSACTION_CHECK_TIMES,
    "SIGNATURE": names.SIGNATURE,
    "BORN_HOST": names.BORN_HOST,
    "RESUME_HEADER_PREFIX": names.RESUME_HEADER_PREFIX,
    "MANUAL_OPERATOR": names.MANUAL_OPERATOR,
    "TERMS_PROPERTY": TERMS_PROPERTY,
    "TOPIC": TOPIC,
    "GROUP": GROUP,
}
LISTS: Final[dict[str, tuple[str, ...]]] = {
    "HALF_ORDER": HALF,
    "OP_ORDER": OP,
    "DECIDED_KINDS": tuple(OP_KIND_HEADERS[kind] for kind in KINDS),
    "STATES": tuple(
        str(state) for state in names.OP_STATES if state != names.TRANSACTION_DELIVERED
    ),
}


def protocol_java() -> str:
    """Return the source of the class."""
    lines = [
        *(f"int {name} = {number};" for name, number in NUMBERS.items()),
        *(f"long {name} = {number}L;" for name, number in LONGS.items()),
        *(f'String {name} = "{text}";' for name, text in TEXTS.items()),
        *(f"String[] {name} = {{{_quoted(texts)}}};" for name, texts in LISTS.items()),
        f"byte SEPARATOR = (byte) 0x{SEPARATOR.hex()};",
    ]
    constants = "".join(f"  static final {line}\n" for line in lines)
    return f"package checkback;\n\nfinal class Protocol {{\n{constants}}}\n"


def _quoted(texts: tuple[str, ...]) -> str:
    return ", ".join(f'"{text}"' for text in texts)
