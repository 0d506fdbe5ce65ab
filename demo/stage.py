"""Settings, topics and process commands of a demo run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkback.demo.fates import REAL_TOPICS
from checkback.deploy.ports import free_ports
from checkback.deploy.settings import environment_without_settings, write_settings
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.testing.pipeline_process import QUICK_JVM, pipeline_command
from checkback.testing.topics import create_plain_topics, delete_topics, own_topics

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
    # The JVM's second compiler does not pay off within a minute; without it Spark starts in half
    # the time.
    "spark": {
        "driver.extraJavaOptions": QUICK_JVM,
        "ui.enabled": "false",
    },
}
"""The demo's defaults: what takes minutes in production takes seconds here."""


@dataclass(frozen=True, slots=True)
class DemoSetting:
    """One run's settings and files.

    Args:
        settings: the pipeline's settings.
        data_dir: folder for all files of the run.
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
        """The producer groups of the order service and of the service that never comes back."""
        prefix = self.settings.topic_prefix
        return prefix + ORDER_GROUP, prefix + RETIRED_GROUP

    def log(self, name: str) -> Path:
        """Return the file for a process's standard error."""
        return self.data_dir / f"{name.replace(' ', '-')}.log"

    def pipeline_command(self) -> list[str]:
        """Return the command line of the pipeline."""
        return pipeline_command(self.config)

    def console_command(self) -> str:
        """Return the command line that a person types to see the run in a browser."""
        return shlex.join([own_command(), "console", "--config", str(self.config)])

    def service_command(self, group: str, *, never_answered: bool) -> list[str]:
        """Return the command line of an order service."""
        command = [
            sys.executable, "-m", "checkback.demo.order_service",
            "--bootstrap-servers", self.settings.bootstrap_servers,
            "--database", str(self.database),
            "--group", group,
            "--topic-prefix", self.settings.topic_prefix,
        ]  # fmt: skip
        return [*command, "--never-answered"] if never_answered else command

    def environment(self) -> dict[str, str]:
        """Return the processes' environment.

        It leaves out the caller's settings, because the configuration file has all of them.
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
        create_plain_topics(self.settings, self._real_topics)

    def delete_topics(self) -> None:
        """Delete the topics of this run.

        Raises:
            BrokerError: Kafka refuses.
        """
        own = own_topics(self.settings.topics, self.groups)
        delete_topics(self.settings, [*own, *self._real_topics])

    @property
    def _real_topics(self) -> list[str]:
        return [self.settings.topic_prefix + topic for topic in REAL_TOPICS]


def own_command() -> str:
    """Return how a person starts Checkback here: in a checkout by path, unless a PATH has it."""
    started = Path(sys.argv[0])
    if started.name != "checkback" or shutil.which("checkback"):
        return "checkback"
    return os.path.relpath(started) if started.is_relative_to(Path.cwd()) else str(started)


def shown_settings(chosen: Settings, set_keys: Iterable[str], data_dir: Path) -> Settings:
    """Return settings with what the console shows more by, unless the user set it: ledger, metrics.

    Args:
        chosen: the settings.
        set_keys: those that the user set.
        data_dir: folder for all files of the run.

    Raises:
        PrerequisiteError: no port is free.
    """
    changes: dict[str, Any] = {}
    if "ledger" not in set_keys:
        changes["ledger"] = str(data_dir / "ledger")
    if "metrics_port" not in set_keys:
        [changes["metrics_port"]] = free_ports(1)
    return replace(chosen, **changes)


def demo_settings(chosen: Settings, set_keys: Iterable[str], *, prefix: str) -> Settings:
    """Return the settings of a run.

    Args:
        chosen: the loaded settings.
        set_keys: the settings that the user set; the demo's short times replace the others.
        prefix: appended to the topic prefix and the application id, so that each run has its own.
    """
    changes: dict[str, Any] = {key: value for key, value in SHORT.items() if key not in set_keys}
    changes["topic_prefix"] = chosen.topic_prefix + prefix
    changes["application_id"] = f"{prefix}{chosen.application_id}"
    return replace(chosen, **changes)
