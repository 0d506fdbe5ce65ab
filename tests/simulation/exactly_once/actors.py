"""Drivers and tasks as greenlets: one runs at a time, in an order that a seed makes.

An actor runs until it waits, and the stage picks the next one by chance. An actor whose process is
dead is woken once more, and every await of its raises `SimulatedCrash` until it has ended: what
`finally` and `except` do on the way reaches nothing, as after a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet
from tests.fakes.kafka import Clock, SimulatedCrash

FOR_EVER = float("inf")


@dataclass(slots=True, eq=False)
class Process:
    """What dies at once: a driver, or a sink with the producers that it keeps.

    Args:
        name: for the told lines.
    """

    name: str
    is_dead: bool = False


@dataclass(slots=True, eq=False)
class Actor:
    """Something that goes on in a process."""

    name: str
    process: Process
    body: Callable[[], Any]
    thread: greenlet | None = None
    is_so: Callable[[], object] | None = None
    until_ms: float = 0.0
    is_done: bool = False
    result: Any = None
    failure: BaseException | None = None


class Stage:
    """Actors, and who of them runs.

    Args:
        random: picks the next one.
        clock: moved on when all of them wait.
    """

    def __init__(self, random: Random, clock: Clock) -> None:
        self.random = random
        self.clock = clock
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.next_event_ms: Callable[[], float] = lambda: FOR_EVER
        self.tick: Callable[[], None] = lambda: None
        self.ended: Callable[[Actor], None] = lambda _actor: None
        self._own = getcurrent()

    def spawn(self, name: str, process: Process, body: Callable[[], Any]) -> Actor:
        """Have something begin; it runs when it is picked."""
        actor = Actor(name, process, body)
        self.actors.append(actor)
        return actor

    def step(self) -> None:
        """Let one actor run until it waits, or let time pass until one can.

        Raises:
            AssertionError: all wait for ever.
        """
        ready = self.ready(self.actors)
        if not ready:
            next_ms = min([one.until_ms for one in self.actors] + [self.next_event_ms()])
            assert next_ms < FOR_EVER, f"all wait: {[one.name for one in self.actors]}"
            self.clock.advance_to(next_ms)
            self.tick()
            return
        actor = ready[0] if len(ready) == 1 else self.random.choice(ready)
        self._let_run(actor)
        if actor.is_done:
            self.actors.remove(actor)
            self.ended(actor)

    def ready(self, among: Sequence[Actor]) -> list[Actor]:
        """Return the actors that wait for nothing any more."""
        now_ms = self.clock.now_ms
        # Every step asks every actor. With a call for each that was most of what a step costs.
        return [
            one
            for one in among
            if one.until_ms <= now_ms
            or one.process.is_dead
            or (one.is_so is not None and one.is_so())
        ]

    def pause(self, is_so: Callable[[], object] | None, until_ms: float) -> None:
        """Wait, as the current actor, for something or until then.

        Raises:
            SimulatedCrash: its process died meanwhile.
        """
        actor = self.current
        assert actor is not None
        actor.is_so, actor.until_ms = is_so, until_ms
        self._own.switch()
        if actor.process.is_dead:
            raise SimulatedCrash

    def end(self) -> None:
        """Kill everybody."""
        for actor in self.actors:
            actor.process.is_dead = True
        while self.actors:
            self.step()

    def _let_run(self, actor: Actor) -> None:
        if actor.thread is None and actor.process.is_dead:
            actor.is_done, actor.failure = True, SimulatedCrash()
            return
        if actor.thread is None:
            actor.thread = greenlet(self._run)
        self.current, self._own = actor, getcurrent()
        actor.thread.switch(actor)
        self.current = None

    def _run(self, actor: Actor) -> None:
        try:
            actor.result = actor.body()
        except BaseException as failure:
            actor.failure = failure
        finally:
            actor.is_done = True
