"""What the model of direct delivery knows: one state of the whole system, and the protocol's rules.

A value of `World` is everything that anybody remembers: the application's database, the session's
owner, requests under way, Kafka's coordinator, the real topic, the direct op partition, a process
that answers checks, and the pipeline. Nothing in it is a time: whoever acts may act at any moment.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from checkback.state.transitions import Phase

T = TypeVar("T")

Final = tuple[int, tuple[int, ...], str]
"""Finals of one Kafka transaction: its number, the halves, and '?' open, 'c' or 'a'."""
Entry = tuple[str, int, tuple[int, ...], str]
"""On the direct op partition: ('delivered', transaction, halves, '?', 'c' or 'a'), a verdict
('commit' or 'rollback', 1 if it closes the session, the half, who says it), or ('fenced', ...)."""
Request = tuple[str, int, int]
"""Kind, epoch of the producer, number of the transaction."""


class Coordinator(NamedTuple):
    """What Kafka knows of the session.

    `state` is empty, adding (partitions), ongoing, committing, aborting or done; `due` are the
    places that still want the marker.
    """

    epoch: int = 0
    state: str = "empty"
    number: int = -1
    due: str = ""
    committed: bool = False


class Batch(NamedTuple):
    """A batch that is planned: how far it reads, which half is due in it, what it has fenced."""

    end: int
    due: int | None
    fenced: bool


class World(NamedTuple):
    """One state. Tuples with one entry per half where the name is a plural."""

    truths: tuple[str, ...]
    """Of the database: '?' open, 'c' or 'r'."""
    alive: bool
    steps: tuple[str, ...]
    """What the owner means to do with a half: run, queue, deliver, plain, done."""
    stage: str
    """Of the owner's transaction: idle, adding, producing, ending, over (the session is)."""
    group: tuple[int, ...]
    acked: str
    resent: bool
    number: int
    epoch: int
    wire: tuple[Request, ...]
    groups: tuple[tuple[int, ...], ...]
    """Which halves each transaction is about."""
    coordinator: Coordinator
    finals: tuple[Final, ...]
    ops: tuple[Entry, ...]
    read: int
    seen: tuple[bool, ...]
    """Whether the pipeline has read the half itself."""
    waits: tuple[bool, ...]
    """Whether a delivered op waits for its half."""
    phases: tuple[Phase, ...]
    written: tuple[int, ...]
    """Finals by the sink."""
    asked: tuple[int, ...]
    requests: tuple[int, ...]
    """Check requests that nobody has taken."""
    fencing: tuple[bool, ...]
    batch: Batch | None
    answering: tuple[int, str, str] | None
    """The half, the verdict, and what comes next: fence or say."""
    crashes: int
    alarm: str


class Rules(NamedTuple):
    """The protocol as it is; each mutation leaves one thing out."""

    halves: int = 1
    checks: int = 1
    crashes: int = 1
    second_protocol: bool = False
    late_half: bool = False
    coarse: bool = False
    """One read position in a batch, markers at once: for two halves, where the rest is covered."""
    due_half: int | None = None
    fences: bool = True
    fences_first: bool = True
    fences_before_discard: bool = True
    waits_for_fence: bool = True
    answers_on_topic: bool = True
    waits_for_acks: bool = True
    gives_up_for_good: bool = True
    op_in_transaction: bool = True
    keeps_delivered_ops: bool = True
    reads_committed: bool = True
    drops_retried_sessions: bool = True
    old_answerer: bool = False
    guards: bool = True


def begin(rules: Rules) -> World:
    """Return the state in which every half is stored and every local transaction runs."""
    n = rules.halves
    nothing = (False,) * n
    zeros = (0,) * n
    return World(
        truths=("?",) * n,
        alive=True,
        steps=("run",) * n,
        stage="idle",
        group=(),
        acked="",
        resent=False,
        number=0,
        epoch=0,
        wire=(),
        groups=(),
        coordinator=Coordinator(),
        finals=(),
        ops=(),
        read=0,
        seen=(not rules.late_half,) * n,
        waits=nothing,
        phases=(Phase.PENDING,) * n,
        written=zeros,
        asked=zeros,
        requests=zeros,
        fencing=nothing,
        batch=None,
        answering=None,
        crashes=rules.crashes,
        alarm="",
    )


def put(row: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    """Return the row with another value at one place."""
    return (*row[:at], value, *row[at + 1 :])


def visible(world: World, half: int) -> int:
    """Return how often a reader of the real topic finds a half's final."""
    direct = sum(half in halves and mark == "c" for _, halves, mark in world.finals)
    return world.written[half] + direct


def wrong(world: World) -> str:
    """Return what must never hold and does, empty if nothing does."""
    if world.alarm:
        return world.alarm
    for half, truth in enumerate(world.truths):
        found = visible(world, half)
        if found > 1:
            return "visible twice"
        if found and truth != "c":
            return "visible without a committed local transaction"
        if found and world.phases[half] in (Phase.ROLLED_BACK, Phase.DISCARDED):
            return "visible and given up"
    return ""


def unfinished(world: World, rules: Rules) -> str:
    """Return what is missing where nothing more can happen, empty if nothing is."""
    for half, phase in enumerate(world.phases):
        if rules.due_half not in (None, half):
            continue
        if phase == Phase.PENDING:
            return "pending for ever"
        given_up = phase == Phase.DISCARDED
        if world.truths[half] == "c" and not given_up and visible(world, half) != 1:
            return "committed and not visible"
    return ""
