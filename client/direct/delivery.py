"""Direct delivery as the producer uses it: binds halves to lanes, and ends them either way.

A sender whose local transaction committed queues the half and goes on; a lane delivers it. If it is
not certain that the lane delivered it, the producer sends a plain op; the pipeline then reads what
Kafka has, and settles the half.
"""

from __future__ import annotations

import itertools
import logging
import time
import uuid
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from checkback.client.callback_result import CallbackResult
from checkback.client.counters import ClientEvent, Counters
from checkback.client.direct.direct_half import DirectHalf
from checkback.client.direct.fences import Fences
from checkback.client.direct.final_record import DeliveredOps, direct_final
from checkback.client.direct.lane import Lane
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.direct.session import DELIVERY_S, NotDelivered, Session
from checkback.client.direct.topic_pauses import TopicPauses
from checkback.client.half import Half
from checkback.client.listener import LocalTransactionState
from checkback.client.op_producer import OpProducer
from checkback.client.polled_producer import DeliveryReport
from checkback.client.topic_facts import TopicFacts
from checkback.protocol.direct import direct_transactional_id
from checkback.protocol.errors import BrokerError, NotFoundError
from checkback.protocol.properties import DIRECT_ID, HALF_PROTOCOL_ORDER
from checkback.protocol.topics import TopicNames

_log = logging.getLogger(__name__)

DIRECT_ID_AT: Final = len(HALF_PROTOCOL_ORDER)
BACKLOG_MAX: Final = 1_000
"""Most halves that wait in a lane. A sender that queues one more waits until it is delivered, so
senders can't outrun Kafka."""
DELIVERED_S: Final = 3 * DELIVERY_S
"""Longest wait for a delivery: a group under way takes DELIVERY_S, then comes the waiting one."""
END_OWN_S: Final = 2.0

Waiting = TypeVar("Waiting", bound=DeliveryReport)


@dataclass(frozen=True, kw_only=True)
class DirectSettings:
    """What is fixed for all lanes.

    Args:
        topics: names of Checkback's topics.
        producer_group: of the halves.
        lanes: how many.
        waits: whether every caller waits until its message is delivered, or goes the checked way.
        open_producer: opens the producer of a transactional id.
    """

    topics: TopicNames
    producer_group: str
    lanes: int
    waits: bool
    open_producer: Callable[[str], Any]


class DirectDelivery:
    """The lanes of one producer. Threads may share it.

    Args:
        settings: what is fixed.
        own: the sessions and halves of this process.
        fences: ends what a lost session left open.
        facts: knows real topics.
        ops: sends plain ops.
        counters: counts what was delivered, and what fell back.
    """

    def __init__(
        self,
        settings: DirectSettings,
        own: OwnHalves,
        fences: Fences,
        facts: TopicFacts,
        ops: OpProducer,
        counters: Counters,
    ) -> None:
        self._settings = settings
        self._own = own
        self._fences = fences
        self._facts = facts
        self._ops = ops
        self._counters = counters
        self._pauses = TopicPauses()
        self._delivered_ops = DeliveredOps(settings.topics.direct_op, settings.producer_group)
        self._turns = itertools.count()
        self._lanes = [Lane(number, own, self) for number in range(settings.lanes)]

    def start(self, timeout_s: float) -> None:
        """Open the sessions; those that take longer open in the background."""
        for lane in self._lanes:
            lane.start()
        deadline_s = time.monotonic() + timeout_s
        for lane in self._lanes:
            lane.wait_until_open(max(0.0, deadline_s - time.monotonic()))

    def close(self, left_s: Callable[[], float]) -> int:
        """Deliver what waits, then stop; return how many halves could not be waited for."""
        return sum(lane.close(left_s()) for lane in self._lanes)

    def bind(self, half: Half) -> None:
        """Bind a half that was not sent yet to a session, where it can be delivered directly."""
        topic = half.topic
        if self._pauses.is_paused(topic, time.monotonic()):
            return
        if not self._facts.takes_transactions(topic, half.key):
            return
        key = half.key
        number = next(self._turns) if key is None else zlib.crc32(key)
        number %= len(self._lanes)
        session_id = self._lanes[number].session_id
        if not session_id:
            return
        half.headers.insert(DIRECT_ID_AT, (DIRECT_ID, session_id.encode()))
        half.direct = direct = DirectHalf(half.transaction_id, session_id, number)
        self._own.add(direct)
        new_id = half.new_id

        def rename() -> str:
            transaction_id = new_id()
            self._own.rename(direct, transaction_id)
            return transaction_id

        half.new_id = rename

    def finish(
        self,
        half: Half,
        direct: DirectHalf,
        outcome: CallbackResult,
        new_report: Callable[[deque[Any]], Waiting],
    ) -> Waiting | None:
        """End a half whose local transaction ran.

        Args:
            half: where it is stored, and what it says.
            direct: the same half, as it is bound.
            outcome: of its local transaction.
            new_report: makes what the caller can wait for.

        Returns:
            The report that is woken when the half is delivered or goes the checked way; None where
            the caller need not wait.
        """
        direct.partition, direct.offset = half.partition, half.offset
        if outcome.state is LocalTransactionState.COMMIT_MESSAGE:
            queued, report = self._queue(half, direct, new_report)
            if queued:
                return report
            self._counters.add(ClientEvent.DIRECT_FELL_BACK)
        self._own.close(direct)
        self._send_plain(direct, outcome.state, outcome.remark)
        return None

    def new_session_id(self) -> str:
        """Return an id that no session has."""
        settings = self._settings
        return direct_transactional_id(
            settings.topics.prefix, settings.producer_group, uuid.uuid4().hex
        )

    def open_session(self, session_id: str) -> Session:
        """Open a producer of that id, not initialised."""
        return Session(session_id, self._settings.open_producer)

    def delivered(self, group: list[DirectHalf]) -> None:
        """Count halves that consumers see, and wake the senders that wait for them."""
        self._counters.add(ClientEvent.DIRECT_DELIVERED, len(group))
        self._pauses.delivered(_topics_of(group))
        _wake(group)

    def fell_back(self, group: list[DirectHalf], lost: NotDelivered | None) -> None:
        """Send plain ops for halves that are not delivered for certain."""
        self._counters.add(ClientEvent.DIRECT_FELL_BACK, len(group))
        for half in group:
            self._send_plain(half, LocalTransactionState.COMMIT_MESSAGE)
        _wake(group)
        if lost is not None and lost.blames_records:
            topics = _topics_of(group)
            pause_s = self._pauses.failed(topics, time.monotonic())
            _log.warning(
                "Messages for %s go the checked way for %.0f s and more: %s",
                ", ".join(sorted(topics)), pause_s, lost,
            )  # fmt: skip

    def taken_off(self, half: DirectHalf) -> None:
        """Wake the sender of a half that another thread closed to answer its check."""
        self._counters.add(ClientEvent.DIRECT_FELL_BACK)
        _wake([half])

    def end_transaction(self, session_id: str) -> None:
        """Have the brokers end what a lost session left open; readers of its topics wait for it."""
        self._fences.end_own(session_id, END_OWN_S)

    def _queue(
        self, half: Half, direct: DirectHalf, new_report: Callable[[deque[Any]], Waiting]
    ) -> tuple[bool, Waiting | None]:
        """Put a half into its lane; return whether it took it, and the report to wait for, if any.

        A topic can change while a local transaction runs; then the half goes the checked way.
        """
        place = half.partition, half.offset
        try:
            partitions = len(self._facts.topic(half.topic).leaders)
        except (BrokerError, NotFoundError):
            return False, None
        final = direct_final(
            half.headers, half.key, half.body,
            place=place, timestamp_ms=half.timestamp_ms, partitions=partitions,
        )  # fmt: skip
        direct.records = final, self._delivered_ops.op(half.transaction_id, place)
        lane = self._lanes[direct.lane]
        if self._settings.waits or lane.waiting() >= BACKLOG_MAX:
            direct.report = report = new_report(deque())
        else:
            report = None
        return lane.put(direct), report

    def _send_plain(self, half: DirectHalf, state: LocalTransactionState, remark: str = "") -> None:
        self._ops.send_one_way(
            half.partition,
            half.offset,
            half.transaction_id,
            state,
            remark,
            direct_closed=half.session_id,
        )


def _topics_of(group: list[DirectHalf]) -> set[str]:
    return {half.records[0].topic for half in group}


def _wake(group: list[DirectHalf]) -> None:
    for half in group:
        if half.report is not None:
            half.report.wake()
