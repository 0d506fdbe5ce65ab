"""Watches the source of the access rules, and decides when new rules take effect."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from checkback.checkpoints.own_files.batch_terms import OFF, AccessVersion, newest_terms
from checkback.checkpoints.own_files.earlier_terms import earlier_access
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import BrokerError, CheckpointError, ConfigurationError
from checkback.security import AccessControl
from checkback.sinks.kafka.read.rule_source import LOOK_S, RuleSource, settled_rules
from checkback.streaming.source.access_table import AccessTable

SECRETS_LOOK_S: Final = 10.0
"""Pause between two looks at the secrets that the rules refer to."""


@dataclass(slots=True)
class AccessWatch:
    """The rules in force, and where they come from.

    Args:
        source: where; None where access control is off.
        clock_s: a clock that only goes forward.
        pause: waits for that many seconds.
    """

    source: RuleSource | None
    clock_s: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep
    table: AccessTable | None = None
    problem: str = ""
    """What is wrong with the rules of the source; the rules before them stay in force."""
    _seen: bytes = field(default=b"", repr=False)
    _known: AccessControl | None = field(default=None, repr=False)
    """The rules that the last look read; None where they had mistakes."""
    _awaited: str = ""
    """The version that the last look found and that is not in force; "" for none."""
    _look_s: float = 0.0
    _parse_s: float = 0.0

    def read(self) -> None:
        """Read the rules for the first time.

        Raises:
            ConfigurationError: they can't be read, or have mistakes.
            BrokerError: they are on a topic, and the brokers do not answer.
        """
        if self.source is not None:
            self._seen = self.source.content()
            self._known = settled_rules(self.source, self.pause)
            self.table = AccessTable.of(self._known)

    def close(self) -> None:
        """Look no more."""
        if self.source is not None:
            self.source.close()

    def has_changed(self) -> bool:
        """Look if it is time; return whether there are other rules, which `table` then has.

        A look may read a file while somebody writes it. A part that ends after an account has no
        mistakes, and would refuse records of the missing accounts for good. So a version that may
        be such a part takes effect only when the next look finds it again.
        """
        now_s = self.clock_s()
        if self.source is None or now_s < self._look_s:
            return False
        self._look_s = now_s + LOOK_S
        content = self.source.content()
        is_other = content != self._seen
        if not is_other and not self._awaited and now_s < self._parse_s:
            return False
        self._seen, self._parse_s = content, now_s + SECRETS_LOOK_S
        if not is_other and not self._awaited and self._is_known():
            return False
        return self._parse(self.source, is_whole=is_other and self.source.is_written_whole)

    def _is_known(self) -> bool:
        """Return whether the same text means the same rules: parsing takes 0.3 ms per account."""
        return self._known is not None and not self._known.has_other_secrets()

    def _parse(self, source: RuleSource, *, is_whole: bool) -> bool:
        awaited, self._awaited, self._known = self._awaited, "", None
        try:
            self._known = source.rules()
            found = AccessTable.of(self._known)
        except (ConfigurationError, BrokerError) as error:
            self.problem = str(error)
            return False
        self.problem = ""
        if self.table is not None and found.version == self.table.version:
            return False
        if not is_whole and found.version != awaited:
            self._awaited = found.version
            return False
        self.table = found
        return True

    @property
    def version(self) -> str:
        """The own version of the rules in force, OFF for none."""
        return OFF if self.table is None else self.table.version

    def for_run(
        self, store: CheckpointStore, is_begun: Callable[[int], bool]
    ) -> tuple[AccessVersion, dict[str, Any] | None]:
        """Return how the terms of the batches to come name the rules, and what changed if it did.

        Args:
            store: the checkpoint; no query runs over it.
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
            raise _begun(store, next_batch, had)
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


def _begun(store: CheckpointStore, batch: int, had: AccessVersion) -> CheckpointError:
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
