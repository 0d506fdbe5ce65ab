"""The settings: one flat set; every key has one name in file, environment and flags.

A time has its unit in its name. This module defines the settings, their bounds and which values
contradict each other. The command line reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final, Literal

from checkback.protocol.connection import confluent_settings, require_free_settings
from checkback.protocol.errors import ConfigurationError
from checkback.protocol.topics import HEADER_ROOM_BYTES, TopicNames, rules_topic

SECRET_WORDS: Final = (
    "password",
    "secret",
    "jaas",
    "token",
    "key.pem",
    "keystore.key",
    "credential",
    "passphrase",
    "private.key",
    "access.key",
    "account.key",
    "encryption.key",
    ".sas.",
)
MASK: Final = "******"
ORDER_BY_KEY: Final = "key"
ORDER_NONE: Final = "none"
ORDERS: Final = (ORDER_BY_KEY, ORDER_NONE)
NEW_ORDER: Final = ORDER_BY_KEY
NEW_PAGE_SIZE: Final = 4_096
"""Python workers took 7.9 us per transaction with 1,024, 4.9 us with 2,048 and 4.3 us with 4,096.
Larger pages cost more to write, because an op rewrites its whole page."""

TIME_MS_MAX: Final = 3_155_760_000_000
"""A hundred years. With 2**63-1 for "never", as in Kafka's own settings, adding it to a time would
give a time in the past."""
NUMBER_MAX: Final = 2**31 - 1
"""What the compiled decoding counts to."""

_LOCAL_MASTER: Final = re.compile(r"local(?:\[(\d+|\*)(?:\s*,\s*(\d+))?\])?")


@dataclass(frozen=True, slots=True)
class LocalMaster:
    """A Spark master inside the driver: ``local``, ``local[n]``, ``local[*,tries]``.

    Args:
        threads: how many tasks run at once; None: one per core of the machine.
        tries: how many tries a task has; None if the master does not say.
    """

    threads: int | None
    tries: int | None


def local_master(master: str) -> LocalMaster | None:
    """Parse a local master; return None for the master of a cluster."""
    found = _LOCAL_MASTER.fullmatch(master)
    if found is None:
        return None
    threads, tries = found.groups()
    return LocalMaster(
        None if threads == "*" else int(threads or 1), None if tries is None else int(tries)
    )


def _setting(default: Any, text: str, *, least: int | None = None, most: int | None = None) -> Any:
    factory = {"default_factory": default} if callable(default) else {"default": default}
    return field(metadata={"text": text, "least": least, "most": most}, **factory)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings. Field metadata holds the help text and the bounds (inclusive).

    Raises:
        ConfigurationError: a value is out of bounds or contradicts another.
    """

    bootstrap_servers: str = _setting("", "Kafka brokers, host:port, separated by commas")
    checkpoint: str = _setting("", "Folder or object-store path of the query's checkpoint")
    application_id: str = _setting(
        "checkback", "Name of this deployment; prefix of its transactional ids and groups"
    )
    topic_prefix: str = _setting("", "Prefix of the names of Checkback's topics")
    half_partitions: int = _setting(
        4, "Partitions of the half, op, feedback and decided topics", least=1, most=4096
    )
    state_partitions: int | None = _setting(
        None, "Partitions of the state; default: the checkpoint's, for a new one: cores", least=1
    )
    trigger_interval_ms: int = _setting(
        0,
        "Least time between the starts of two batches; 0: none, with a relay 1,000",
        least=0,
        most=TIME_MS_MAX,
    )
    batch_events_max: int = _setting(
        1_000_000, "Most halves and ops that one batch reads", least=1, most=NUMBER_MAX
    )
    transaction_timeout_ms: int = _setting(
        6_000,
        "Age from which the pipeline asks about a half without an op",
        least=0,
        most=TIME_MS_MAX,
    )
    check_interval_ms: int = _setting(
        60_000, "Time between two check requests for the same half", least=1, most=TIME_MS_MAX
    )
    check_max: int = _setting(
        15, "Check requests after which a half is discarded; 0 counts as 1", least=0, most=60_000
    )
    checks_per_batch_max: int = _setting(
        2_000,
        "Most check requests per state partition and batch, oldest halves first; three"
        " quarters of them for one group",
        least=1,
        most=NUMBER_MAX,
    )
    half_retention_ms: int = _setting(
        259_200_000, "Age from which a half is discarded as expired", least=1, most=TIME_MS_MAX
    )
    verdict_retention_ms: int = _setting(
        3_600_000,
        "How long verdicts are remembered, and how long an op waits for its half",
        least=0,
        most=TIME_MS_MAX,
    )
    check_enabled: bool = _setting(True, "false: no check requests, no discards")
    reject_transactions: bool = _setting(False, "true: refuse new halves, resolve the old ones")
    relay: bool = _setting(
        False, "true: ops pass through `checkback relay`, which ends clean transactions at once"
    )
    relay_memory_bytes_max: int = _setting(
        268_435_456,
        "Most bytes of half messages that a relay holds; older ones become final in the job",
        least=0,
        most=2**40,
    )
    page_size: int | None = _setting(
        None,
        f"Half offsets per state row; default: the checkpoint's, for a new one: {NEW_PAGE_SIZE}",
        least=1,
        most=65_536,
    )
    order: str = _setting(
        "",
        "key: finals of one key keep their order; none: pages take turns at the state partitions;"
        f" default: the checkpoint's, for a new one: {NEW_ORDER}",
    )
    max_message_bytes: int = _setting(
        4_194_304, "Largest message body that the topics accept", least=1_024
    )
    keep_compression: bool = _setting(
        False,
        "true: half, op and feedback topic keep batches as producers compressed them; where every"
        " writer is trusted",
    )
    replication_factor: int = _setting(
        -1, "Replicas of new topics; -1: the broker's default", least=-1
    )
    sink_transaction_timeout_ms: int | None = _setting(
        None,
        "Time after which the broker aborts an abandoned Kafka transaction; default: ten ordinary"
        " batches, or the trigger interval, at least a minute",
        least=1_000,
        most=TIME_MS_MAX,
    )
    native_sink: bool = _setting(
        True, "false: Python builds the finals, without the sink's compiled part"
    )
    log_file: str = _setting(
        "", "File for Spark's own log; -: standard error; default: a temporary file"
    )
    log_format: Literal["text", "json"] = _setting(
        "text", "text or json: form of Checkback's own log lines and of Spark's log"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = _setting(
        "WARNING", "DEBUG, INFO, WARNING or ERROR: what Checkback's own log lines tell"
    )
    metrics_port: int = _setting(
        0,
        "Port of /metrics, /healthz and /readyz; 0: any free one, for this machine alone",
        least=0,
        most=65_535,
    )
    metrics_host: str = _setting(
        "127.0.0.1", "Address of that endpoint; 0.0.0.0 lets other machines ask"
    )
    progress_interval_ms: int = _setting(
        5_000, "Time between two progress lines", least=100, most=TIME_MS_MAX
    )
    ledger: str = _setting("", "Path of the Delta ledger; default: no ledger")
    acl_file: str = _setting(
        "",
        "Rules of access control: the path of a plain_acl.yml, or kafka:TOPIC; default: no access"
        " control",
    )
    access_key: str = _setting("", "Account that signs what operators' commands write")
    secret_key: str = _setting("", "Secret of that account")
    signature_algorithm: Literal["HmacSHA256", "HmacSHA1"] = _setting(
        "HmacSHA256", "HmacSHA256 or HmacSHA1: what that account signs with"
    )
    master: str = _setting("local[*]", "Spark master")
    kafka: Mapping[str, str] = _setting(dict, "kafka.*: passed on to every Kafka client")
    spark: Mapping[str, str] = _setting(dict, "spark.*: passed on to Spark")

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
        if self.order not in ("", *ORDERS):
            raise ConfigurationError(
                f"order is {self.order!r}.", remedy=f"Set {' or '.join(ORDERS)}.", key="order"
            )
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigurationError(
                "Only one of access_key and secret_key is set.",
                remedy="Set both, or neither.",
                key="access_key",
            )
        _ = self.topics  # raises an error for an impossible prefix
        _check_master(self.master)
        _check_ledger(self.ledger)
        require_free_settings(self.kafka)
        for key, value in self.spark.items():
            _check_memory(key, value)

    @property
    def topics(self) -> TopicNames:
        """The names of the topics."""
        return TopicNames(self.topic_prefix, rules_topic(self.acl_file))

    @property
    def record_bytes_max(self) -> int:
        """The largest record that any of Checkback's topics takes."""
        return self.max_message_bytes + 3 * HEADER_ROOM_BYTES

    @property
    def offsets_per_page(self) -> int:
        """How many half offsets a state row has in a checkpoint made with these settings."""
        return NEW_PAGE_SIZE if self.page_size is None else self.page_size

    @property
    def order_of_pages(self) -> str:
        """The order that a checkpoint made with these settings keeps, one of ORDERS."""
        return self.order or NEW_ORDER

    @property
    def metrics_address(self) -> tuple[str, int]:
        """Where /metrics is served: without metrics_port on a free port of the loopback address."""
        return (self.metrics_host if self.metrics_port else "127.0.0.1"), self.metrics_port

    def state_partitions_on(self, cores: int) -> int:
        """Return how many partitions a new checkpoint's state has.

        Args:
            cores: the number to use if neither state_partitions nor a local master gives one.
        """
        if self.state_partitions is not None:
            return self.state_partitions
        local = local_master(self.master)
        return max(1, cores if local is None or local.threads is None else local.threads)

    def connection(self) -> dict[str, Any]:
        """Return the configuration of any client of confluent-kafka for these brokers.

        What goes wrong is raised; librdkafka would log 60 lines a second about brokers that are
        down.

        Raises:
            ConfigurationError: no servers, one that is no host:port, or a security setting that
                can't be honoured.
        """
        return {"log_level": "0", **confluent_settings(self.bootstrap_servers, self.kafka)}

    def masked(self) -> dict[str, object]:
        """Return all settings by name, with secrets masked."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        shown: dict[str, object] = {
            name: without_user(value) if isinstance(value, str) else value
            for name, value in found.items()
        }
        shown["kafka"] = {key: mask(key, value) for key, value in self.kafka.items()}
        shown["secret_key"] = self.secret_key and MASK
        shown["spark"] = {key: mask(key, value) for key, value in self.spark.items()}
        return shown

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{key}={value!r}' for key, value in self.masked().items())})"


_CLUSTER_MASTER: Final = re.compile(r"local-cluster\[\d+,\d+,\d+\]|spark://.+|k8s://.+|yarn")
"""Masters that Spark accepts besides a local one (SparkMasterRegex, SparkSubmit)."""
_MEMORY: Final = re.compile(r"\d+([kmgtp]b?|b)?", re.IGNORECASE)
"""Amounts of memory that Spark accepts (JavaUtils.byteStringAs)."""


_UNUSABLE_IN_LEDGER: Final = re.compile(r"[\[\]^|\\%\x00-\x1f\x7f]")
_USER_IN_URL: Final = re.compile(r"://[^/@\s]+@")


def _check_master(master: str) -> None:
    if local_master(master) is None and _CLUSTER_MASTER.fullmatch(master) is None:
        raise ConfigurationError(
            f"master is {master!r}.",
            remedy="Set it to local[*], local[n], spark://host:port, k8s://host:port or yarn.",
            key="master",
        )


def _check_ledger(path: str) -> None:
    if _UNUSABLE_IN_LEDGER.search(path) is not None:
        raise ConfigurationError(
            f"ledger is {path!r}.",
            remedy="Choose a path without [ ] ^ | \\ % and control characters: delta-rs can't use "
            "them, or takes %41 for A.",
            key="ledger",
        )


def _check_memory(key: str, value: str) -> None:
    name = key.removeprefix("spark.")
    if name in ("driver.memory", "executor.memory") and _MEMORY.fullmatch(value) is None:
        raise ConfigurationError(
            f"spark.{name} is {value!r}.",
            remedy="Set it to a number with a unit, like 2g or 512m.",
            key=f"spark.{name}",
        )


def mask(key: str, value: str) -> str:
    """Return the value, or a mask if the key names a secret."""
    return MASK if any(word in key.lower() for word in SECRET_WORDS) else without_user(value)


def without_user(value: str) -> str:
    """Return the value with a mask for the user and the password in every URL."""
    return _USER_IN_URL.sub(f"://{MASK}@", value)


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
