"""The settings that decide, and which of them were in force when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError

HISTORY_VERSION: Final = 1
HISTORY_ENTRIES_MAX: Final = 32
"""Only the one batch that was planned but not committed is ever replayed; older rules are kept
for whoever looks into a checkpoint, but not for ever."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that the rules read; see Settings for each.

    Checkpoints hold them: a rule that is added needs a default, by which the batches of earlier
    checkpoints are decided; one that is taken away is passed over in them.
    """

    transaction_timeout_ms: int
    check_interval_ms: int
    check_max: int
    half_retention_ms: int
    verdict_retention_ms: int
    check_enabled: bool
    reject_transactions: bool
    checks_per_batch_max: int
    max_message_bytes: int
    batch_events_max: int
    """No rule of a page, but by it a plan tells whether its batch read everything (see
    streaming.read_until): a replay has to ask with the bound that the batch was planned under."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Rules:
        """Return the rules that these settings make."""
        return cls(**{rule.name: getattr(settings, rule.name) for rule in fields(cls)})

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Rules:
        """Return the rules that a checkpoint of this or an earlier version holds.

        Raises:
            TypeError: one without a default is missing.
        """
        names = {rule.name for rule in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in names})


@dataclass(frozen=True)
class RulesHistory:
    """Which rules were in force from when, so that a replayed batch is decided as it first was.

    Args:
        entries: (from_ms, rules), from_ms strictly ascending, milliseconds since 1970.
    """

    entries: tuple[tuple[int, Rules], ...]

    def at(self, now_ms: int) -> Rules:
        """Return the rules of a batch with that timestamp; before the first entry, the first.

        Raises:
            CheckpointError: there is no entry at all.
        """
        if not self.entries:
            raise CheckpointError(
                "No rules were recorded for this checkpoint.",
                remedy="Start the job with its settings; it records them before its first batch.",
            )
        in_force = self.entries[0][1]
        for from_ms, rules in self.entries:
            if from_ms <= now_ms:
                in_force = rules
        return in_force

    def with_rules(self, now_ms: int, rules: Rules) -> RulesHistory:
        """Return the history with these rules in force from now on; itself if they already are.

        When the clock stands at or before the latest entry, having been set back, they begin one
        millisecond after that entry: an entry before it would change what a replay decides.
        """
        if self.entries and self.entries[-1][1] == rules:
            return self
        from_ms = max(now_ms, self.entries[-1][0] + 1) if self.entries else now_ms
        return RulesHistory((*self.entries, (from_ms, rules))[-HISTORY_ENTRIES_MAX:])

    def to_json(self) -> str:
        """Return the history as a JSON document."""
        entries = [{"from_ms": from_ms, "rules": asdict(rules)} for from_ms, rules in self.entries]
        return json.dumps({"version": HISTORY_VERSION, "entries": entries}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> RulesHistory:
        """Return the history of a document that `to_json` wrote.

        Raises:
            CheckpointError: a newer version wrote it, or it is damaged.
        """
        try:
            document = json.loads(text)
            version = document["version"]
            if version != HISTORY_VERSION:
                raise CheckpointError(
                    f"The rules of this checkpoint have version {version}; "
                    f"this Checkback reads version {HISTORY_VERSION}.",
                    remedy="Run the version that wrote it, or a newer one.",
                )
            return cls(
                tuple(
                    (int(entry["from_ms"]), Rules.from_stored(entry["rules"]))
                    for entry in document["entries"]
                )
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                "The rules recorded in this checkpoint can't be read.",
                remedy="Restore the checkpoint's rules file from a backup.",
            ) from error
