"""Where the sink names its clients: the modules in which fakes take their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Final, TypeVar
from unittest.mock import patch

from tests.fakes.kafka.admin import FakeAdminClient
from tests.fakes.kafka.cluster import Cluster
from tests.fakes.kafka.consumer import FakeConsumer
from tests.fakes.kafka.errors import HangingCall
from tests.fakes.kafka.producer import FakeProducer

from checkback.sinks.kafka.transaction.limited_call import HangingCallError

Item = TypeVar("Item")
Result = TypeVar("Result")

SEAMS: Final[dict[str, tuple[str, ...]]] = {
    "checkback.sinks.kafka.transaction.producer": ("Producer", "call_within", "time"),
    "checkback.sinks.kafka.transaction.marker": ("Consumer", "time"),
    "checkback.sinks.kafka.read.record_reader": ("Consumer",),
    "checkback.sinks.kafka.cluster.topic_directory": ("time",),
    "checkback.sinks.kafka.cluster.transient_errors": ("time",),
    "checkback.sinks.kafka.transaction.hanging": ("AdminClient", "topics_not_ended"),
    "checkback.sinks.kafka.transaction.epoch": ("ThreadPoolExecutor", "time"),
    "checkback.sinks.partition.writer": ("time",),
    "checkback.sinks.process.writer_pool": ("AdminClient",),
}
"""By module, the names that are replaced. All of a module's clients, clocks and threads."""


class SeamError(Exception):
    """A module has not, or no longer, the name that was to be replaced."""


@contextmanager
def installed(cluster: Cluster) -> Iterator[None]:
    """Have the sink work with this cluster in place of Kafka.

    Raises:
        SeamError: a name is missing, so that something would go on with the real one.
    """
    fakes: dict[str, object] = {
        "Producer": partial(FakeProducer, cluster),
        "Consumer": partial(FakeConsumer, cluster),
        "AdminClient": partial(FakeAdminClient, cluster),
        "topics_not_ended": lambda *_: None,
        "call_within": call_within,
        "time": FakeTime(cluster),
        "ThreadPoolExecutor": OneByOne,
    }
    with ExitStack() as stack:
        for name, replaced in SEAMS.items():
            module = import_module(name)
            for seam in replaced:
                if not hasattr(module, seam):
                    raise SeamError(f"{name} has no {seam} any more: see SEAMS in {__name__}.")
                stack.enter_context(patch.object(module, seam, fakes[seam]))
        yield


class FakeTime:
    """What the sink uses of the module `time`.

    Args:
        cluster: whose clock it tells.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def time(self) -> float:
        """Return the seconds since 1970."""
        return self._cluster.clock.now_ms / 1_000

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self._cluster.clock.now_ms / 1_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._cluster.sleep(seconds * 1_000)


def call_within(call: Callable[[], object], timeout_s: float) -> None:
    """Stand in for sinks.kafka.transaction.call_within, without a thread."""
    del timeout_s
    try:
        call()
    except HangingCall as error:
        raise HangingCallError from error


class OneByOne:
    """Stands in for a pool of threads: calls are made in turn, so that a seed repeats them.

    Args:
        workers: how many threads the pool would have.
    """

    def __init__(self, workers: int) -> None:
        del workers

    def __enter__(self) -> OneByOne:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to wait for."""

    def map(self, call: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results in their order."""
        return [call(one) for one in items]


__all__ = ["SEAMS", "FakeTime", "OneByOne", "SeamError", "call_within", "installed"]
