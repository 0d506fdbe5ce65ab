"""Reads the former direct op topic to its end at the first start after an upgrade, and leaves it.

Producers once could write final messages themselves, and said so on this topic. What they said
there must be read, or their messages would be written a second time. Afterwards the checkpoint's
plans must not name the topic any more: Spark's Kafka source refuses partitions that it read once
and does not find.

Spark runs an unfinished plan as it stands, so this module writes two plans: one that reads only
this topic, before any op that is unread, and one without records that no longer has the topic. A
start that was killed between two steps goes on where it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.topics import TopicNames
from checkback.streaming.start.planned_run import PlannedRun, create_plan


@dataclass(frozen=True, slots=True)
class DirectOpTopic:
    """The former direct op topic, as a checkpoint knows it.

    Args:
        store: the checkpoint; no query runs over it.
        find_ends: returns where the topic's partitions end, given how many there are, once no
            transaction is open.
    """

    store: CheckpointStore
    topics: TopicNames
    find_ends: Callable[[int], Mapping[int, int]]
    now_ms: Callable[[], int]

    def leave(self, run: Callable[[PlannedRun], bool]) -> bool:
        """Read the topic to its end and take it out of the checkpoint's plans.

        Args:
            run: runs the batch that is planned and not finished; returns whether it finished it.

        Returns:
            False if a batch was not finished, because the job is to stop.

        Raises:
            CheckpointError: a plan can't be read, or a producer still writes to the topic.
            BrokerError: the brokers do not answer, or the topic is gone.
        """
        planned = self._next_run()
        while planned is not None:
            if not run(planned):
                return False
            planned = self._next_run()
        return True

    def _next_run(self) -> PlannedRun | None:
        """Return the next batch to run, None once the topic is left; plan it if none is planned."""
        batch = self.store.last_batch("offsets")
        if batch is None:
            return None
        ends, topic = self.store.planned(batch).ends, self.topics.direct_op
        if self.store.last_batch("commits") != batch:
            if topic in ends:
                return PlannedRun((*self.topics.read, topic), drops_topic=False, batch=batch)
            had_topic = batch > 0 and topic in self.store.planned(batch - 1).ends
            plan = PlannedRun(self.topics.read, drops_topic=True, batch=batch)
            return plan if had_topic else None
        if topic not in ends:
            return None
        read = ends[topic]
        end = self.find_ends(len(read))
        is_unread = any(end[number] > offset for number, offset in read.items())
        without = {name: ends[name] for name in ends if name != topic}
        # Where the job that is replaced has planned meanwhile, its plan is run first.
        create_plan(
            self.store, batch, {**ends, topic: end} if is_unread else without, self.now_ms()
        )
        return self._next_run()
