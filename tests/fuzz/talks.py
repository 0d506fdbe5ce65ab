"""What is said of a plain half that is in order, and what becomes of it."""

from __future__ import annotations

from typing import Final

from tests.fuzz.records import FINAL, NOWHERE, UNSETTLED, Expected, Fate, Moment, Said, refused

from checkback.protocol.refusals import RefusedReason as Reason

COMMIT, ROLLBACK, UNKNOWN = b"8", b"12", b"0"
FINAL_OP: Final = NOWHERE
OP_OF_NO_HALF: Final = Expected(
    UNSETTLED.fates, frozenset({Reason.OP_WITHOUT_HALF.name})
)  # fmt: skip
AFTER_COMMIT: Final = refused(Reason.ROLLBACK_AFTER_COMMIT, Reason.OP_WITHOUT_HALF)
AFTER_ROLLBACK: Final = refused(Reason.COMMIT_AFTER_ROLLBACK, Reason.OP_WITHOUT_HALF)
AFTER_COMMIT_OF_OTHERS: Final = refused(
    Reason.ROLLBACK_AFTER_COMMIT, Reason.OP_GROUP_WRONG, Reason.OP_WITHOUT_HALF
)
EARLY: Final = Moment.BEFORE_HALF
TOO_MANY: Final = Expected(
    frozenset({Fate.NOWHERE, Fate.REFUSED}), frozenset({Reason.OP_WITHOUT_HALF.name})
)
"""Of the ops that come before their half only four can wait. A batch that its limit of bytes cuts
between a half and its ops makes them come before it."""
TALKS: Final = (
    ("commit", (Said(COMMIT, NOWHERE),), FINAL),
    ("early commit", (Said(COMMIT, NOWHERE, moment=Moment.BEFORE_HALF),), FINAL),
    ("rollback", (Said(ROLLBACK, NOWHERE),), NOWHERE),
    ("early rollback", (Said(ROLLBACK, NOWHERE, moment=Moment.BEFORE_HALF),), NOWHERE),
    ("silent", (), UNSETTLED),
    ("unknown", (Said(UNKNOWN, NOWHERE), Said(UNKNOWN, NOWHERE, group=b"other")), UNSETTLED),
    ("repeated", (Said(COMMIT, NOWHERE), Said(COMMIT, NOWHERE)), FINAL),
    ("contradicted", (Said(COMMIT, NOWHERE), Said(ROLLBACK, AFTER_COMMIT)), FINAL),
    ("recanted", (Said(ROLLBACK, NOWHERE), Said(COMMIT, AFTER_ROLLBACK)), NOWHERE),
    (
        "both early",
        (
            Said(COMMIT, NOWHERE, moment=Moment.BEFORE_HALF),
            Said(ROLLBACK, AFTER_COMMIT, moment=Moment.BEFORE_HALF),
        ),
        FINAL,
    ),
    (
        "of another group",
        (Said(COMMIT, refused(Reason.OP_GROUP_WRONG), group=b"other"), Said(ROLLBACK, NOWHERE)),
        NOWHERE,
    ),
    (
        "of another id",
        (
            Said(ROLLBACK, refused(Reason.OP_TRANSACTION_ID_WRONG), transaction_id=b"other"),
            Said(COMMIT, NOWHERE),
        ),
        FINAL,
    ),
    ("early unknown", (Said(UNKNOWN, NOWHERE, EARLY), Said(COMMIT, NOWHERE)), FINAL),
    (
        "early of another group",
        (Said(ROLLBACK, refused(Reason.OP_GROUP_WRONG), EARLY, b"other"), Said(COMMIT, NOWHERE)),
        FINAL,
    ),
    (
        "early of another id",
        (
            Said(COMMIT, refused(Reason.OP_TRANSACTION_ID_WRONG), EARLY, transaction_id=b"other"),
            Said(ROLLBACK, NOWHERE, EARLY),
        ),
        NOWHERE,
    ),
    ("over and over", (Said(COMMIT, NOWHERE),) * 4 + (Said(COMMIT, TOO_MANY),) * 26, FINAL),
    ("early over and over", (Said(COMMIT, TOO_MANY, EARLY),) * 9, FINAL),
    (
        "to and fro",
        (Said(COMMIT, NOWHERE), Said(ROLLBACK, AFTER_COMMIT)) * 2
        + (Said(COMMIT, TOO_MANY), Said(ROLLBACK, AFTER_COMMIT)) * 2,
        FINAL,
    ),
    (
        "fro and to",
        (Said(ROLLBACK, NOWHERE), Said(COMMIT, AFTER_ROLLBACK)) * 2
        + (Said(ROLLBACK, TOO_MANY), Said(COMMIT, AFTER_ROLLBACK)) * 2,
        NOWHERE,
    ),
    ("in a transaction", (Said(COMMIT, NOWHERE, Moment.COMMITTED),), FINAL),
    ("taken back", (Said(COMMIT, NOWHERE, Moment.TAKEN_BACK),), UNSETTLED),
    (
        "taken back, then rolled back",
        (Said(COMMIT, NOWHERE, Moment.TAKEN_BACK), Said(ROLLBACK, NOWHERE)),
        NOWHERE,
    ),
)
"""What is said of a half that is in order, what becomes of each op and of the half."""
