"""Threads, locks and queues of the client, as actors of the stage: who waits lets others run.

The client's modules find these in place of their own, so that a seed decides which thread of a
process goes on, and any of them can be stopped between two steps.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, Generic, TypeVar
from unittest.mock import patch

from tests.simulation.exactly_once.actors import Actor, Stage

from checkback.client import check_answer as check_answer_module
from checkback.client.direct import delivery as delivery_module
from checkback.client.direct import fences as fences_module
from checkback.client.direct import lane as lane_module
from checkback.client.direct.session import Session
from checkback.testing.fake_kafka import Cluster
from checkback.testing.fake_kafka.seams import FakeTime

Item = TypeVar("Item")
LANE = {"IDLE_S": 3_600.0, "GROUP_MAX": 2}
"""A lane that looks around twice a second would be most of what happens, and one whose groups are
large makes few transactions."""

DEATH = {"BaseException": Exception}
"""A lane outlives whatever a callback raises, so it would outlive the death of its process too."""


class StagedThread:
    """A thread as an actor; it belongs to the process that starts it."""

    def __init__(
        self, stage: Stage, *, target: Callable[[], Any], name: str, daemon: bool = False
    ) -> None:
        del daemon
        self._stage = stage
        self._target = target
        self._name = name
        self._actor: Actor | None = None

    def start(self) -> None:
        current = self._stage.current
        assert current is not None
        process = current.process
        self._actor = self._stage.spawn(f"{process.name} {self._name}", process, self._target)

    @property
    def ident(self) -> int | None:
        return None if self._actor is None else id(self._actor)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.is_done

    def join(self, timeout: float | None = None) -> None:
        self._stage.wait(lambda: not self.is_alive(), timeout)


class StagedEvent:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        self._stage.wait(self.is_set, timeout)
        return self._is_set


class StagedLock:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_held = False

    def __enter__(self) -> None:
        while self._is_held:
            self._stage.wait(lambda: not self._is_held)
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False


class StagedRLock:
    """A lock that its holder may take again, as a signal handler of the same thread does."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._holder: Actor | None = None
        self._times = 0

    def __enter__(self) -> None:
        actor = self._stage.current
        while self._times and self._holder is not actor:
            self._stage.wait(lambda: not self._times)
        self._holder = actor
        self._times += 1

    def __exit__(self, *_: object) -> None:
        self._times -= 1


class StagedQueue(Generic[Item]):
    """A SimpleQueue. Who waits at it has nothing to do."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._items: deque[Item] = deque()

    def put(self, item: Item) -> None:
        self._items.append(item)

    def get(self, timeout: float | None = None) -> Item:
        if not self._items:
            self._stage.idle(self._items.__len__, timeout)
        return self.get_nowait()

    def get_nowait(self) -> Item:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


@contextmanager
def client_installed(stage: Stage, cluster: Cluster, random: Random) -> Iterator[None]:
    """Have the client's direct side wait on this stage, and tell the cluster's time."""
    threads = SimpleNamespace(
        Thread=partial(StagedThread, stage),
        Lock=partial(StagedLock, stage),
        RLock=partial(StagedRLock, stage),
        Event=partial(StagedEvent, stage),
    )

    def in_background(call: Callable[[], object], name: str) -> None:
        StagedThread(stage, target=call, name=name).start()

    queues = SimpleNamespace(SimpleQueue=partial(StagedQueue, stage), Empty=queue.Empty)
    clock = FakeTime(cluster)
    ids = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=f"{random.getrandbits(128):032x}"))
    replaced: dict[Any, dict[str, object]] = {
        lane_module: {
            "threading": threads,
            "queue": queues,
            "time": clock,
            "in_background": in_background,
            **LANE,
            **DEATH,
        },
        delivery_module: {
            "time": clock,
            "uuid": ids,
            "Session": partial(Session, now_s=clock.monotonic),
        },
        fences_module: {"threading": threads},
        check_answer_module: {"steady_ms": lambda: cluster.clock.now_ms},
    }
    with ExitStack() as stack:
        for module, names in replaced.items():
            for name, fake in names.items():
                stack.enter_context(patch.object(module, name, fake))
        yield
