"""The direct path with one of its parts taken out; each has to be caught within a few seeds.

What is patched is the client's, the sink's or the state's own code, and once how Spark reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.simulation.exactly_once import pages as pages_module
from tests.simulation.exactly_once.fates import SERVICE_FAULT_CHANCES
from tests.simulation.exactly_once.mutations import Mutation
from tests.simulation.exactly_once.worlds import KINDS

from checkback.client.check_answer import CheckAnswers
from checkback.client.direct import session as session_module
from checkback.client.direct.direct_checks import DirectChecks
from checkback.client.direct.direct_half import DirectHalf, HalfState
from checkback.client.direct.fences import Fences
from checkback.client.direct.lane import OPEN_S, Lane
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.direct.session import DELIVERY_S, NotDelivered, Session
from checkback.client.listener import LocalTransactionState
from checkback.client.message import MessageExt
from checkback.protocol.records import Op
from checkback.sinks.kafka.sessions import SessionFencer
from checkback.sinks.writer import BatchWriter
from checkback.state import Action
from checkback.state import checks as checks_module
from checkback.state import ops as ops_module
from checkback.state.page import PendingHalves, WaitingOps
from checkback.state.page_builder import PageBuilder
from checkback.state.transitions import Event
from checkback.testing.fake_kafka.log import PartitionLog

STEADY_CRASHES = 6
Broken = AbstractContextManager[Any]


def _always(target: Any, name: str, value: Any) -> Callable[[], Broken]:
    return lambda: patch.object(target, name, lambda *_: value)


def _fence_follows_the_answer() -> Broken:
    honest = CheckAnswers._try_to_send

    def tried(self: CheckAnswers, request: MessageExt, op: Op) -> bool:
        if not request.direct_id or self.direct._own.owns(request.direct_id):
            return honest(self, request, op)
        op = replace(op, direct_closed=request.direct_id)
        is_sent = self.ops.send_confirmed(op, self.try_timeout_s, is_direct=True)
        self.direct.close(request, LocalTransactionState(op.state))
        return is_sent

    return patch.object(CheckAnswers, "_try_to_send", tried)


def _failed_fence_counts_for_an_answer() -> Broken:
    honest = Fences._fence

    def fence(self: Fences, session_id: str, timeout_s: float) -> bool:
        honest(self, session_id, timeout_s)
        return True

    # One fence that succeeds is enough for a session, so most of them have to fail.
    return _both(
        patch.object(Fences, "_fence", fence), patch.dict(SERVICE_FAULT_CHANCES, {"fence": 0.9})
    )


def _op_follows_the_transaction() -> Broken:
    def deliver(self: Session, group: Sequence[DirectHalf]) -> None:
        producer: Any = self._producer
        for number in range(2):
            producer.begin_transaction()
            for half in group:
                topic, partition, key, value, headers, time_ms = half.records[number]
                producer.produce(topic, value, key, partition, None, None, time_ms, headers)
            if producer.flush(DELIVERY_S):
                raise NotDelivered("not acknowledged")
            producer.commit_transaction(DELIVERY_S)

    return patch.object(Session, "_deliver", deliver)


def _fenced_so_once_more() -> Broken:
    honest = Lane._deliver

    def deliver(self: Lane, session: Session, group: list[DirectHalf]) -> None:
        try:
            session.deliver(group)
        except NotDelivered as lost:
            self._drop_session(str(lost))
            self._open()
            if self._session is None:
                self._fall_back(group, lost)
                return
            session = self._session
            honest(self, session, group)
        else:
            for half in group:
                self._own.end(half, delivered=True)

    return patch.object(Lane, "_deliver", deliver)


def _owner_answers_for_what_is_under_way() -> Broken:
    def close(self: DirectChecks, request: MessageExt, _: Any) -> str:
        return request.direct_id

    return patch.object(DirectChecks, "_close_own", close)


def _closed_and_delivered_all_the_same() -> Broken:
    def take(self: OwnHalves, half: DirectHalf) -> bool:
        half.state = HalfState.IN_TRANSACTION
        return True

    return patch.object(OwnHalves, "take", take)


def _delivered_op_is_not_kept() -> Broken:
    honest = ops_module._let_wait

    def let_wait(builder: PageBuilder, ops: WaitingOps) -> Any:
        fits = honest(builder, ops)
        builder.waiting = builder.waiting.take(~ops_module.is_delivered(builder.waiting.state))
        return fits

    return patch.object(ops_module, "_let_wait", let_wait)


def _old_client_is_believed() -> Broken:
    return patch.multiple(ops_module, TRANSACTION_COMMIT_TYPE=-1, TRANSACTION_ROLLBACK_TYPE=-1)


def _direct_halves_are_discarded_at_once() -> Broken:
    def none(halves: PendingHalves) -> Any:
        return np.zeros(len(halves), np.bool_)

    return patch.object(checks_module, "may_be_delivered", none)


def _expired_halves_are_discarded_at_once() -> Broken:
    honest = checks_module._fence

    def fence(builder: PageBuilder, rows: Any) -> None:
        is_used_up = builder.halves.check_times[rows] >= builder.rules.check_max
        expired = rows[~is_used_up]
        checks_module._discard(builder, expired, Event.HALF_RETENTION_OVER, Action.DISCARD_EXPIRED)
        honest(builder, rows[is_used_up])

    return patch.object(checks_module, "_fence", fence)


def _expired_session_is_opened_again() -> Broken:
    honest = Session.deliver

    def deliver(self: Session, group: Sequence[DirectHalf]) -> None:
        try:
            honest(self, group)
        except NotDelivered:
            producer: Any = self._producer
            if self.session_id in producer._cluster.coordinator.identities:
                raise
            self.initialise(OPEN_S)
            honest(self, group)

    return patch.object(Session, "deliver", deliver)


def _delivered_op_counts_as_a_commit() -> Broken:
    action_of = ops_module._ACTION_OF.copy()
    action_of[Event.DELIVERED] = Action.COMMIT
    return patch.object(ops_module, "_ACTION_OF", action_of)


def _ops_are_read_before_they_are_committed() -> Broken:
    def is_read(log: PartitionLog, offset: int) -> bool:
        return not log.records[offset].is_marker

    return _both(
        patch.object(pages_module, "read_until", lambda log: log.end),
        patch.object(pages_module, "is_read", is_read),
    )


@contextmanager
def _both(*patches: Broken) -> Any:
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


STEADY_MUTATIONS: dict[str, Mutation] = {
    name: Mutation(broken, *KINDS["steady"], crashes=STEADY_CRASHES)
    for name, broken in {
        "an answerer that does not fence": _always(Fences, "fence", True),
        "the fence follows the answer": _fence_follows_the_answer,
        "a failed fence counts for an answer": _failed_fence_counts_for_an_answer,
        "a discard without a fence": _always(SessionFencer, "_is_fenced", True),
        "a fence without feedback": _always(BatchWriter, "_fence", []),
        "direct halves are discarded at once": _direct_halves_are_discarded_at_once,
        "the op follows the transaction": _op_follows_the_transaction,
        "fenced, so once more": _fenced_so_once_more,
        "a session goes on after a repeated commit": lambda: patch.object(
            session_module, "SLOW_COMMIT_S", DELIVERY_S
        ),
        "an owner answers for what is under way": _owner_answers_for_what_is_under_way,
        "closed, and delivered all the same": _closed_and_delivered_all_the_same,
        "a delivered op is not kept for its half": _delivered_op_is_not_kept,
        "a delivered op counts as a commit": _delivered_op_counts_as_a_commit,
        "an old client is believed": _old_client_is_believed,
        "ops are read before they are committed": _ops_are_read_before_they_are_committed,
    }.items()
}
DIRECT_MUTATIONS = STEADY_MUTATIONS | {
    name: Mutation(broken, *KINDS["expiring"], crashes=STEADY_CRASHES)
    for name, broken in {
        "expired halves are discarded at once": _expired_halves_are_discarded_at_once,
        "an expired session is opened again": _expired_session_is_opened_again,
    }.items()
}
"""By what is left out or done wrong."""
