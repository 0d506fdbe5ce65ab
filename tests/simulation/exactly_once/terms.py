"""The job's own terms of batches, over the simulated checkpoint and brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from tests.fakes.kafka import Cluster
from tests.fakes.kafka.awaits import Fault
from tests.simulation.exactly_once.checkpoint import Checkpoint, Plan
from tests.simulation.exactly_once.pages import PAGE_SIZE

from checkback.checkpoints.own_files.batch_terms import AccessVersion, newest_terms
from checkback.checkpoints.spark_files.logs import PlannedBatch
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.read.list_offsets import LogEnd, Place
from checkback.sinks.settings import SinkSettings
from checkback.state import Rules
from checkback.streaming.batch.run_batch import is_begun
from checkback.streaming.batch.terms import TaskTerms, TermsOfRun
from checkback.streaming.start.kept_records import KeptRecords, LogEnds


@dataclass(frozen=True, slots=True)
class Brokers(KeptRecords):
    """Where partitions end, and where leader epochs ended.

    Args:
        cluster: of simulated brokers.
    """

    cluster: Cluster = None  # type: ignore[assignment]

    def log_ends(self, places: Collection[Place]) -> LogEnds:
        silent = self.cluster.enter("list_offsets") is Fault.REFUSED
        logs = {place: self.cluster.topics[place[0]].partitions[place[1]] for place in places}
        found = {} if silent else {at: LogEnd(log.end, log.epoch) for at, log in logs.items()}
        self.cluster.awaits.after("list_offsets")
        return found

    def _confirmed(self, read: object, ends: LogEnds) -> LogEnds:  # noqa: ARG002
        return ends

    def _truncated(self, changed: dict[Place, tuple[int, int]]) -> dict[Place, int]:  # type: ignore[override]
        ended = {
            (topic, number): self.cluster.topics[topic].partitions[number].end_of(epoch)
            for (topic, number), (_, epoch) in changed.items()
        }
        return {place: end for place, end in ended.items() if end < changed[place][0]}


@dataclass(frozen=True, slots=True)
class Plans:
    """A checkpoint's plans as its readers see them."""

    checkpoint: Checkpoint

    def planned(self, batch: int) -> PlannedBatch:
        plan = self.checkpoint.plans[batch]
        ends: dict[str, dict[int, int]] = {}
        for (topic, number), end in plan.ends.items():
            ends.setdefault(topic, {})[number] = end
        return PlannedBatch(plan.now_ms, ends, {})


def require_kept(brokers: Brokers, checkpoint: Checkpoint) -> None:
    """Refuse a start as the job does.

    Raises:
        CheckpointError: Kafka lost what was read.
    """
    last = checkpoint.last_batch("commits")
    noted = newest_terms(checkpoint)  # type: ignore[arg-type]
    if last is not None:
        read = checkpoint.plans[last].ends
        epochs = {} if noted is None else noted.leader_epochs
        brokers.require(read, epochs, brokers.log_ends(read))


class Terms:
    """Decides a driver's batches.

    Args:
        brokers: as it sees them.
        checkpoint: of the job.
        sink: with this start's epoch.
        state_partitions: of the job.
        rules: of this start.
        half_topic: the name.
    """

    def __init__(
        self,
        brokers: Brokers,
        checkpoint: Checkpoint,
        sink: SinkSettings,
        state_partitions: int,
        rules: Rules,
        names: TopicNames,
    ) -> None:
        self._ahead_ms = 0
        begun: Callable[[int], bool] = partial(is_begun, sink, state_partitions, None)
        self._run = TermsOfRun(
            checkpoint,  # type: ignore[arg-type]
            Plans(checkpoint),  # type: ignore[arg-type]
            rules,
            AccessVersion(),
            brokers.log_ends,
            brokers.require,
            dict,
            lambda: self._ahead_ms,
            begun,
            names.half,
            PAGE_SIZE,
        )

    def of(self, batch: int, plan: Plan) -> TaskTerms:
        """Return what decides a batch that is planned."""
        self._ahead_ms = plan.ahead_ms
        plans = self._run.plans_of(batch)
        found = self._run._of_batch(batch, plans)
        until_ms = plans.read_until_ms(found.clock_ahead_ms)
        return TaskTerms(found.rules, until_ms, found.hidden, found.clock_ahead_ms)
