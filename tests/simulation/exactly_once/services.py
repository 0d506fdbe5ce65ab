"""Processes of applications that deliver directly, with the client's own code in them.

Real: lanes, sessions, what is known of own halves, fences, answers to checks. Simulated: how a half
and an op get to their topics, the local transaction, and which process is asked. A process dies or
is suspended at any call; what it does when it wakes up is up to the client's code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.simulation.exactly_once.actors import Process, Stage
from tests.simulation.exactly_once.fates import Fates
from tests.simulation.exactly_once.service_clients import Facts, Fencer, Sender
from tests.simulation.exactly_once.staged import StagedEvent, StagedQueue

from checkback.client.broker_clock import BrokerClock
from checkback.client.callback_result import CallbackResult
from checkback.client.check_answer import CheckAnswers
from checkback.client.check_request import read_check_request
from checkback.client.counters import ClientEvent, Counters
from checkback.client.direct.delivery import DirectDelivery, DirectSettings
from checkback.client.direct.direct_checks import DirectChecks
from checkback.client.direct.direct_half import DirectHalf
from checkback.client.direct.fences import Fences
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.direct.session import (
    RETRY_BACKOFF_MS,
    TRANSACTION_TIMEOUT_MS,
    NotDelivered,
)
from checkback.client.doubts import Doubts
from checkback.client.half import Half
from checkback.client.listener import LocalTransactionState, TransactionListener
from checkback.client.message import Message, MessageExt
from checkback.client.polled_producer import ThreadReport
from checkback.protocol.properties import OP_TAG_FENCED, TAGS, text_value
from checkback.protocol.records import Op, half_headers
from checkback.testing.fake_kafka import Cluster, Fault
from checkback.testing.fake_kafka.log import Record

if TYPE_CHECKING:
    from tests.simulation.exactly_once.application import Applications, Transaction

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
SERVICES_MAX = 9
HALF_PARTITIONS = 2
FENCE_S = 0.5
WAKES_WITHIN_MS = 4_000.0
TOPICS = (*("orders", "bills") * 4, "narrow", "nowhere")
"""One message that is rejected undoes the transaction of its group, and the topics pause."""
STOP = "stop"


class Delivery(DirectDelivery):
    """The client's, which tells what the run has met."""

    met: Counter[str]

    def fell_back(self, group: list[DirectHalf], lost: NotDelivered | None) -> None:
        if lost is not None:
            self.met["owner was fenced" if lost.is_ended else "owner in doubt"] += 1
        super().fell_back(group, lost)


@dataclass(slots=True)
class Services:
    """All processes that deliver directly.

    Args:
        applications: whose transactions these are.
        stage: where they run.
        fates: what happens to them.
    """

    applications: Applications
    stage: Stage
    fates: Fates
    alive: list[Service] = field(default_factory=list)
    started: int = 0
    session_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    _spoken_for: Counter[tuple[str, str]] = field(default_factory=Counter)
    _looked_until: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.fates.spoken_for = self.spoken_for
        # Nothing may depend on it.
        self.session_timeout_ms = self.random.choice((TRANSACTION_TIMEOUT_MS, 600_000))

    def answered(self, op: Op, by: Process) -> None:
        """Take in that a check was answered."""
        of = self.applications.transactions[op.half_partition, op.half_offset].process
        if of is not None:
            self._spoken_for[of.name, "answered"] += 1
            self.fates.met["a check is answered for another"] += of is not by

    def spoken_for(self, process: Process, how: str) -> int:
        """Return how often checks of a process were answered, or it was fenced for a discard."""
        transactions = self.applications.transactions
        for log in self.cluster.topics[self.applications.names.direct_op].partitions:
            if self._looked_until[log.number] == len(log.records):
                continue
            for offset in range(self._looked_until[log.number], log.end):
                record = log.records[offset]
                if text_value(record.headers, TAGS) == OP_TAG_FENCED:
                    of = transactions[log.number, int(record.value or 0)].process
                    self._spoken_for["" if of is None else of.name, "fenced"] += 1
            self._looked_until[log.number] = log.end
        return self._spoken_for[process.name, how]

    @property
    def cluster(self) -> Cluster:
        return self.applications.cluster

    @property
    def random(self) -> Random:
        return self.applications.random

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody has anything to do, or has anything on its way."""
        own = [actor for actor in self.stage.actors if actor.process.is_service]
        is_busy = not all(actor.idles for actor in own) or bool(self.stage.ready(own))
        logs = self.cluster.topics[self.applications.names.direct_op].partitions
        is_open = any(log.last_stable_offset < log.end for log in logs)
        return not (is_busy or is_open or self.cluster.coordinator.late_commits)

    def live(self) -> None:
        """Give everybody something to do; sometimes one more process starts."""
        self.alive = [one for one in self.alive if not one.process.is_dead]
        chance = 0.7 if len(self.alive) < 3 else 0.3
        if len(self.alive) < SERVICES_MAX and self.random.random() < chance:
            self._start(self.random.choice(("g0", "g0", "g0", "g1", "g2")))
        for one in self.alive:
            for _ in range(self.random.choice((0, 1, 1, 2))):
                one.orders.put("order")
            if self.random.random() < 0.01:
                one.orders.put(STOP)

    def calm_down(self) -> None:
        """See to it that each group is answered for, and that nobody sleeps for long."""
        self.alive = [one for one in self.alive if not one.process.is_dead]
        for group in ("g0", "g1", "g2"):
            if all(one.group != group for one in self.alive):
                self._start(group)
        latest_ms = self.cluster.clock.now_ms + WAKES_WITHIN_MS
        for actor in self.stage.actors:
            if actor.process.is_service and not actor.idles:
                actor.until_ms = min(actor.until_ms, latest_ms)
        coordinator = self.cluster.coordinator
        coordinator.late_commits = [
            one._replace(arrives_ms=min(one.arrives_ms, latest_ms))
            for one in coordinator.late_commits
        ]

    def ask(self, one: Transaction, record: Record) -> None:
        """Have a check request answered by any process of its group, or by nobody."""
        draw = 1.0 if self.applications.is_calm else self.random.random()
        if draw < 0.1 and one.state is not None:
            self.fates.met["an old client answers"] += 1
            self.applications.send_op(one)  # it knows neither the other topic nor fences
        if draw < 0.4:
            return
        of_group = [service for service in self.alive if service.group == f"g{one.group}"]
        asked = self.random.sample(of_group, min(len(of_group), 1 + (draw < 0.5)))
        for service in asked:
            request = read_check_request(
                record.key, record.value, record.headers, record.timestamp_ms
            )
            service.requests.put(request)

    def _start(self, group: str) -> None:
        self.started += 1
        self.alive.append(Service(self, f"service {self.started}", group))


class Service(TransactionListener):
    """One process of a group.

    Args:
        services: among which it is.
        name: of the process.
        group: its producer group.
    """

    def __init__(self, services: Services, name: str, group: str) -> None:
        self.services = services
        self.group = group
        self.process = Process(name, is_service=True)
        stage = services.stage
        self.orders: StagedQueue[str] = StagedQueue(stage)
        self.requests: StagedQueue[MessageExt] = StagedQueue(stage)
        self._ops: StagedQueue[tuple[str, Op]] = StagedQueue(stage)
        self._facts: Any = Facts(services.cluster)
        stage.spawn(name, self.process, self._run)

    def _run(self) -> None:
        """Begin, then take orders."""
        self.delivery, answers = self._client()
        self._spawn("ops", self._send_ops)
        self.delivery.start(FENCE_S)
        self._spawn("checks", lambda: self._answer(answers))
        while self.orders.get() != STOP:
            self._take_order()
        self.services.fates.met["service stopped"] += 1
        self.delivery.close(lambda: FENCE_S)
        self.process.is_dead = True

    def _client(self) -> tuple[DirectDelivery, CheckAnswers]:
        names = self.services.applications.names
        own, counters, ops = OwnHalves(), Counters(self._counted), self._as_ops()
        fences = Fences(self._open_fencer, names.prefix, self.group, counters)
        settings = DirectSettings(
            topics=names,
            producer_group=self.group,
            lanes=1,
            waits=False,
            open_producer=self._open_producer,
        )
        delivery = Delivery(settings, own, fences, self._facts, ops, counters)
        delivery.met = self.services.fates.met
        clock, now_ms = BrokerClock(), self.services.cluster.clock.now_ms
        clock.learn(now_ms, now_ms)
        stopping: Any = StagedEvent(self.services.stage)
        answers = CheckAnswers(
            listener=self,
            producer_group=self.group,
            doubts=Doubts(),
            ops=ops,
            direct=DirectChecks(own, fences, FENCE_S),
            counters=counters,
            clock=clock,
            try_timeout_s=FENCE_S,
            stopping=stopping,
        )
        return delivery, answers

    def _as_ops(self) -> Any:
        return SimpleNamespace(send_one_way=self._send_one_way, send_confirmed=self._send_confirmed)

    def _spawn(self, name: str, body: Any) -> None:
        self.services.stage.spawn(f"{self.process.name} {name}", self.process, body)

    def _counted(self, event: ClientEvent) -> None:
        self.services.fates.met[f"client {event.value}"] += 1

    def _open_producer(self, session_id: str) -> Sender:
        return Sender(self.services.cluster, self._settings(session_id))

    def _open_fencer(self, session_id: str) -> Fencer:
        return Fencer(self.services.cluster, self._settings(session_id))

    def _settings(self, session_id: str) -> dict[str, Any]:
        return {
            "transactional.id": session_id,
            "transaction.timeout.ms": self.services.session_timeout_ms,
            "retry.backoff.ms": RETRY_BACKOFF_MS,
        }

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Run it: the database knows from here on."""
        del message
        fates, one = self.services.fates, arg
        fates.before("local transaction")
        state = self.services.random.choice((COMMIT, COMMIT, COMMIT, ROLLBACK))
        one.state = int(state)
        fates.after("local transaction")
        return UNKNOW if self.services.random.random() < 0.1 else state

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Ask the database, which rolls back what its client left open."""
        applications = self.services.applications
        one = applications.transactions[message.half_queue, message.queue_offset]
        if one.state is None and one.process is not None and one.process.is_dead:
            one.state = int(ROLLBACK)
        if one.state is None or (not applications.is_calm and self.services.random.random() < 0.1):
            return UNKNOW
        return LocalTransactionState(one.state)

    def _take_order(self) -> None:
        applications = self.services.applications
        one, topic = applications.new_transaction(int(self.group[1:]), TOPICS)
        one.state, one.process = None, self.process
        message = Message(topic, one.body, transaction_id=f"t{one.number}", keys=f"k{one.number}")
        headers = half_headers(
            producer_group=self.group,
            transaction_id=message.transaction_id,
            real_topic=topic,
            properties={},
        )
        half = Half(message, message.record_key(), headers, lambda: message.transaction_id, 1.0)
        self.delivery.bind(half)
        self._store(half, one)
        state = self.execute_local_transaction(message, one)
        if half.direct is not None:
            self.delivery.finish(half, half.direct, CallbackResult(state), ThreadReport)
        else:
            self._send_one_way(*one.position, message.transaction_id, state)

    def _store(self, half: Half, one: Transaction) -> None:
        services = self.services
        services.fates.before("send half")
        partition = services.random.randrange(HALF_PARTITIONS)
        topic = services.applications.names.half
        offset = services.cluster.write(topic, partition, half.key, half.message.body, half.headers)
        half.partition, half.offset = partition, offset
        half.timestamp_ms = int(services.cluster.clock.now_ms)
        one.position = partition, offset
        if half.direct is not None:
            one.session_id = half.direct.session_id
        services.applications.transactions[one.position] = one
        services.fates.after("send half")

    def _answer(self, answers: CheckAnswers) -> None:
        while True:
            answers.answer(self.requests.get())

    def _send_one_way(
        self,
        partition: int,
        offset: int,
        transaction_id: str,
        state: LocalTransactionState,
        remark: str = "",
        direct_closed: str = "",
    ) -> None:
        """Queue an op, as the client does: it is sent when its producer gets to it."""
        names = self.services.applications.names
        op = Op(
            *(partition, offset, self.group, transaction_id, int(state)),
            remark=remark,
            direct_closed=direct_closed,
        )
        self._ops.put((names.direct_op if direct_closed else names.op, op))

    def _send_ops(self) -> None:
        while True:
            topic, op = self._ops.get()
            if self.services.fates.before("send op") is None:
                self._write(topic, op)
            self.services.fates.after("send op")

    def _send_confirmed(self, op: Op, timeout_s: float, *, is_direct: bool = False) -> bool:
        del timeout_s
        names = self.services.applications.names
        fault = self.services.fates.before("confirm op")
        if fault is not Fault.REFUSED:
            self._write(names.direct_op if is_direct else names.op, op)
            self.services.answered(op, self.process)
        self.services.fates.after("confirm op")
        return fault is None

    def _write(self, topic: str, op: Op) -> None:
        self.services.cluster.write(topic, op.half_partition, op.key(), op.value(), op.headers())
