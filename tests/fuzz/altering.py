"""Changes real topics while their finals are written, as operators do."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from tests.fuzz.places import Places
from tests.integration.bad_records import set_topic_config

from checkback.protocol.configuration import Settings
from checkback.testing.topics import create_plain_topics, delete_topics

LIMITS: Final = ("1000", "3500", "1048588")
LIMIT_SHARE: Final = 0.2
VANISHING_SHARE: Final = 0.05
"""Of the rounds."""


@dataclass(slots=True)
class Altering:
    """What may be changed, and by which chance.

    Args:
        settings: how to reach the brokers.
        places: the topics.
        chance: decides when.
    """

    settings: Settings
    places: Places
    chance: Random
    _is_gone: bool = False

    def perhaps(self) -> None:
        """Change something, or nothing."""
        known = self.settings.connection()
        if self.chance.random() < LIMIT_SHARE:
            limit = self.chance.choice(LIMITS)
            set_topic_config(known, self.places.changing, max_message_bytes=limit)
        if self.chance.random() < VANISHING_SHARE:
            if self._is_gone:
                create_plain_topics(self.settings, [self.places.vanishing], 1)
            else:
                delete_topics(self.settings, [self.places.vanishing])
            self._is_gone = not self._is_gone
