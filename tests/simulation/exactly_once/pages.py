"""From a plan to what the pages decide, by the real rules; and what the whole job has to decide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from tests.fakes.kafka import Cluster
from tests.property.model import Record
from tests.property.paged import events_of
from tests.simulation.exactly_once.checkpoint import PageKey, Pages, Plan

from checkback.protocol import properties
from checkback.protocol.properties import text_value
from checkback.protocol.topics import TopicNames
from checkback.state import EventKind, Events, Outcome, Page, decide
from checkback.state.formats.identity import identity_words
from checkback.streaming.batch.terms import TaskTerms

PAGE_SIZE = 6
Inputs = dict[PageKey, Events]


def _events_of(rows: list[Record]) -> Events:
    """Return records in the engine's form, with the identities that the sink compares halves by."""
    words = [identity_words(b"g%d" % one.group, b"t%d" % one.transaction) for one in rows]
    first, rest = np.array(words, np.int64).reshape(-1, 2).T
    return replace(events_of(rows), identity=first, identity_rest=rest)


def state_partition_of(page: PageKey, state_partitions: int) -> int:
    return sum(page) % state_partitions


def inputs_of(plan: Plan, cluster: Cluster, names: TopicNames) -> Inputs:
    """Return the events of a batch by page; the same whenever it is asked."""
    found: Inputs | None = plan.known.get("inputs")
    if found is None:
        by_page: dict[PageKey, list[Record]] = defaultdict(list)
        for partition, record in _records(plan, cluster, names):
            by_page[partition, record.offset // PAGE_SIZE].append(record)
        found = plan.known["inputs"] = {key: _events_of(rows) for key, rows in by_page.items()}
    return found


def decided(
    plan: Plan,
    terms: TaskTerms,
    pages: Pages,
    inputs: Inputs,
    chosen: int | None,
    state_partitions: int,
) -> tuple[list[Outcome], Pages]:
    """Return what a state partition decides, and the state that it leaves.

    Args:
        plan: of the batch.
        terms: that decide it.
        pages: the state that it begins with.
        inputs: of the batch.
        chosen: the state partition; None: all of them.
        state_partitions: how many there are.
    """
    due = (
        key
        for key, (_, wake_at_ms) in pages.items()
        if wake_at_ms < plan.now_ms - terms.clock_ahead_ms
    )
    keys = sorted({*inputs, *due})
    outcomes, after = [], dict(pages)
    for key in keys:
        if chosen is not None and state_partition_of(key, state_partitions) != chosen:
            continue
        outcome, left = _decide_one(plan, terms, key, pages.get(key), inputs)
        outcomes.append(outcome)
        if left is None:
            after.pop(key, None)
        else:
            after[key] = left
    return outcomes, after


def _decide_one(
    plan: Plan, terms: TaskTerms, key: PageKey, row: tuple[bytes, int] | None, inputs: Inputs
) -> tuple[Outcome, tuple[bytes, int] | None]:
    blob = None if row is None else row[0]
    known: tuple[Outcome, tuple[bytes, int] | None] | None = plan.known.get((terms, key, blob))
    if known is None:
        page = Page.empty(*key, PAGE_SIZE) if blob is None else Page.unpack(blob)
        made = decide(
            page,
            inputs.get(key) or Events.empty(),
            plan.now_ms - terms.clock_ahead_ms,
            terms.rules,
            read_until_ms=terms.read_until_of(key[0]),
        )
        wake_at_ms = made.wake_at_ms
        left = None if wake_at_ms is None else (made.page.pack(), wake_at_ms)
        known = plan.known[terms, key, blob] = made.outcome, left
    return known


def _records(plan: Plan, cluster: Cluster, names: TopicNames) -> Iterator[tuple[int, Record]]:
    for (topic, partition), end in plan.ends.items():
        log = cluster.topics[topic].partitions[partition]
        for offset in range(plan.starts.get((topic, partition), 0), end):
            if log.is_visible(offset):
                stored = log.records[offset]
                yield (
                    partition,
                    _read(topic, names)(
                        offset, stored.value or b"", stored.headers, stored.timestamp_ms
                    ),
                )


def _read(topic: str, names: TopicNames) -> Callable[[int, bytes, properties.Headers, int], Record]:
    return _half if topic == names.half else _op


def _half(offset: int, _: bytes, headers: properties.Headers, time_ms: int) -> Record:
    group, number = _identity(headers)
    return Record(EventKind.HALF, offset, offset, time_ms, group, number, -1)


def _op(source: int, value: bytes, headers: properties.Headers, time_ms: int) -> Record:
    if text_value(headers, properties.TAGS) == properties.OP_TAG_UNDELIVERED:
        times = int(text_value(headers, properties.TRANSACTION_CHECK_TIMES) or 0)
        return Record(EventKind.UNDELIVERED, int(value), source, time_ms, 0, 0, times)
    group, number = _identity(headers)
    state = int(text_value(headers, properties.COMMIT_OR_ROLLBACK) or 0)
    return Record(EventKind.OP, int(value), source, time_ms, group, number, state)


def _identity(headers: properties.Headers) -> tuple[int, int]:
    group = text_value(headers, properties.PGROUP) or ""
    number = text_value(headers, properties.UNIQ_KEY) or ""
    return int(group[1:]), int(number[1:])


@dataclass(slots=True)
class Reference:
    """What every batch has to decide: the plans taken one after the other, without any fault.

    Args:
        state_partitions: of the job.
    """

    state_partitions: int
    pages: Pages = field(default_factory=dict)
    batches: list[dict[int, list[Outcome]]] = field(default_factory=list)
    terms: list[TaskTerms] = field(default_factory=list)
    _before: Pages = field(default_factory=dict)

    def extend(self, plan: Plan, terms: TaskTerms, inputs: Inputs) -> dict[int, list[Outcome]]:
        """Take the next batch in; return its outcomes by state partition."""
        self.terms.append(terms)
        self._before = self.pages
        found = decided(plan, terms, self.pages, inputs, None, self.state_partitions)
        outcomes, self.pages = found
        batch: dict[int, list[Outcome]] = {one: [] for one in range(self.state_partitions)}
        for outcome in outcomes:
            if np.any(outcome.action):
                key = (outcome.partition, outcome.page)
                batch[state_partition_of(key, self.state_partitions)].append(outcome)
        self.batches.append(batch)
        return batch

    def take_back(self) -> None:
        """Forget the last batch: of it nothing was written, and other terms may decide it."""
        self.terms.pop()
        self.batches.pop()
        self.pages = self._before

    @property
    def pending(self) -> int:
        """How many halves have no verdict."""
        return sum(Page.unpack(blob).pending for blob, _ in self.pages.values())
