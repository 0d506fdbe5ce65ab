"""What is said of a plain half that is in order, and what becomes of it."""

from __future__ import annotations

from typing import Final

from tests.fuzz.records import FINAL, NOWHERE, UNSETTLED, Expected, Moment, Said, refused

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
)
"""What is said of a half that is in order, what becomes of each op and of the half."""
