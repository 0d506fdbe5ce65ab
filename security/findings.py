"""What was found wrong in a file of rules: every place with its line, all of them together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final

from checkback.protocol.errors import ConfigurationError

NAMED_MAX: Final = 10
"""Mistakes that an error's text names. A running job tells it again and again."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One place in a file."""

    line: int
    says: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.says} {self.remedy}"


@dataclass(frozen=True, slots=True)
class Findings:
    """Collects what is found while a file is read."""

    mistakes: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)

    def mistake(self, line: int, says: str, remedy: str) -> None:
        """Note a mistake."""
        self.mistakes.append(Finding(line, says, remedy))

    def warning(self, line: int, says: str, remedy: str) -> None:
        """Note what is unwise."""
        self.warnings.append(Finding(line, says, remedy))

    def require_none(self, source: str) -> None:
        """Refuse a file that has mistakes.

        Raises:
            ConfigurationError: names the first of them; its field ``mistakes`` has all, one by
                one, ``warnings`` what is unwise.
        """
        if not self.mistakes:
            return
        found = sorted(self.mistakes)
        noun = "a mistake" if len(found) == 1 else f"{len(found)} mistakes"
        named = " ".join(map(str, found[:NAMED_MAX]))
        rest = f" And {len(found) - NAMED_MAX} more." if len(found) > NAMED_MAX else ""
        raise ConfigurationError(
            f"{source} has {noun}: {named}{rest}",
            remedy=f"`checkback acl lint {source}` lists them one by one.",
            source=source,
            mistakes=[asdict(one) for one in found],
            warnings=[asdict(one) for one in sorted(self.warnings)],
        )
