"""The kit's side of local transactions: it decides them, remembers them, and answers checks.

The book stands for the database of all processes of a group. Their listeners ask the book, so the
kit knows what a process had decided before it died.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import Final

from checkback.testing.conformance.program import Line, PlannedSend, Program

COMMIT: Final = "commit"
ROLLBACK: Final = "rollback"
UNKNOWN: Final = "unknown"
RAISE: Final = "raise"


class Death(Enum):
    """Where the kit kills the process that sends."""

    AFTER_HALF = "after half"
    BEFORE_OP = "before op"


@dataclass(frozen=True, slots=True)
class Script:
    """What is to happen to a test message.

    Args:
        decided: how its local transaction ends: commit, rollback, or unknown if it never ends.
        said: what the listener answers; None for what was decided.
        unknown_checks: how many checks are answered with unknown at first.
        death: where the process dies, None for nowhere.
    """

    decided: str = COMMIT
    said: str | None = None
    unknown_checks: int = 0
    death: Death | None = None


class Book:
    """Scripts by body, and what was decided by transaction id. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scripts: dict[str | None, Script] = {}
        self.decided: dict[str, str] = {}
        self.checks: dict[str, list[Line]] = defaultdict(list)
        self.executed: dict[str, Line] = {}

    def plan(self, order: PlannedSend, script: Script) -> None:
        """Note the script of an order, by its body."""
        with self._lock:
            self._scripts[order.as_line()["body"]] = script

    def answer(self, program: Program, question: Line) -> str | None:
        """Answer a question of a listener; None where the process was killed."""
        asks_for_check = question["ask"] == "check"
        message = question["message"]
        script = self._scripts.get(message["body"], Script())
        with self._lock:
            if asks_for_check:
                return self._check(message, script)
            state, dies = self._execute(message, script)
        if dies:
            program.kill()
            return None
        return state

    def _execute(self, message: Line, script: Script) -> tuple[str, bool]:
        """Decide a local transaction; return what the listener says, and whether to kill."""
        transaction_id = message["transaction_id"]
        if script.death is Death.AFTER_HALF:
            return "", True
        self.executed[transaction_id] = message
        if script.decided != UNKNOWN:
            self.decided.setdefault(transaction_id, script.decided)
        decided = self.decided.get(transaction_id, UNKNOWN)
        return script.said or decided, script.death is Death.BEFORE_OP

    def _check(self, message: Line, script: Script) -> str:
        transaction_id = message["transaction_id"]
        asked = self.checks[transaction_id]
        asked.append(message)
        if script.decided == UNKNOWN or len(asked) <= script.unknown_checks:
            return UNKNOWN
        # A barrier: a local transaction that has not run by now never will.
        return self.decided.setdefault(transaction_id, ROLLBACK)
