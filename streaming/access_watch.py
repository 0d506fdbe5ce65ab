"""Looks at the source of the access rules, and tells when other rules are in force."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from checkback.checkpoints.access_versions import (
    OFF,
    AccessVersion,
    record_access_version,
)
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, ConfigurationError
from checkback.security import AccessControl
from checkback.sinks.kafka.settings import SinkSettings
from checkback.streaming.access_table import AccessTable
from checkback.streaming.begun_batches import is_begun
from checkback.streaming.cores import state_partitions
from checkback.streaming.rule_source import LOOK_S, RuleSource, settled_rules

if TYPE_CHECKING:
    from checkback.sinks.ledger.table import DeltaLedger

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
        """Tell whether the same text means the same rules: parsing takes 0.3 ms per account."""
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

    def record(
        self,
        store: CheckpointStore,
        sink: SinkSettings,
        settings: Settings,
        ledger: DeltaLedger | None,
    ) -> dict[str, Any] | None:
        """Record the rules for the batches to come; return what changed, None if nothing did.

        Raises:
            CheckpointError: a batch is begun under other rules.
            BrokerError: the markers can't be read.
            PrerequisiteError: the ledger can't be read.
        """
        rules = {} if self.table is None else self.table.as_data()
        begun = partial(is_begun, sink, state_partitions(settings), ledger)
        had, now = record_access_version(store, sink.epoch, self.version, rules, begun)
        return None if had == now else change_facts(had, now)


def change_facts(had: AccessVersion, now: AccessVersion) -> dict[str, Any]:
    """Return the facts that an operator needs when other rules come into force."""
    return {
        "access_control": _state(now),
        "before": _state(had),
        "version": now.version,
        "version_before": had.version,
        "from_batch": now.from_batch,
    }


def _state(version: AccessVersion) -> str:
    return "off" if version.version == OFF else "on"
