"""The transaction coordinator: who may write under a transactional id, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.fakes.kafka.clock import Clock
from tests.fakes.kafka.errors import NEVER_MS
from tests.fakes.kafka.log import Transaction, TransactionPhase

PREPARED = (TransactionPhase.PREPARED_COMMIT, TransactionPhase.PREPARED_ABORT)


class FencedByCoordinatorError(Exception):
    """PRODUCER_FENCED: the epoch is not the latest one."""


class NoTransactionError(Exception):
    """INVALID_TXN_STATE: there is nothing to end."""


@dataclass(slots=True)
class Identity:
    """What is known of one transactional id.

    Args:
        timeout_ms: of transactions, as the latest producer said.
        epoch: of the producer that may write.
        transaction: the open one, or the last.
    """

    timeout_ms: float
    epoch: int = -1
    transaction: Transaction | None = None


class LateCommit(NamedTuple):
    """The request to commit a transaction, held up on its way."""

    arrives_ms: float
    transactional_id: str
    epoch: int


@dataclass(slots=True)
class Coordinator:
    """All transactional ids of a cluster.

    Args:
        clock: the cluster's.
        marker_delay_ms: how long markers take, asked at each end.
    """

    clock: Clock
    marker_delay_ms: Callable[[], float]
    identities: dict[str, Identity] = field(default_factory=dict)
    late_commits: list[LateCommit] = field(default_factory=list)

    def initialise(self, transactional_id: str, timeout_ms: float) -> int | None:
        """Return a new epoch; None while the predecessor's transaction is being ended.

        Whatever the predecessor left open is aborted, and its epoch is past from then on.
        """
        identity = self.identities.get(transactional_id)
        if identity is None:
            identity = self.identities[transactional_id] = Identity(timeout_ms)
        found = identity.transaction
        if found is not None and found.phase == TransactionPhase.OPEN:
            identity.epoch += 1
            self._decide(found, TransactionPhase.PREPARED_ABORT)
        if found is not None and found.phase in PREPARED:
            return None
        identity.epoch += 1
        identity.timeout_ms = timeout_ms
        return identity.epoch

    def transaction(self, transactional_id: str, epoch: int) -> Transaction:
        """Return the open transaction of a producer; its first record or offset opens it.

        Raises:
            FencedByCoordinatorError: a successor was initialised, or the timeout passed.
        """
        identity = self._own(transactional_id, epoch)
        found = identity.transaction
        if found is not None and found.phase in PREPARED:
            self._write_markers(found)  # the client waits for that: CONCURRENT_TRANSACTIONS
        if found is None or found.phase != TransactionPhase.OPEN:
            found = Transaction(transactional_id, self.clock.now_ms, identity.timeout_ms)
            identity.transaction = found
        return found

    def end(self, transactional_id: str, epoch: int, *, commits: bool) -> None:
        """Decide how a transaction ends; asked again, the same answer is given.

        Raises:
            FencedByCoordinatorError: a successor was initialised, or the timeout passed.
            NoTransactionError: there is none, or it was ended the other way.
        """
        identity = self._own(transactional_id, epoch)
        found = identity.transaction
        if found is not None and found.phase == TransactionPhase.OPEN:
            self._decide(
                found,
                TransactionPhase.PREPARED_COMMIT if commits else TransactionPhase.PREPARED_ABORT,
            )
        elif found is None or found.is_committing != commits:
            raise NoTransactionError

    def commit_late(self, transactional_id: str, epoch: int, delay_ms: float) -> None:
        """Hold the request of a commit up; nobody waits for its answer any more.

        When it arrives it commits whatever its producer has open by then: the first transaction
        protocol does not tell one transaction of an epoch from the next.
        """
        arrives_ms = self.clock.now_ms + delay_ms
        self.late_commits.append(LateCommit(arrives_ms, transactional_id, epoch))

    def is_ending(self, transactional_id: str) -> bool:
        """Tell whether a transaction's end is decided and its markers are not all written."""
        identity = self.identities.get(transactional_id)
        found = None if identity is None else identity.transaction
        return found is not None and found.phase in PREPARED

    def tick(self) -> None:
        """Do what has become due: write markers, abort what is past its timeout."""
        now_ms = self.clock.now_ms
        if self.late_commits:
            self._let_arrive(now_ms)
        for identity in self.identities.values():
            found = identity.transaction
            if found is None:
                continue
            if (
                found.phase == TransactionPhase.OPEN
                and found.started_ms + found.timeout_ms <= now_ms
            ):
                identity.epoch += 1
                self._decide(found, TransactionPhase.PREPARED_ABORT)
            if found.phase in PREPARED and found.markers_due_ms <= now_ms:
                self._write_markers(found)

    def next_event_ms(self) -> float:
        """Return when there is something to do."""
        late_ms = min((one.arrives_ms for one in self.late_commits), default=NEVER_MS)
        return min([_due_ms(one.transaction) for one in self.identities.values()] + [late_ms])

    def _let_arrive(self, now_ms: float) -> None:
        arrived = [one for one in self.late_commits if one.arrives_ms <= now_ms]
        self.late_commits = [one for one in self.late_commits if one.arrives_ms > now_ms]
        for one in arrived:
            with suppress(FencedByCoordinatorError, NoTransactionError):
                self.end(one.transactional_id, one.epoch, commits=True)

    def _own(self, transactional_id: str, epoch: int) -> Identity:
        identity = self.identities[transactional_id]
        if identity.epoch != epoch:
            raise FencedByCoordinatorError
        return identity

    def _decide(self, found: Transaction, phase: TransactionPhase) -> None:
        found.phase = phase
        delay_ms = self.marker_delay_ms()
        found.markers_due_ms = self.clock.now_ms + delay_ms
        if not delay_ms:
            self._write_markers(found)
        elif found.logs:
            # Markers come one by one: who reads this partition is ahead of who reads the others.
            found.logs.pop(0).write_marker(found, self.clock.now_ms)

    def _write_markers(self, found: Transaction) -> None:
        for log in found.logs:
            log.write_marker(found, self.clock.now_ms)
        found.logs.clear()
        for group in found.groups:
            group.end(found)
        found.groups.clear()
        found.phase = (
            TransactionPhase.COMMITTED if found.is_committing else TransactionPhase.ABORTED
        )


def _due_ms(found: Transaction | None) -> float:
    if found is None:
        return NEVER_MS
    if found.phase == TransactionPhase.OPEN:
        return found.started_ms + found.timeout_ms
    return found.markers_due_ms if found.phase in PREPARED else NEVER_MS
