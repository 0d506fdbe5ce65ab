"""Which rules were in force when; a replayed batch is decided by those of its own time."""

from __future__ import annotations

from typing import Final

from checkback.checkpoints.folder import CheckpointFolder
from checkback.state import Rules, RulesHistory

FILE: Final = "rules.json"


def record_rules(folder: CheckpointFolder, now_ms: int, rules: Rules) -> RulesHistory:
    """Write down that these rules are in force from now on, and return all that were.

    A batch that was planned before keeps its timestamp, so it is replayed under the old ones. When
    the clock was set back since, they begin after that timestamp and hold once it is reached.
    """
    text = folder.read(FILE)
    history = RulesHistory(()) if text is None else RulesHistory.from_json(text)
    planned = folder.last_batch("offsets")
    after_ms = now_ms if planned is None else max(now_ms, folder.planned_at_ms(planned) + 1)
    changed = history.with_rules(after_ms, rules)
    if changed != history:
        folder.write(FILE, changed.to_json())
    return changed
