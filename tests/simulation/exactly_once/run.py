"""One simulated life of a checkpoint: drivers come and go, and all of it follows from one seed.

Real: the sink from `Writers` down (without its compiled part), fencing at start, the look at the
markers before it, the terms of batches with their notes, the rules of the pages. Simulated: Kafka,
time, Spark's logs, state versions, tasks and drivers, applications and how their halves and ops are
sent. Not in it: Spark's JVM, state files and Kafka source, decoding in Java, the ledger, forwarding
inside librdkafka, torn files in the checkpoint but for its newest commit, an operator who sets a
marker together with metadata that looks like the job's, the state that an older driver's tasks
write after a younger driver has decided the same batch by other terms.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import chain
from random import Random

import numpy as np
from confluent_kafka import TopicPartition
from tests.fakes.kafka import Clock, Cluster, FakeAdminClient, SimulatedCrash, installed
from tests.fakes.kafka.groups import Committed, Place
from tests.simulation.exactly_once.actors import Actor, Process, Stage
from tests.simulation.exactly_once.application import HALF_PARTITIONS, NARROW_BYTES, Applications
from tests.simulation.exactly_once.audit import Audit, expired_in
from tests.simulation.exactly_once.checkpoint import Checkpoint, ConcurrentLogError, Plan
from tests.simulation.exactly_once.fates import Chances, Fates
from tests.simulation.exactly_once.pages import Reference, inputs_of
from tests.simulation.exactly_once.spark import Driver
from tests.simulation.exactly_once.terms import Brokers
from tests.simulation.exactly_once.worlds import DAY_MS, World, kind_of, world_of

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, CheckpointError, FencedError
from checkback.protocol.refusals import RefusedReason
from checkback.sinks.settings import SinkSettings
from checkback.state import Action, Outcome
from checkback.streaming.batch.terms import TaskTerms
from checkback.streaming.start.preflight import ClusterFacts

CRASHES = 60
"""The number after which a run calms down."""
STEPS_MAX = 60_000
STARTS_MAX = 400
EVENTS_PER_BATCH_MAX = 12
ALL_TRANSACTIONS_END_MS = 700_000
TOO_LATE = RefusedReason.COMMIT_AFTER_DISCARD


class Run:
    """A checkpoint, the cluster and everybody who works with them.

    Args:
        seed: of everything that is left to chance.
        crashes: how many before the world calms down.
        world: what kind; None: as the seed has it.
        chances: how likely what is at each await.
    """

    def __init__(
        self,
        seed: int,
        crashes: int = CRASHES,
        world: World | None = None,
        chances: Chances | None = None,
    ) -> None:
        self.seed, self.crashes_wanted = seed, crashes
        self.kind = kind_of(world, chances)
        self.random = Random(seed)
        self.world = world or world_of(self.random)
        self.state_partitions = self.world.state_partitions
        self.clock = Clock()
        self.stage = Stage(self.random, self.clock)
        self.fates = Fates(self.stage, self.random, chances or Chances())
        self.cluster = Cluster(self.fates, self._marker_moved)
        self.fates.flushed = self._hasten
        self.stage.ended = self._expect
        self.stage.tick = self.cluster.tick
        self.stage.next_event_ms = self.cluster.coordinator.next_event_ms
        self.checkpoint = Checkpoint(self.fates, overwrites=self.world.overwrites)
        self.checkpoint.planned = self._planned
        self.applications = Applications(self.cluster, self.random)
        self.names = self.applications.names
        self.reference = Reference(self.state_partitions)
        self.audit = Audit(self.cluster, self.applications, self.reference)
        timeout_ms = self.random.choice((5_000, 15_000, 60_000))
        self.settings = Settings(
            state_partitions=self.state_partitions, sink_transaction_timeout_ms=timeout_ms
        )
        self.facts = ClusterFacts("simulated", {}, 0)
        self.sink = SinkSettings(
            Settings(application_id="app", native_sink=False),
            "query",
            {},
            timeout_ms,
            transaction_rows_max=self.random.choice((1, 2, 5, 100_000)),
        )
        self.drivers: list[Driver] = []
        self.ends: Counter[str] = Counter()
        self.starts = 0
        self.is_touched = False
        self.is_refused = False
        self.skew_ms = 0
        self.rules = self.world.rules
        self.brokers = Brokers({}, cluster=self.cluster)
        self.lost_at: int | None = None
        self.sinks: list[Process] = []
        self._stored: list[dict[Place, int]] = []
        self._deciders: list[int] = []
        self._start_at_ms = 0.0

    def go(self) -> Run:
        """Live it to the end.

        Raises:
            AssertionError: something does not hold; its note says how to repeat it.
        """
        try:
            with installed(self.cluster):
                self.applications.make_topics()
                try:
                    self._live()
                    self._end()
                finally:
                    self.stage.end()
        except AssertionError as error:
            error.add_note(f"repeat: {self._command()}")
            raise
        return self

    def _command(self) -> str:
        return repeating_command(self.seed, self.crashes_wanted, self.kind)

    def is_over(self) -> bool:
        """Tell whether all is calm and everything has its verdict."""
        if not self.fates.is_calm or self.reference.pending:
            return False
        plan = self.checkpoint.plans.get(max(self.checkpoint.plans, default=-1))
        return plan is not None and dict(plan.ends) == self._ends(plan, None)

    def make_plan(self, batch: int) -> Plan:
        """Return where the next batch ends: Spark's source looks how far the topics are stable."""
        self.applications.live()
        self._perhaps_calm_down()
        before = self.checkpoint.plans.get(batch - 1)
        most = None if self.fates.is_calm else self.random.choice((3, EVENTS_PER_BATCH_MAX))
        starts = {} if before is None else before.ends
        ends = self._ends(before, most)
        now_ms = int(self.clock.now_ms) + self.skew_ms
        return Plan(now_ms, starts, ends, max(0, self.skew_ms - self.cluster.skew_ms))

    def took_over(self, epoch: int) -> None:
        """Take in that a start has taken over."""
        if not self.is_touched:
            self.audit.took_over(epoch)

    def _planned(self, batch: int, plan: Plan) -> None:
        """Take in that a plan was written."""
        assert batch == len(self._stored), f"batch {batch} was planned twice"
        logs = self.cluster.topics
        self._stored.append({at: logs[at[0]].partitions[at[1]].end for at in plan.ends})

    def decided(self, batch: int, plan: Plan, terms: TaskTerms, epoch: int) -> None:
        """Take in what decides a batch: until something of it is written, a later start's terms."""
        assert self.lost_at is None, f"batch {batch} goes on over topics that lost what was read"
        if batch < len(self.reference.batches):
            if terms == self.reference.terms[batch] or epoch < self._deciders[batch]:
                return
            assert batch == len(self.reference.batches) - 1, f"batch {batch} is decided otherwise"
            self.audit.take_back()
            self.reference.take_back()
            self._deciders.pop()
            self.fates.met["decided by other terms"] += 1
        self._deciders.append(epoch)
        inputs = inputs_of(plan, self.cluster, self.names)
        outcomes = self.reference.extend(plan, terms, inputs)
        self.audit.planned(outcomes)
        for one in chain(*outcomes.values()):
            self._require_no_unread_commit(batch, plan, one)
        self.fates.met["expired"] += expired_in(outcomes)
        self.fates.met["commit after discard"] += sum(
            int(np.count_nonzero(one.detail[one.action == Action.REFUSE_OP] == TOO_LATE))
            for pages in outcomes.values()
            for one in pages
        )

    def _require_no_unread_commit(self, batch: int, plan: Plan, outcome: Outcome) -> None:
        """See that no half is discarded with a commit that was stored before the batch before."""
        is_discard = np.isin(outcome.action, (Action.DISCARD_CHECK_LIMIT, Action.DISCARD_EXPIRED))
        place = (self.names.op, outcome.partition)
        stored = self._stored[batch - 1][place] if batch else 0
        unread = self.cluster.topics[self.names.op].partitions[outcome.partition].records
        named = {int(one.value or 0) for one in unread[plan.ends[place] : stored]}
        lost = named & {*outcome.offset[is_discard].tolist()}
        assert not lost, f"batch {batch} discards {lost} of {place}, whose ops are unread"

    def _expect(self, actor: Actor) -> None:
        """See how somebody ended; nobody may end with a failure that no user was told of."""
        failure = actor.failure
        if failure is None:
            return
        known = (SimulatedCrash, ConcurrentLogError, FencedError, BrokerError, CheckpointError)
        if not isinstance(failure, known):
            raise failure

    def refused(self, error: CheckpointError, batch: int | None = None) -> None:
        """Take in that a start, or a task of a batch, was refused."""
        # A task that comes to life long after its batch finds a marker that tells it nothing.
        late = batch is not None and batch in self.checkpoint.commits
        is_known = self.is_touched or self.lost_at is not None
        assert late or is_known, f"refused though nobody touched a marker: {error}"

    def _ends(self, before: Plan | None, most: int | None) -> dict[tuple[str, int], int]:
        ends, names = {}, self.names
        for topic in (names.half, names.op, names.feedback):
            for partition in range(HALF_PARTITIONS):
                log = self.cluster.topics[topic].partitions[partition]
                first = 0 if before is None else before.ends[topic, partition]
                end = log.last_stable_offset  # as far as Spark's source may read
                if most is not None:
                    # Sometimes a topic is far behind the others: ops are read before their halves.
                    end = min(end, first + most * (self.random.random() > 0.2))
                ends[topic, partition] = end
        return ends

    def _live(self) -> None:
        for _ in range(STEPS_MAX):
            self._tend()
            if self.is_refused or (self._is_still() and self.is_over()):
                return
            self.stage.step()
        raise AssertionError(f"no end after {STEPS_MAX} steps")

    def _is_still(self) -> bool:
        return not self.drivers

    def _tend(self) -> None:
        """See after those who ended, start others, and do what operators and brokers do."""
        for driver in [one for one in self.drivers if one.actor.is_done]:
            self.drivers.remove(driver)
            self._ended(driver)
        if self.is_refused:
            return
        if not self.drivers and not self.is_over():
            self.clock.advance_to(self._start_at_ms)
            self._befall()
            self._start()
        elif not self.fates.is_calm:
            self._disturb()

    def _befall(self) -> None:
        """Do what may be done while no driver runs."""
        draw = self.random.random()
        if self.fates.is_calm:
            return
        if draw < 0.1 and self.checkpoint.lose_commit():
            self.fates.met["commit lost"] += 1
        elif 0.1 < draw < 0.3:
            changed = replace(self.world.rules, check_max=self.random.choice((1, 2, 3)))
            self.rules = changed
            self.fates.met["rules changed"] += 1
        elif 0.3 < draw < 0.5 and self.world.loses_records:
            self._lose_records()

    def _lose_records(self) -> None:
        """Lose the end of a topic, from before what was read; the brokers may store more then."""
        last = max(self.checkpoint.commits, default=-1)
        read = {} if last < 0 else self.checkpoint.plans[last].ends
        places = [at for at, end in read.items() if end and at[0] != self.names.feedback]
        if not places or self.lost_at is not None:
            return
        topic, partition = self.random.choice(sorted(places))
        for process in self.sinks:
            process.is_dead = True
        log = self.cluster.topics[topic].partitions[partition]
        log.elect(self.random.randrange(read[topic, partition]))
        self.lost_at = last
        self.fates.met["records lost"] += 1
        if self.random.random() < 0.5:
            while log.end <= read[topic, partition]:
                self.cluster.write(topic, partition, b"new", b"0", [])
            self.fates.met["topic grew past the old end"] += 1

    def _start(self) -> None:
        self.starts += 1
        assert self.starts <= STARTS_MAX, "drivers start again and again and get nowhere"
        self.drivers.append(Driver(self, self.starts))

    def _ended(self, driver: Driver) -> None:
        failure = driver.actor.failure
        self.ends[type(failure).__name__] += 1
        self.fates.tell(f"{driver.process.name} ended: {failure!r}")
        for process in driver.processes:
            # Some sinks die with their driver, some finish what they are at.
            process.is_dead = process.is_dead or self.random.random() < 0.5
        self.sinks += driver.processes
        if failure is None:
            return
        if isinstance(failure, CheckpointError) and driver.sink is None:
            self.refused(failure)
            self.is_refused = True
        self._start_at_ms = self.clock.now_ms + self.random.choice((0, 500, 20_000))

    def _perhaps_calm_down(self) -> None:
        if self.fates.crashes >= self.crashes_wanted and not self.fates.is_calm:
            self.fates.is_calm = True
            self.applications.calm_down()

    def _disturb(self) -> None:
        draw = self.random.random()
        if draw < 0.006 and self.world.two_drivers and len(self.drivers) == 1:
            self.fates.met["two drivers"] += 1
            self._start()
        elif 0.01 < draw < 0.02:
            self._trouble_brokers()
        elif 0.02 < draw < 0.025 and self.world.touched_markers:
            self._touch_markers()
        elif 0.03 < draw < 0.035 and self.world.days_pass:
            self._let_days_pass()
        elif 0.04 < draw < 0.05:
            self.fates.met["driver's clock set"] += 1
            self.skew_ms = self.random.choice((0, -3_000, 5_000, 60_000))
        elif 0.05 < draw < 0.055:
            self.fates.met["brokers' clock set"] += 1
            self.cluster.skew_ms = self.random.choice((0, 0, -3_000, 20_000))

    def _trouble_brokers(self) -> None:
        random, now_ms = self.random, self.clock.now_ms
        until_ms = now_ms + random.choice((100.0, 3_000.0, 20_000.0))
        match random.randrange(4):
            case 0:
                self.fates.met["coordinator moves"] += 1
                self.cluster.coordinator_moves_until_ms = until_ms
            case 1:
                narrow = self.cluster.topics["narrow"]
                narrow.bytes_max = random.choice((NARROW_BYTES, 1_048_588))
                self.fates.met["topic's limit changed"] += 1
            case _:
                log = random.choice(random.choice([*self.cluster.topics.values()]).partitions)
                log.leaderless_until_ms = until_ms
                log.elect()
                self.fates.met["leader changed"] += 1

    def _let_days_pass(self) -> None:
        """Let halves grow too old."""
        days = self.random.choice((1, 1, 8))
        self.clock.now_ms += days * DAY_MS + self.random.choice((-1_000, 1_000, 60_000))
        self.cluster.tick()
        self.fates.met["days passed"] += 1
        self.fates.tell(f"{days} days passed")

    def _touch_markers(self) -> None:
        """Do to the markers what an operator does by mistake, or what time does."""
        random, group, settled = self.random, self.sink.marker_group, self.names.settled
        admin = FakeAdminClient(self.cluster, {})
        found = self.cluster.group(group).committed
        self.is_touched = True
        how = random.choice(("deleted", "expired", "moved", "moved", "to earliest", "to latest"))
        self.fates.met[f"markers {how}"] += 1
        self.fates.tell(f"markers {how}")
        if how == "deleted":
            admin.delete_consumer_groups([group])
            return
        if how == "expired":
            self.clock.now_ms += random.choice((DAY_MS, 8 * DAY_MS))
            self.cluster.tick()
            self.cluster.expire_offsets()
            return
        places = list(found) if random.random() < 0.5 else list(found)[:1]
        log_ends = [one.end for one in self.cluster.topics[settled].partitions]
        for topic, partition in places:
            now_at = found[topic, partition].offset
            to = {"to earliest": 0, "to latest": log_ends[partition]}.get(how)
            if to is None:
                to = max(0, now_at + random.choice((-3, -2, -1, 1, 2)))
            self.cluster.reset_offsets(group, [TopicPartition(topic, partition, to)])

    def _hasten(self) -> None:
        """Let held up commits arrive when they do most harm: records are there, no marker is."""
        coordinator, now_ms = self.cluster.coordinator, self.clock.now_ms
        if coordinator.late_commits and self.random.random() < 0.5:
            coordinator.late_commits = [
                one._replace(arrives_ms=now_ms) for one in coordinator.late_commits
            ]

    def _marker_moved(self, group: str, _: Place, entry: Committed) -> None:
        # Whoever loses the markers also loses who was the latest.
        if group == self.sink.marker_group and entry.metadata and not self.is_touched:
            self.audit.marker_moved(int(json.loads(entry.metadata)["epoch"]))

    def _end(self) -> None:
        """Let every transaction end, and look at everything."""
        self.fates.is_calm = True
        self.stage.end()
        self.clock.now_ms += ALL_TRANSACTIONS_END_MS
        self.cluster.tick()
        self.cluster.tick()
        committed = max(self.checkpoint.commits, default=-1)
        planned = max(self.checkpoint.plans, default=-1)
        self.audit.at_the_end(committed, planned, is_settled=not self.is_refused)
        self.fates.tell(f"{sorted(self.audit.kinds.items())}")


def repeating_command(seed: int, crashes: int, kind: str = "") -> str:
    """Return the command that runs exactly this again."""
    of_kind = f" --world {kind}" if kind else ""
    return f"python -m tests.simulation.exactly_once {seed} --crashes {crashes}{of_kind}"


def summary(run: Run) -> str:
    """Return a run in one line; the last number is the same whenever the run is."""
    kinds = " ".join(f"{kind}={number}" for kind, number in sorted(run.audit.kinds.items()))
    end = "refused" if run.is_refused else "all settled"
    counts = f"{run.fates.crashes} crashes, {run.starts} starts, {len(run.checkpoint.commits)}"
    return f"{counts} batches, {end}, {kinds}, trace {run.fates.hash:08x}"
