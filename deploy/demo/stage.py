"""What a run of the demo stands on: settings, topics, commands of its processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkback.deploy.admin import admin_client
from checkback.deploy.demo.fates import REAL_TOPICS
from checkback.deploy.settings_file import environment_without_settings, write_settings
from checkback.deploy.topics import create_topics, find_topics
from checkback.protocol.configuration import Settings

ORDER_GROUP: Final = "order-service"
RETIRED_GROUP: Final = "retired-service"

SHORT: Final[Mapping[str, object]] = {
    "transaction_timeout_ms": 2_000,
    "check_interval_ms": 2_000,
    "check_max": 5,
    "progress_interval_ms": 1_000,
    "half_partitions": 2,
    "state_partitions": 2,
    "master": "local[2]",
    # A run of a minute is over before the JVM's second compiler pays: it halves Spark's start.
    "spark": {
        "driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "ui.enabled": "false",
    },
}
"""The demo's settings where nobody set others: what takes minutes in earnest takes seconds here."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One run's settings and files.

    Args:
        settings: the pipeline's.
        data_dir: folder of everything that the run writes to disk.
    """

    settings: Settings
    data_dir: Path

    @property
    def database(self) -> Path:
        """The order service's database."""
        return self.data_dir / "orders.sqlite"

    @property
    def config(self) -> Path:
        """The pipeline's configuration file."""
        return self.data_dir / "checkback.toml"

    @property
    def groups(self) -> tuple[str, str]:
        """The producer groups: the order service's, and that of the one that does not come back."""
        prefix = self.settings.topic_prefix
        return prefix + ORDER_GROUP, prefix + RETIRED_GROUP

    def log(self, name: str) -> Path:
        """Return the file that a process's standard error goes to."""
        return self.data_dir / f"{name.replace(' ', '-')}.log"

    def pipeline_command(self) -> list[str]:
        """Return the command line of the pipeline."""
        start = "from checkback.streaming.commands import main; main()"
        return [
            sys.executable, "-c", start,
            "run", "--config", str(self.config), "--output", "json",
        ]  # fmt: skip

    def service_command(self, group: str, *, never_answered: bool) -> list[str]:
        """Return the command line of an order service."""
        command = [
            sys.executable, "-m", "checkback.deploy.demo.order_service",
            "--bootstrap-servers", self.settings.bootstrap_servers,
            "--database", str(self.database),
            "--group", group,
            "--topic-prefix", self.settings.topic_prefix,
        ]  # fmt: skip
        return [*command, "--never-answered"] if never_answered else command

    def environment(self) -> dict[str, str]:
        """Return the processes' environment.

        Settings in the caller's environment stay out: the configuration file has them all.
        """
        return {
            **environment_without_settings(),
            "ORDER_SERVICE_KAFKA": json.dumps(dict(self.settings.kafka)),
        }

    def write_config(self) -> None:
        """Write the pipeline's configuration file."""
        write_settings(self.config, self.settings)

    def create_topics(self) -> None:
        """Create the topics that are missing.

        Raises:
            ConfigurationError, BrokerError: Kafka is not as needed.
        """
        create_topics(self.settings)
        names = [self.settings.topic_prefix + topic for topic in REAL_TOPICS]
        plan = {name: {"num_partitions": 2, "replication_factor": -1} for name in names}
        with admin_client(self.settings.bootstrap_servers, self.settings.kafka) as admin:
            missing = plan.keys() - find_topics(admin, names).keys()
            if missing:
                admin.create_topics({name: plan[name] for name in missing})
                admin.wait_for_topics(names)

    def delete_topics(self) -> None:
        """Delete the topics of this run.

        Raises:
            BrokerError: Kafka refuses.
        """
        topics = self.settings.topics
        names = [
            topics.half, topics.op, topics.discarded, topics.refused, topics.settled,
            *(topics.check(group) for group in self.groups),
            *(topics.prefix + topic for topic in REAL_TOPICS),
        ]  # fmt: skip
        with admin_client(self.settings.bootstrap_servers, self.settings.kafka) as admin:
            admin.delete_topics(list(find_topics(admin, names)))


def demo_settings(chosen: Settings, set_keys: Iterable[str], *, prefix: str) -> Settings:
    """Return the settings of a run.

    Args:
        chosen: as loaded.
        set_keys: those somebody set; the demo's short times replace the others.
        prefix: put behind the topic prefix and the application id, so that a run has its own.
    """
    changes: dict[str, Any] = {key: value for key, value in SHORT.items() if key not in set_keys}
    changes["topic_prefix"] = chosen.topic_prefix + prefix
    changes["application_id"] = f"{prefix}{chosen.application_id}"
    return replace(chosen, **changes)
