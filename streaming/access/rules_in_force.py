"""The access rules that are in force, and when new ones take effect."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from checkback.checkpoints.own_files.batch_terms import OFF, AccessVersion, newest_terms
from checkback.checkpoints.own_files.earlier_terms import earlier_access
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import CheckpointError
from checkback.sinks.kafka.read.rule_watch import RuleWatch


@dataclass(slots=True)
class AccessWatch(RuleWatch):
    """The rules in force, and how the terms of batches name them."""

    @property
    def version(self) -> str:
        """The own version of the rules in force, OFF for none."""
        return OFF if self.rules is None else self.rules.version

    def for_run(
        self, store: CheckpointStore, is_begun: Callable[[int], bool]
    ) -> tuple[AccessVersion, dict[str, Any] | None]:
        """Return how the next batches' terms name the rules, and the facts of a change, if any.

        Args:
            is_begun: tells whether anything of a planned batch may be written.

        Raises:
            CheckpointError: a batch is begun under other rules, or the notes can't be read.
            BrokerError: the markers can't be read.
            PrerequisiteError: the ledger can't be read.
        """
        noted = newest_terms(store)
        had = earlier_access(store) or AccessVersion() if noted is None else noted.access
        if had.is_of(self.version):
            return had, None
        planned, committed = (store.last_batch(log) for log in ("offsets", "commits"))
        next_batch = 0 if committed is None else committed + 1
        if planned == next_batch and is_begun(next_batch):
            raise _begun_batch_error(store, next_batch, had)
        now = AccessVersion.of(self.version, secrets.token_hex(8))
        return now, change_facts(had, now, next_batch)


def change_facts(had: AccessVersion, now: AccessVersion, from_batch: int) -> dict[str, Any]:
    """Return the facts that an operator needs when other rules come into force."""
    return {
        "access_control": _state(now),
        "before": _state(had),
        "version": now.name,
        "version_before": had.name,
        "from_batch": from_batch,
    }


def _begun_batch_error(store: CheckpointStore, batch: int, had: AccessVersion) -> CheckpointError:
    rules = f"the rules of version {had.name}" if had.name else "access control off"
    return CheckpointError(
        f"Batch {batch} of {store.path} is written in part, and was begun with {rules}: under "
        "other rules it could be decided in two ways.",
        remedy="Start with acl_file and its secrets as they were, and change them while the job"
        " runs; it takes them over between two batches.",
        batch_id=batch,
        version=had.name,
    )


def _state(version: AccessVersion) -> str:
    return "off" if version.name == OFF else "on"
