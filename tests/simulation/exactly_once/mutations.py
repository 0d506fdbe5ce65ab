"""The protocol with one of its parts taken out; each has to be caught within a few seeds.

What is patched is the sink's own code, and in two cases what Spark does around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from unittest.mock import patch

from tests.simulation.exactly_once.checkpoint import Checkpoint, Pages, Plan
from tests.simulation.exactly_once.fates import Chances
from tests.simulation.exactly_once.spark import Driver
from tests.simulation.exactly_once.terms import Brokers
from tests.simulation.exactly_once.worlds import LOSING, ONE_DRIVER, TOUCHED, TWO_DRIVERS, World

from checkback.sinks.kafka.transaction import epoch as epoch_module
from checkback.sinks.kafka.transaction import producer as transaction_module
from checkback.sinks.kafka.transaction.epoch import LATEST_EPOCH
from checkback.sinks.kafka.transaction.errors import ProducerLostError
from checkback.sinks.kafka.transaction.marker import Marker
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.partition import writer as writer_module
from checkback.sinks.partition.writer import BatchWriter, rows_written
from checkback.sinks.report import report_of
from checkback.streaming.batch import terms as terms_module
from checkback.streaming.batch.terms import TermsOfRun
from checkback.streaming.start import preflight as preflight_module

DAY_S = 86_400.0


@dataclass(frozen=True)
class Mutation:
    """What is left out, and the world in which that shows.

    Args:
        broken: puts the broken part in place while it is open.
        world: what kind of life it takes.
        chances: of what goes wrong in it; None: those of all runs.
        crashes: how many of them.
    """

    broken: Callable[[], AbstractContextManager[Any]]
    world: World = ONE_DRIVER
    chances: Chances | None = None
    crashes: int = 40


def _marker_seen_as(changed: Callable[[Marker], Marker]) -> Callable[[], Any]:
    honest = BatchWriter._open

    def opened(self: BatchWriter, batch_id: int) -> MarkedProducer:
        producer = honest(self, batch_id)
        if producer.marker is not None:
            producer.marker = changed(producer.marker)
        return producer

    return lambda: patch.object(BatchWriter, "_open", opened)


def _own_transactional_ids(*, at_start: bool) -> Callable[[], Any]:
    """Each producer has an id of its own, so initialising it fences nobody."""
    honest = MarkedProducer._configuration

    def broken() -> Any:
        numbers = count()

        def configuration(self: MarkedProducer) -> dict[str, Any]:
            found = honest(self)
            if (self.settings.epoch >= LATEST_EPOCH) == at_start:
                found["transactional.id"] += f"-{next(numbers)}"
            return found

        return patch.object(MarkedProducer, "_configuration", configuration)

    return broken


def _marker_moved_at_once() -> Any:
    def send(self: MarkedProducer, position: Any, _: Any) -> None:
        self._markers._consumer.commit(offsets=[position], asynchronous=False)

    return patch.object(MarkedProducer, "_send_offset", send)


@contextmanager
def _marker_moved_afterwards() -> Iterator[None]:
    honest = MarkedProducer.commit_marker

    def commit(self: MarkedProducer, moved: Marker) -> None:
        honest(self, moved)
        position = self._markers.offset(self.state_partition, moved)
        self._markers._consumer.commit(offsets=[position], asynchronous=False)

    with (
        patch.object(MarkedProducer, "_send_offset", lambda *_: None),
        patch.object(MarkedProducer, "commit_marker", commit),
    ):
        yield


@contextmanager
def _epoch_not_compared() -> Iterator[None]:
    with ExitStack() as stack:
        for module in (epoch_module, transaction_module):
            stack.enter_context(patch.object(module, "require_own_epoch", lambda *_: None))
        stack.enter_context(patch.object(BatchWriter, "_require_own", lambda *_: None))
        yield


@contextmanager
def _marker_kept_over_a_loss() -> Iterator[None]:
    """A producer that was lost is replaced, but what was known of the marker is kept."""
    close, opened = BatchWriter.close, BatchWriter._open
    kept: dict[int, tuple[BatchWriter, Marker | None]] = {}

    def keep_and_close(self: BatchWriter) -> None:
        if self._producer is not None:
            kept[id(self)] = self, self._producer.marker
        close(self)

    def open_with_kept(self: BatchWriter, batch_id: int) -> MarkedProducer:
        producer = opened(self, batch_id)
        found = kept.pop(id(self), None)
        if found is not None and found[1] is not None:
            producer.marker = found[1]
        return producer

    with (
        patch.object(BatchWriter, "close", keep_and_close),
        patch.object(BatchWriter, "_open", open_with_kept),
    ):
        yield


def _doubt_counts_as_written() -> Any:
    honest = BatchWriter._try

    def tried(self: BatchWriter, *arguments: Any) -> Any:
        try:
            return honest(self, *arguments)
        except ProducerLostError:
            return report_of(self.state_partition, arguments[0])

    return patch.object(BatchWriter, "_try", tried)


def _marker_read_before_the_fence_only() -> Any:
    honest = MarkedProducer._look_at

    def look(self: MarkedProducer, markers: dict[int, Marker]) -> None:
        if not hasattr(self, "_producer"):
            honest(self, markers)

    return patch.object(MarkedProducer, "_look_at", look)


def _marker_one_behind() -> Any:
    def commit(self: MarkedProducer, batch_id: int, now_ms: int) -> None:
        self.commit_marker(Marker(batch_id, now_ms, self.settings.epoch))

    return patch.object(MarkedProducer, "commit", commit)


def _count_of_rows_lost_at_a_start() -> Any:
    honest = MarkedProducer.commit_marker

    def commit(self: MarkedProducer, moved: Marker) -> None:
        at_start = self.settings.epoch >= LATEST_EPOCH
        honest(self, replace(moved, rows_done=0) if at_start else moved)

    return patch.object(MarkedProducer, "commit_marker", commit)


def _part_counts_as_the_whole() -> Any:
    def commit(self: MarkedProducer, batch_id: int, _: int, now_ms: int) -> None:
        self.commit(batch_id, now_ms)

    return patch.object(MarkedProducer, "commit_part", commit)


def _newest_state() -> Any:
    def load(self: Checkpoint, state_partition: int, batch: int) -> Pages:
        self.fates.before("load state")
        versions = [batch for partition, batch in self.states if partition == state_partition]
        return self.states[state_partition, max(versions)] if versions else {}

    return patch.object(Checkpoint, "load", load)


def _replay_by_its_own_clock() -> Any:
    honest = Driver._resume

    def resume(self: Driver) -> tuple[int, Plan | None]:
        batch, plan = honest(self)
        return batch, plan and replace(plan, now_ms=int(self.run.clock.now_ms), known={})

    return patch.object(Driver, "_resume", resume)


@contextmanager
def _set_by_hand_and_believed() -> Iterator[None]:
    with (
        patch.object(epoch_module, "require_not_by_hand", lambda *_: None),
        patch.object(preflight_module, "require_not_by_hand", lambda *_: None),
    ):
        yield


def _goes_on_after_a_repeated_commit() -> Any:
    return patch.object(transaction_module, "SLOW_COMMIT_S", DAY_S)


MUTATIONS: dict[str, Mutation] = {
    "marker not checked": Mutation(_marker_seen_as(lambda one: replace(one, next_batch=0))),
    "marker taken for one later": Mutation(
        _marker_seen_as(lambda one: replace(one, next_batch=one.next_batch + 1))
    ),
    "marker one behind": Mutation(_marker_one_behind),
    "marker read before the fence only": Mutation(_marker_read_before_the_fence_only),
    "marker moved before the transaction's end": Mutation(_marker_moved_at_once),
    "marker moved after the transaction's end": Mutation(_marker_moved_afterwards),
    "marker kept over a lost commit": Mutation(_marker_kept_over_a_loss),
    "a commit in doubt counts as written": Mutation(_doubt_counts_as_written),
    "no fence when a task opens": Mutation(_own_transactional_ids(at_start=False)),
    "no fence when a job starts": Mutation(_own_transactional_ids(at_start=True), TWO_DRIVERS),
    "epoch not compared": Mutation(_epoch_not_compared, TWO_DRIVERS),
    "any marker believed by tasks": Mutation(
        lambda: patch.object(BatchWriter, "_require_own", lambda *_: None), TOUCHED
    ),
    "any marker believed by starts": Mutation(_set_by_hand_and_believed, TOUCHED),
    "count of rows not checked": Mutation(
        lambda: patch.object(writer_module, "rows_written", lambda *_: 0)
    ),
    "count of rows lost at a start": Mutation(_count_of_rows_lost_at_a_start, TWO_DRIVERS),
    "count of rows one too high": Mutation(
        lambda: patch.object(
            writer_module,
            "rows_written",
            lambda *found: (rows := rows_written(*found)) + bool(rows),
        )
    ),
    "a part counts as the whole": Mutation(_part_counts_as_the_whole),
    "a producer goes on after a repeated commit": Mutation(
        _goes_on_after_a_repeated_commit, chances=Chances(crash=0.004, fault=0.15)
    ),
    "state version of the wrong batch": Mutation(_newest_state),
    "a replay decides by its own clock": Mutation(_replay_by_its_own_clock),
    "a replay decides by its own terms": Mutation(
        lambda: patch.object(TermsOfRun, "_begun_with", lambda *_: None)
    ),
    "nothing is hidden": Mutation(
        lambda: patch.object(terms_module, "hidden_partitions", lambda *_: frozenset())
    ),
    "leader epochs not compared": Mutation(
        lambda: patch.object(Brokers, "_truncated", lambda *_: {}), LOSING
    ),
}
"""By what is left out or done wrong."""
