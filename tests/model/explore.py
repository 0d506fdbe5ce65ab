"""Walks through every state that can be reached, the shortest ways first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.pipeline import answerer_steps, pipeline_steps
from tests.model.session import kafka_steps, owner_steps
from tests.model.world import Rules, World, begin, unfinished, visible, wrong

from checkback.state.transitions import Phase

ACTORS = (owner_steps, kafka_steps, answerer_steps, pipeline_steps)


class Found(NamedTuple):
    """What a walk found.

    Args:
        states: how many it saw.
        said: what is wrong, empty if nothing is.
        way: what happened on the shortest way there.
        ends: how a half can end where nothing is wrong: delivered, by the sink, discarded, none.
    """

    states: int
    said: str
    way: tuple[str, ...]
    ends: frozenset[str]


def steps_from(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """Yield everything that can happen next."""
    for actor in ACTORS:
        for label, then in actor(world, rules):
            if then != world:
                yield label, then


def explore(rules: Rules) -> Found:
    """Walk through all states, until one is wrong."""
    first = begin(rules)
    came: dict[World, tuple[World, str] | None] = {first: None}
    level, ends = [first], set[str]()
    while level:
        following: list[World] = []
        for world in level:
            said = wrong(world)
            is_end = True
            if not said:
                for label, then in steps_from(world, rules):
                    is_end = False
                    if then not in came:
                        came[then] = (world, label)
                        following.append(then)
                said = unfinished(world, rules) if is_end else ""
            if said:
                return Found(len(came), said, _way(came, world), frozenset(ends))
            if is_end:
                ends.update(_end(world, half) for half in range(rules.halves))
        level = following
    return Found(len(came), "", (), frozenset(ends))


def has_cycle(rules: Rules) -> bool:
    """Tell whether anything can go on for ever; if not, what must come at the end comes."""
    on_way: dict[World, bool] = {}
    stack = [(begin(rules), steps_from(begin(rules), rules))]
    on_way[stack[0][0]] = True
    while stack:
        world, rest = stack[-1]
        for _, then in rest:
            if on_way.get(then):
                return True
            if then not in on_way:
                on_way[then] = True
                stack.append((then, steps_from(then, rules)))
                break
        else:
            on_way[world] = False
            stack.pop()
    return False


def _end(world: World, half: int) -> str:
    if world.phases[half] == Phase.DISCARDED:
        return "discarded"
    if not visible(world, half):
        return "not visible"
    return "by the sink" if world.written[half] else "delivered"


def _way(came: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels: list[str] = []
    before = came[world]
    while before is not None:
        world, label = before
        labels.append(label)
        before = came[world]
    return tuple(reversed(labels))
