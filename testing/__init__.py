"""Tools for tests of services that use Checkback: see docs/testing.md.

The names listed here stay stable. Each is imported on first use: a unit test of a listener loads
neither numpy nor a Kafka client, and pytest loads nothing of this for other tests.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from checkback.protocol.errors import PrerequisiteError

if TYPE_CHECKING:
    from checkback.testing.broker import Broker, Cluster
    from checkback.testing.check_service import Crash, FakeCheckService, FakeTransaction, Verdict
    from checkback.testing.page_engine import BatchOutcome, PageEngine
    from checkback.testing.pipeline_process import PipelineProcess
    from checkback.testing.topics import Topics
    from checkback.testing.waiting import wait_until

_MODULES: Final = {
    "BatchOutcome": "page_engine",
    "Broker": "broker",
    "Cluster": "broker",
    "Crash": "check_service",
    "FakeCheckService": "check_service",
    "FakeTransaction": "check_service",
    "PageEngine": "page_engine",
    "PipelineProcess": "pipeline_process",
    "Topics": "topics",
    "Verdict": "check_service",
    "wait_until": "waiting",
}

__all__ = [
    "BatchOutcome",
    "Broker",
    "Cluster",
    "Crash",
    "FakeCheckService",
    "FakeTransaction",
    "PageEngine",
    "PipelineProcess",
    "Topics",
    "Verdict",
    "wait_until",
]


def __getattr__(name: str) -> Any:
    """Import a public name from the module that has it.

    Raises:
        PrerequisiteError: it needs a package that is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("checkback"):
            raise
        raise PrerequisiteError(
            f"{name} of checkback.testing needs the package {error.name}, which is not installed.",
            remedy="Install it: pip install 'checkback[spark]'.",
        ) from error
