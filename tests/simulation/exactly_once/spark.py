"""A driver of Spark's and its tasks, with the real fencing and the real sink under them.

As Spark does: the plan of a batch is written before it is run and its commit after the sink; a task
begins with version N of its state and leaves version N+1 before the sink writes; a task whose
process died is tried again elsewhere, one that seems to hang also, without the first being stopped;
four failures of a task end the query.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.fakes.kafka import SimulatedCrash
from tests.simulation.exactly_once.actors import Actor, Process
from tests.simulation.exactly_once.checkpoint import Pages, Plan
from tests.simulation.exactly_once.pages import decided, inputs_of
from tests.simulation.exactly_once.terms import Terms, require_kept

from checkback.protocol.errors import CheckpointError
from checkback.sinks.kafka.transaction.epoch import EpochWatch
from checkback.sinks.process.writer_pool import WriteRequest, Writers
from checkback.sinks.report import BatchReport
from checkback.sinks.settings import SinkSettings
from checkback.streaming.batch.terms import TaskTerms
from checkback.streaming.start.takeover import fence_older

if TYPE_CHECKING:
    from tests.simulation.exactly_once.run import Run

FAILURES_MAX = 4
ATTEMPTS_AT_ONCE_MAX = 3
HANGS_AFTER_MS = (3_000.0, 8_000.0)


@dataclass(slots=True, eq=False)
class Executor:
    """The sink process of one state partition on one executor, and who is at work in it."""

    process: Process
    writers: Writers = field(default_factory=Writers)
    at_work: Actor | None = None

    @property
    def is_idle(self) -> bool:
        return not self.process.is_dead and (self.at_work is None or self.at_work.is_done)


@dataclass(slots=True, eq=False)
class TaskSet:
    """The tries of one state partition's task in one batch."""

    state_partition: int
    running: list[Actor] = field(default_factory=list)
    failures: int = 0
    started: int = 0
    patient_until_ms: float = 0.0


class Driver:
    """One run of the job.

    Args:
        run: the world.
        number: of this driver, from 1.
    """

    def __init__(self, run: Run, number: int) -> None:
        self.run = run
        self.process = Process(f"driver {number}")
        self.executors: list[list[Executor]] = [[] for _ in range(run.state_partitions)]
        self.sink: SinkSettings | None = None
        self.actor = run.stage.spawn(self.process.name, self.process, self.go)

    @property
    def processes(self) -> list[Process]:
        """The sinks that it started."""
        return [one.process for executors in self.executors for one in executors]

    def go(self) -> None:
        """Take over, then run batch after batch.

        Raises:
            CheckbackError: whatever ends the job.
            ConcurrentLogError: another driver wrote the entry.
        """
        run = self.run
        require_kept(run.brokers, run.checkpoint)
        sink = fence_older(run.sink, run.settings, run.facts, run.checkpoint)  # type: ignore[arg-type]
        self.sink = sink
        run.took_over(sink.epoch)
        watch, parts = EpochWatch(sink), run.state_partitions
        terms = Terms(run.brokers, run.checkpoint, sink, parts, run.rules, run.names)
        batch, plan = self._resume()
        while not run.is_over():
            if plan is None:
                plan = self._plan(batch)
            found = terms.of(batch, plan)
            run.decided(batch, plan, found, sink.epoch)
            self._run_batch(sink, batch, plan, found)
            run.checkpoint.commit(batch)
            run.audit.batch_is_written(batch)
            watch.require_own()
            batch, plan = batch + 1, None

    def _resume(self) -> tuple[int, Plan | None]:
        """Return the batch to begin with: one that was planned and not committed, with its plan."""
        checkpoint = self.run.checkpoint
        planned = checkpoint.last_batch("offsets")
        committed = checkpoint.last_batch("commits")
        if planned is None:
            return 0, None
        if committed == planned:
            return planned + 1, None
        return planned, checkpoint.plans[planned]

    def _plan(self, batch: int) -> Plan:
        plan = self.run.make_plan(batch)
        self.run.checkpoint.plan(batch, plan)
        return plan

    def _run_batch(self, sink: SinkSettings, batch: int, plan: Plan, terms: TaskTerms) -> None:
        self.run.fates.before("begin tasks")
        left = [TaskSet(number) for number in range(self.run.state_partitions)]
        for tasks in left:
            self._try(tasks, sink, batch, plan, terms)
        while left:
            self._wait(left)
            left = [tasks for tasks in left if not self._is_done(tasks, sink, batch, plan, terms)]

    def _wait(self, left: list[TaskSet]) -> None:
        until_ms = min(tasks.patient_until_ms for tasks in left)
        running = [actor for tasks in left for actor in tasks.running]
        self.run.stage.pause(lambda: any(actor.is_done for actor in running), until_ms)

    def _is_done(
        self, tasks: TaskSet, sink: SinkSettings, batch: int, plan: Plan, terms: TaskTerms
    ) -> bool:
        for actor in [one for one in tasks.running if one.is_done]:
            tasks.running.remove(actor)
            if actor.failure is None:
                return True
            if not isinstance(actor.failure, SimulatedCrash):
                tasks.failures += 1
                if tasks.failures == FAILURES_MAX:
                    raise actor.failure
        hangs = self.run.clock.now_ms >= tasks.patient_until_ms
        if not tasks.running or (hangs and len(tasks.running) < ATTEMPTS_AT_ONCE_MAX):
            self._try(tasks, sink, batch, plan, terms)
        elif hangs:
            tasks.patient_until_ms = self.run.clock.now_ms + HANGS_AFTER_MS[1]
        return False

    def _try(
        self, tasks: TaskSet, sink: SinkSettings, batch: int, plan: Plan, terms: TaskTerms
    ) -> None:
        number, run = tasks.state_partition, self.run
        executor = self._executor(number)
        tasks.started += 1
        tasks.patient_until_ms = run.clock.now_ms + run.random.choice(HANGS_AFTER_MS)
        name = f"{executor.process.name} batch {batch} try {tasks.started}"
        actor = run.stage.spawn(
            name, executor.process, lambda: self._task(executor, sink, number, batch, plan, terms)
        )
        executor.at_work = actor
        tasks.running.append(actor)

    def _executor(self, number: int) -> Executor:
        """Return the first idle one, sometimes another: Spark places tasks as it likes."""
        known = self.executors[number]
        idle = [one for one in known if one.is_idle]
        if idle and self.run.random.random() < 0.9:
            return idle[0] if self.run.random.random() < 0.7 else idle[-1]
        name = f"{self.process.name} sink {number}.{len(known)}"
        known.append(Executor(Process(name)))
        return known[-1]

    def _task(
        self,
        executor: Executor,
        sink: SinkSettings,
        number: int,
        batch: int,
        plan: Plan,
        terms: TaskTerms,
    ) -> BatchReport:
        run = self.run
        pages: Pages = run.checkpoint.load(number, batch)
        inputs = inputs_of(plan, run.cluster, run.names)
        outcomes, after = decided(plan, terms, pages, inputs, number, run.state_partitions)
        run.checkpoint.store(number, batch, after, lambda: run.reference.terms[batch] == terms)
        packed = [outcome.pack() for outcome in outcomes]
        try:
            answer = executor.writers.write(WriteRequest(sink, number, batch, packed))
        except CheckpointError as error:
            run.refused(error, batch)
            raise
        return answer.report
