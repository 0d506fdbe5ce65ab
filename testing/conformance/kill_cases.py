"""The case of kills: processes of two languages in one group, killed at random steps, audited."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from checkback.protocol import properties as names
from checkback.testing.conformance.book import COMMIT, ROLLBACK, UNKNOWN, Death, Script
from checkback.testing.conformance.program import DiedError, PlannedSend, Program, SendFailedError
from checkback.testing.conformance.report import require, require_equal
from checkback.testing.conformance.stage import Stage, headers_of, wait_for

SENDERS: Final = 4
"""Threads that send through each process."""
VERDICTS: Final = (b"8", b"12")
SETTLED_S: Final = 180.0


def kills_lose_and_double_nothing(stage: Stage) -> None:
    """After kills at random steps each commit is on its topic once, and nothing else is."""
    run = KillRun(stage)
    run.run()
    run.audit()


class KillRun:
    """Sends from three processes of one group while it kills and replaces them.

    Args:
        stage: says how many kills and transactions.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._group = stage.unique("group")
        self._topic = stage.real_topic()
        self._random = random.Random(1)  # noqa: S311 - which steps, no secret
        self._lock = threading.Lock()
        self._left = stage.transactions
        self._kills_left = stage.kills
        self._known: dict[str, str] = {}
        """State by transaction id, as sends returned it."""

    def run(self) -> None:
        """Send until all transactions are sent and all kills are done."""
        commands = [self._stage.command, self._stage.companion, self._stage.command]
        with ThreadPoolExecutor(len(commands)) as places:
            for future in [places.submit(self._keep_running, command) for command in commands]:
                future.result()

    def _keep_running(self, command: Sequence[str]) -> None:
        while self._left > 0:
            with (
                self._stage.started(self._group, command) as program,
                ThreadPoolExecutor(SENDERS) as senders,
            ):
                ends = [senders.submit(self._send_until_dead, program) for _ in range(SENDERS)]
                for end in ends:
                    end.result()

    def _send_until_dead(self, program: Program) -> None:
        while (drawn := self._draw()) is not None:
            number, script = drawn
            key = f"key-{number % 50}".encode() if number % 2 else None
            try:
                order = PlannedSend(self._topic, b"order %d" % number, key=key)
                sent = self._stage.send(program, order, script)
                self._known[sent.transaction_id] = sent.state
            except (DiedError, SendFailedError):
                if not program.is_alive:
                    return

    def _draw(self) -> tuple[int, Script] | None:
        with self._lock:
            if self._left <= 0:
                return None
            self._left -= 1
            number = self._left
            decided = self._random.choice((COMMIT, COMMIT, ROLLBACK))
            said = UNKNOWN if self._random.random() < 0.1 else None
            step = max(1, self._stage.transactions // max(1, self._stage.kills))
            if number % step or self._kills_left <= 0:
                return number, Script(decided, said)
            self._kills_left -= 1
            return number, Script(decided, said, death=self._random.choice(list(Death)))

    def audit(self) -> None:
        """Compare the records on the topics with what was decided."""
        stage = self._stage
        with (
            stage.started(self._group),
            stage.started(self._group, stage.companion),
        ):
            wait_for(lambda: not self._unsettled(), "a verdict on every half", SETTLED_S)
            decided, halves = dict(stage.book.decided), self._halves()
            ran = [id_ for id_, one in stage.book.executed.items() if one["topic"] == self._topic]
            lost = [id_ for id_ in ran if decided.get(id_) == COMMIT and id_ not in halves]
            require(not lost, f"local transactions that committed without a half: {lost}")
            committed = {id_ for id_ in halves if decided.get(id_) == COMMIT}
            wait_for(lambda: committed <= stage.finals(self._topic).keys(), "all finals", SETTLED_S)
        finals = stage.finals(self._topic)
        require(committed == finals.keys(), f"finals of no commit: {finals.keys() - committed}")
        doubled = [id_ for id_, records in finals.items() if len(records) > 1]
        require(not doubled, f"more than one final: {doubled}")
        for transaction_id, state in self._known.items():
            if state != UNKNOWN:
                require_equal(
                    state, decided.get(transaction_id), f"{transaction_id} as it was sent"
                )
        require_equal(stage.topics.reasons(), [], "the refused records")

    def _halves(self) -> dict[str, tuple[int, int]]:
        """Return the halves of this run by transaction id."""
        found: dict[str, tuple[int, int]] = {}
        for record in self._stage.topics.read(self._stage.topics.names.half):
            headers = headers_of(record)
            if names.text_value(headers, names.PGROUP) == self._group:
                transaction_id = names.text_value(headers, names.UNIQ_KEY) or ""
                require(transaction_id not in found, f"two halves have the id {transaction_id}")
                found[transaction_id] = (record.partition() or 0, record.offset() or 0)
        return found

    def _unsettled(self) -> set[str]:
        settled = {
            (record.key() or b"").decode()
            for record in self._stage.topics.read(self._stage.topics.names.op)
            if names.first_value(headers_of(record), names.COMMIT_OR_ROLLBACK) in VERDICTS
        }
        return self._halves().keys() - settled
