"""Fences direct sessions, so that halves which they might still deliver can be discarded.

Once InitProducerId succeeded for an id, every transaction of it is decided and its ends stand in
all its partitions, and no later one can begin: the owner never initialises an id twice. So a record
that is written to the direct op topic afterwards has a higher offset than everything that the
session has delivered.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, Producer

from checkback.protocol.direct import is_direct_id_of
from checkback.protocol.properties import DIRECT_ID, PGROUP, text_value
from checkback.protocol.refusals import RecordOrigin
from checkback.sinks.kafka.errors import cause_of
from checkback.sinks.kafka.initialising import initialise
from checkback.sinks.kafka.lookup import RecordReader
from checkback.sinks.kafka.settings import SinkSettings
from checkback.sinks.kafka.source_record import PlacedRecord
from checkback.sinks.plan import Lookup

_log = logging.getLogger(__name__)

BATCH_S: Final = 5.0
"""How long fencing may hold up a batch; the halves that are left come again an interval later. A
group may invent any number of sessions at no cost, but fencing one costs a connection."""
FENCE_S: Final = 2.0
REMEMBERED_MAX: Final = 10_000
TRANSACTION_TIMEOUT_MS: Final = 10_000
"""Of a session that was fenced; nothing is ever written in it."""


class FencedHalf(NamedTuple):
    """A half whose session is fenced.

    Args:
        origin: where it stands.
        identity: its identity's first word, as the state has it.
    """

    origin: RecordOrigin
    identity: int


@dataclass(slots=True)
class SessionFencer:
    """Fences the sessions of halves; kept from batch to batch.

    Args:
        settings: the sink's.
    """

    settings: SinkSettings
    _halves: RecordReader = field(init=False)
    _fenced: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._halves = RecordReader(dict(self.settings.connection), self.settings.topics.half)

    def fence(self, lookups: Sequence[Lookup]) -> list[FencedHalf]:
        """Fence the sessions of these halves; return the halves whose session is fenced.

        If fencing fails, only these halves wait: they stay pending, and the state asks again. A
        half that is gone, or whose id can be no session of its group, has no session to fence.
        After BATCH_S the fencer looks at no further half.
        """
        try:
            return self._fence(lookups)
        finally:
            self._halves.rest()

    def _fence(self, lookups: Sequence[Lookup]) -> list[FencedHalf]:
        done: list[FencedHalf] = []
        deadline_s = time.monotonic() + BATCH_S
        for lookup in lookups:
            found = self._halves.read(lookup.partition, lookup.offset)
            identities = lookup.identity[:, 0].tolist()
            for (offset, half), identity in zip(found, identities, strict=True):
                if time.monotonic() >= deadline_s:
                    return done
                session = self._session_of(half)
                if session is None or self._is_fenced(session, deadline_s):
                    origin = RecordOrigin(self._halves.topic, lookup.partition, offset)
                    done.append(FencedHalf(origin, identity))
        return done

    def close(self) -> None:
        """Give connections up."""
        self._halves.close()

    def _session_of(self, half: PlacedRecord | None) -> str | None:
        headers = None if half is None else half.headers()
        session = text_value(headers or [], DIRECT_ID) or ""
        group = text_value(headers or [], PGROUP) or ""
        return (
            session
            if is_direct_id_of(session, self.settings.pipeline.topic_prefix, group)
            else None
        )

    def _is_fenced(self, session: str, deadline_s: float) -> bool:
        if session in self._fenced:
            return True
        timeout_s = min(FENCE_S, deadline_s - time.monotonic())
        try:
            fence_session(self.settings.connection, self.settings.topics.half, session, timeout_s)
        except KafkaException as error:
            _log.warning(
                "The direct session %s could not be fenced, its halves stay pending: %s",
                session,
                cause_of(error).str(),
            )
            return False
        if len(self._fenced) >= REMEMBERED_MAX:
            self._fenced.clear()
        self._fenced.add(session)
        return True


def fence_session(connection: Any, half_topic: str, session: str, timeout_s: float) -> None:
    """Fence a transactional id for ever: abort its open transaction, end its decided one.

    Args:
        connection: librdkafka settings that reach the brokers.
        half_topic: the topic of halves.
        session: the transactional id.
        timeout_s: how long to try; meanwhile "concurrent transactions" is tried again.

    Raises:
        KafkaException: fencing did not succeed; the session may be fenced or not.
    """
    producer = Producer(
        {
            "allow.auto.create.topics": False,
            **connection,
            "transactional.id": session,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
    )
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            initialise(producer, half_topic, deadline_s - time.monotonic())
        except KafkaException as error:
            if not cause_of(error).retriable() or time.monotonic() >= deadline_s:
                raise
        else:
            return
