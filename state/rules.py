"""The settings that decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from checkback.protocol.configuration import Settings


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
