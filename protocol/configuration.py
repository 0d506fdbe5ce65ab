"""The settings: one flat set, every key with one name in file, environment and flags.

A time has its unit in its name. Reading them from anywhere is the command line's work; here is
what they are, their bounds and which of them contradict each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final

from checkback.protocol.errors import ConfigurationError
from checkback.protocol.topics import TopicNames

SECRET_WORDS: Final = (
    "password",
    "secret",
    "jaas",
    "token",
    "key.pem",
    "keystore.key",
    "credential",
)
MASK: Final = "******"
NEW_PAGE_SIZE: Final = 4_096
"""With 1,024 the Python workers took 7.9 us per transaction, with 2,048 4.9, with 4,096 4.3; but a
page that an op touches is written whole."""


def _setting(default: Any, text: str, *, least: int | None = None, most: int | None = None) -> Any:
    factory = {"default_factory": default} if callable(default) else {"default": default}
    return field(metadata={"text": text, "least": least, "most": most}, **factory)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that can be set. Field metadata holds the text and the bounds (inclusive).

    Raises:
        ConfigurationError: a value is out of bounds or contradicts another.
    """

    bootstrap_servers: str = _setting("", "Kafka brokers, host:port, separated by commas")
    checkpoint: str = _setting("", "Folder or object-store path of the query's checkpoint")
    application_id: str = _setting(
        "checkback", "Name of this deployment; prefix of its transactional ids and groups"
    )
    topic_prefix: str = _setting("", "Put before the name of each of Checkback's topics")
    half_partitions: int = _setting(4, "Partitions of the half and op topics", least=1, most=4096)
    state_partitions: int | None = _setting(
        None, "Partitions of the state; default: the checkpoint's, of a new one: cores", least=1
    )
    trigger_interval_ms: int = _setting(
        0, "Least time between two batches; 0: one follows the other", least=0
    )
    batch_events_max: int = _setting(
        1_000_000, "Most halves and ops that one batch takes in", least=1
    )
    transaction_timeout_ms: int = _setting(
        6_000, "Age from which a half without an op is asked back", least=0
    )
    check_interval_ms: int = _setting(
        60_000, "Time from one check request to the next of a half", least=1
    )
    check_max: int = _setting(
        15, "Check requests after which a half is discarded", least=1, most=60_000
    )
    checks_per_batch_max: int = _setting(
        10_000, "Most check requests per state partition and batch, oldest first", least=1
    )
    half_retention_ms: int = _setting(
        259_200_000, "Age from which a half is discarded as expired", least=1
    )
    verdict_memory_ms: int = _setting(
        3_600_000, "How long a verdict is remembered, and an op without its half waits", least=0
    )
    check_enabled: bool = _setting(True, "false: nobody is asked and nothing discarded")
    reject_transactions: bool = _setting(False, "true: new halves are refused, old ones resolved")
    page_size: int | None = _setting(
        None,
        f"Half offsets per state row; default: the checkpoint's, of a new one: {NEW_PAGE_SIZE}",
        least=1,
        most=65_536,
    )
    max_message_bytes: int = _setting(
        4_194_304, "Largest message body the topics take", least=1_024
    )
    replication_factor: int = _setting(
        -1, "Replicas of the topics that are created; -1: the broker's default", least=-1
    )
    sink_transaction_timeout_ms: int | None = _setting(
        None,
        "Time after which the broker aborts an abandoned Kafka transaction; default: ten ordinary"
        " batches, or the trigger interval, at least a minute",
        least=1_000,
    )
    native_sink: bool = _setting(
        True, "false: finals are made in Python, without the sink's compiled part"
    )
    progress_interval_ms: int = _setting(5_000, "Time between two progress lines", least=100)
    ledger: str = _setting("", "Path of the Delta ledger; none: no ledger")
    acl_file: str = _setting("", "Path of the ACL file; none: no access control")
    master: str = _setting("local[*]", "Spark master")
    kafka: Mapping[str, str] = _setting(dict, "kafka.*: passed through to every Kafka client")
    spark: Mapping[str, str] = _setting(dict, "spark.*: passed through to Spark")

    def __post_init__(self) -> None:
        for one in fields(self):
            _check_bounds(one, getattr(self, one.name))
        if self.replication_factor == 0:
            raise ConfigurationError(
                "replication_factor is 0.",
                remedy="Set -1 or more than 0.",
                key="replication_factor",
            )
        if not self.application_id or not self.application_id.strip():
            raise ConfigurationError(
                "application_id is empty.",
                remedy="Give this deployment a name.",
                key="application_id",
            )
        _ = self.topics  # refuses an impossible prefix

    @property
    def topics(self) -> TopicNames:
        """The names of the topics."""
        return TopicNames(self.topic_prefix)

    @property
    def offsets_per_page(self) -> int:
        """How many half offsets a state row has, in a checkpoint that is made with these."""
        return NEW_PAGE_SIZE if self.page_size is None else self.page_size

    def state_partitions_on(self, cores: int) -> int:
        """Return how many partitions the state has, on a machine with that many cores.

        Args:
            cores: counts when neither state_partitions nor a ``local[n]`` master says a number.
        """
        if self.state_partitions is not None:
            return self.state_partitions
        local = re.fullmatch(r"local\[(\d+)(,\d+)?\]", self.master)
        return max(1, int(local[1])) if local else cores

    def masked(self) -> dict[str, object]:
        """Return all settings by name, secrets replaced, ready to be shown."""
        shown: dict[str, object] = {one.name: getattr(self, one.name) for one in fields(self)}
        shown["kafka"] = {key: mask(key, value) for key, value in self.kafka.items()}
        shown["spark"] = {key: mask(key, value) for key, value in self.spark.items()}
        return shown

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{key}={value!r}' for key, value in self.masked().items())})"


def mask(key: str, value: str) -> str:
    """Return the value, or a mask when the key names a secret."""
    return MASK if any(word in key.lower() for word in SECRET_WORDS) else value


def setting_default(one: Field[Any]) -> Any:
    """Return a setting's default value."""
    if one.default_factory is not MISSING:
        return one.default_factory()
    return one.default


def _check_bounds(one: Field[Any], value: object) -> None:
    least, most = one.metadata["least"], one.metadata["most"]
    if not isinstance(value, int) or isinstance(value, bool):
        return
    if (least is not None and value < least) or (most is not None and value > most):
        bounds = f"at least {least}" + (f" and at most {most}" if most is not None else "")
        raise ConfigurationError(
            f"{one.name} is {value}.", remedy=f"It must be {bounds}.", key=one.name, value=value
        )
