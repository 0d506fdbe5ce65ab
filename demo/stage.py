"""Settings, topics and process commands of a demo run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkback.demo.fates import REAL_TOPICS
from checkback.deploy.settings import environment_without_settings, write_settings
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.testing.pipeline_process import QUICK_JVM, pipeline_command
from checkback.testing.topics import create_plain_topics

GROUPS: Final = ("order-service", "retired-service")
"""The producer groups of the order service and of the service that never comes back."""

SHORT: Final[Mapping[str, Any]] = {
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
"""What takes minutes in production takes seconds in the demo."""


def demo_settings(bootstrap_servers: str, data_dir: Path) -> Settings:
    """Return the settings of a run.

    Args:
        bootstrap_servers: the embedded broker's address.
        data_dir: folder for all files of the run.
    """
    return Settings(
        bootstrap_servers=bootstrap_servers,
        checkpoint=str(data_dir / "checkpoint"),
        **SHORT,
    )


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
        ]  # fmt: skip
        return [*command, "--never-answered"] if never_answered else command

    def environment(self) -> dict[str, str]:
        """Return the processes' environment, without the caller's settings."""
        return environment_without_settings()

    def write_config(self) -> None:
        """Write the pipeline's configuration file."""
        write_settings(self.config, self.settings)

    def create_topics(self) -> None:
        """Create Checkback's topics and the real topics.

        Raises:
            BrokerError: Kafka refuses.
        """
        create_topics(self.settings)
        create_plain_topics(self.settings, REAL_TOPICS)


def own_command() -> str:
    """Return how a person starts Checkback here: in a checkout by path, unless a PATH has it."""
    started = Path(sys.argv[0])
    if started.name != "checkback" or shutil.which("checkback"):
        return "checkback"
    return os.path.relpath(started) if started.is_relative_to(Path.cwd()) else str(started)
