"""Who did what from the console: one entry per attempt, also of those that were refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

KEPT: Final = 200


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One attempt.

    Args:
        operator: who, "" without a sign-in.
        action: ``sign in``, ``sign out`` or the name of an action.
        result: ``done``, ``not as wished``, ``refused`` or ``failed``.
    """

    time_ms: int
    operator: str
    action: str
    target: str = ""
    choice: str = ""
    reason: str = ""
    result: str = "done"
    says: str = ""
    peer: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"event": "audit", **asdict(self)}


@dataclass(slots=True)
class Audit:
    """Hands entries on, and keeps the newest of operators for the page.

    Attempts of strangers are only handed on: if they were kept, they would push out what operators
    did.
    """

    tell: Callable[[AuditEntry], None]
    _kept: deque[AuditEntry] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, entry: AuditEntry) -> None:
        """Add an entry."""
        self.tell(entry)
        if entry.operator:
            self._kept.append(entry)

    def newest(self) -> list[AuditEntry]:
        """Return the entries that are kept, newest first."""
        return list(self._kept)[::-1]
