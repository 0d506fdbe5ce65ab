"""Every error that Checkback raises, as one tree.

::

    CheckbackError
    ├── UsageError                the caller's fault: change the call, the setting or the message
    │   ├── ConfigurationError    a setting is missing, unknown or out of bounds
    │   ├── InvalidMessageError   a message, topic or group that can't be sent as it is
    │   ├── LifeCycleError        a producer or job used before start or after shutdown
    │   └── NotFoundError         a named thing does not exist (a transaction, a record, a folder)
    └── OperationalError          the environment's fault: the same call may work later or elsewhere
        ├── PrerequisiteError     Java, disk, network, a port or threads are not as needed
        ├── BrokerError           Kafka can't be reached or refused what was asked
        │   └── SendError         a message is not, or not certainly, stored
        ├── CheckpointError       the checkpoint is damaged, foreign or ahead of its markers
        └── FencedError           another job or producer with the same identity took over

Each says what happened and what to do, and carries the facts as ``fields``. A field never holds a
secret: settings are masked before.
"""

from __future__ import annotations

from typing import ClassVar


class CheckbackError(Exception):
    """Base of all errors of this package.

    Args:
        message: what happened, one sentence.
        remedy: what to do, one sentence; empty if the message says it.
        fields: the facts, by name, for logs and JSON output.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, remedy: str = "", **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.fields = fields

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()

    def __reduce__(self) -> tuple[object, ...]:
        # Spark pickles errors between processes, and the default loses keyword-only arguments.
        return _rebuild, (type(self), self.message, self.remedy, self.fields)


def _rebuild(
    kind: type[CheckbackError], message: str, remedy: str, fields: dict[str, object]
) -> CheckbackError:
    return kind(message, remedy=remedy, **fields)


class UsageError(CheckbackError):
    """The caller's fault."""

    exit_code = 2


class ConfigurationError(UsageError):
    """A setting is missing, unknown, out of bounds or contradicts another."""


class InvalidMessageError(UsageError):
    """A message, topic or group that can't be sent as it is."""


class LifeCycleError(UsageError):
    """Used before start or after shutdown."""


class NotFoundError(UsageError):
    """A named thing does not exist."""


class OperationalError(CheckbackError):
    """The environment's fault."""

    exit_code = 3


class PrerequisiteError(OperationalError):
    """Java, disk, network, a port or the number of threads is not as needed."""


class BrokerError(OperationalError):
    """Kafka can't be reached or refused what was asked."""


class SendError(BrokerError):
    """A message is not, or not certainly, stored."""


class CheckpointError(OperationalError):
    """The checkpoint is damaged, foreign, or its markers are gone, so continuing is not safe."""

    exit_code = 4


class FencedError(OperationalError):
    """Another job or producer with the same identity took over."""

    exit_code = 4
