"""Watches the source of the access rules; job and relay take new rules by the same looks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from checkback.protocol.errors import BrokerError, ConfigurationError
from checkback.security import AccessControl
from checkback.sinks.kafka.read.rule_source import LOOK_S, RuleSource, settled_rules

SECRETS_LOOK_S: Final = 10.0
"""Pause between two looks at the secrets that the rules refer to."""


@dataclass(slots=True)
class RuleWatch:
    """The rules in force, and where they come from.

    Args:
        source: where; None where access control is off.
    """

    source: RuleSource | None
    clock_s: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep
    rules: AccessControl | None = field(default=None, repr=False)
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
            self.rules = self._known = settled_rules(self.source, self.pause)

    def close(self) -> None:
        """Look no more."""
        if self.source is not None:
            self.source.close()

    def take_new_rules(self) -> bool:
        """Look if it is time; put new rules into `rules`, and return whether there were any.

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
            self._known = found = source.rules()
        except (ConfigurationError, BrokerError) as error:
            self.problem = str(error)
            return False
        self.problem = ""
        if self.rules is not None and found.version == self.rules.version:
            return False
        if not is_whole and found.version != awaited:
            self._awaited = found.version
            return False
        self.rules = found
        return True
