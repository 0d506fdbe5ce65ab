"""The topics of a fuzz run: healthy ones, and ones that reject what they are sent."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.integration.bad_records import set_topic_config
from tests.integration.running import Topics

from checkback.deploy.broker import free_ports
from checkback.protocol.configuration import Settings
from checkback.testing.topics import create_plain_topics

HALF_PARTITIONS: Final = 2
MAX_MESSAGE_BYTES: Final = 4_194_304
HEALTHY_GROUP: Final = "healthy"
GROUPS: Final = {
    "wild": {},
    "narrow": {"max.message.bytes": "1000"},
    "compacting": {"cleanup.policy": "compact"},
}  # fmt: skip
"""Groups that have a check topic, and how it is set; "mute" has none."""


class Places:
    """Names of the topics that finals go to, under the prefix of the run."""

    def __init__(self, prefix: str) -> None:
        self.healthy = f"{prefix}orders"
        self.small = f"{prefix}small"
        """It takes no more than 1,000 bytes."""
        self.compacted = f"{prefix}compacted"
        """It takes no record without a key."""
        self.aged = f"{prefix}aged"
        """It takes nothing older than a day.

        Not a millisecond: the broker then rejects its own transaction markers, and whoever wrote to
        that topic in a transaction can begin no other.
        """
        self.changing = f"{prefix}changing"
        """Its limit is raised and lowered meanwhile."""
        self.vanishing = f"{prefix}vanishing"
        """It is deleted and made again meanwhile."""
        self.missing = f"{prefix}missing"
        self.real = [self.healthy, self.small, self.compacted, self.aged, self.changing]
        """All that stay."""


def fuzz_settings(
    topics: Topics,
    checkpoint: Path,
    ledger: Path | None,
    verdict_retention_ms: int,
) -> Settings:
    """Return the job's settings: nothing committed is asked about, what is silent is given up."""
    return topics.settings(
        checkpoint,
        transaction_timeout_ms=5_000,
        check_interval_ms=10_000,
        check_max=1,
        verdict_retention_ms=verdict_retention_ms,
        max_message_bytes=MAX_MESSAGE_BYTES,
        metrics_port=free_ports(1)[0],
        ledger=str(ledger or ""),
        log_file=str(checkpoint.parent / "spark.log"),
    )


def create_places(topics: Topics, settings: Settings) -> Places:
    """Create all topics of the run."""
    places = Places(topics.prefix)
    topics.create(settings, [places.healthy], [HEALTHY_GROUP])
    # As somebody may have set them: else the brokers refuse what unpacks to more than its limit.
    for name in topics.names.read:
        set_topic_config(topics.connection, name, compression_type="producer")
    create_plain_topics(settings, [places.small], 1, {"max.message.bytes": "1000"})
    create_plain_topics(settings, [places.compacted], 1, {"cleanup.policy": "compact"})
    create_plain_topics(settings, [places.aged], 1, {"message.timestamp.before.max.ms": "86400000"})
    create_plain_topics(settings, [places.changing, places.vanishing], 1)
    for group, configs in GROUPS.items():
        create_plain_topics(settings, [topics.names.check(group)], 1, configs)
    return places
