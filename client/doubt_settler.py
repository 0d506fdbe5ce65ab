"""Rolls back halves of which the sender never learnt whether they were stored.

Their local transactions did not run and never will, so the op is rollback. It needs the half's
offset, which no answer told: the half is looked for on its partition. What is not found is not
there, or is settled by a check later.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from checkback.client.counters import Counters, Event
from checkback.client.listener import LocalTransactionState
from checkback.client.op_sender import OpSender
from checkback.client.outcome import remark_of
from checkback.protocol import properties as names
from checkback.protocol.errors import BrokerError
from checkback.protocol.records import Op

_log = logging.getLogger(__name__)

HELD_MAX: Final = 10_000
LOOKS_MAX: Final = 4
PAUSE_S: Final = 1.0
"""Before the first look, and doubled before each further one."""
MARGIN_MS: Final = 60_000
"""Looked back beyond the send, for clocks that differ."""
REMARK: Final = "it was in doubt whether the half was stored; the local transaction did not run"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A half that may have been stored.

    Args:
        partition: where to it was sent.
        transaction_id: its UNIQ_KEY.
        sent_at_ms: when, milliseconds since the epoch.
    """

    partition: int
    transaction_id: str
    sent_at_ms: float


class DoubtSettler:
    """One thread that looks for doubtful halves and sends their rollbacks.

    Args:
        open_reader: opens a consumer without a group.
        half_topic: where to look.
        producer_group: of the ops.
        ops: sends them.
        counters: a rollback that was sent is counted as DOUBT_SETTLED.
    """

    def __init__(
        self,
        open_reader: Callable[[], Any],
        half_topic: str,
        producer_group: str,
        ops: OpSender,
        counters: Counters,
    ) -> None:
        self._open_reader = open_reader
        self._half_topic = half_topic
        self._producer_group = producer_group
        self._ops = ops
        self._counters = counters
        self._doubts: queue.Queue[Doubt] = queue.Queue(HELD_MAX)
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"checkback-doubts-{producer_group}", daemon=True
        )

    def start(self) -> None:
        """Begin to wait for doubts."""
        self._thread.start()

    def settle(self, doubt: Doubt) -> None:
        """Take a doubt in, and return. With too many at once, checks settle the rest."""
        try:
            self._doubts.put_nowait(doubt)
        except queue.Full:
            _log.warning("Too many doubtful halves; a check settles %s", doubt.transaction_id)

    def close(self, timeout_s: float) -> None:
        """Look no further."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                doubts = [self._doubts.get(timeout=PAUSE_S / 4)]
            except queue.Empty:
                continue
            while not self._doubts.empty():
                doubts.append(self._doubts.get_nowait())
            self._look_until_found(doubts)

    def _look_until_found(self, doubts: list[Doubt]) -> None:
        pause_s = PAUSE_S
        for _ in range(LOOKS_MAX):
            if not doubts or self._stopping.wait(pause_s):
                return
            pause_s *= 2
            found = self._look(doubts)
            doubts = [doubt for doubt in doubts if doubt.transaction_id not in found]

    def _look(self, doubts: Iterable[Doubt]) -> set[str]:
        """Look for them once and roll back what is found; return the ids of those."""
        by_partition: dict[int, list[Doubt]] = defaultdict(list)
        for doubt in doubts:
            by_partition[doubt.partition].append(doubt)
        found: set[str] = set()
        try:
            reader = self._open_reader()
            try:
                for partition, some in by_partition.items():
                    found |= self._roll_back(partition, self._find(reader, partition, some))
            finally:
                reader.close()
        except (KafkaError, BrokerError) as error:
            _log.info("Doubtful halves can't be looked for now: %s", remark_of(error))
        return found

    def _find(self, reader: Any, partition: int, doubts: list[Doubt]) -> dict[str, int]:
        """Return the offsets of those halves that are there, by transaction id."""
        where = TopicPartition(self._half_topic, partition)
        since_ms = int(min(doubt.sent_at_ms for doubt in doubts) - MARGIN_MS)
        reader.assign([where])
        first = reader.offsets_for_times({where: since_ms})[where]
        end = reader.end_offsets([where])[where]
        if first is None:
            return {}
        reader.seek(where, first.offset)
        wanted = {doubt.transaction_id for doubt in doubts}
        found: dict[str, int] = {}
        deadline_s = time.monotonic() + PAUSE_S * 10
        while reader.position(where) < end and time.monotonic() < deadline_s:
            records = reader.poll(200).get(where, ())
            found |= matching(records, wanted)
        return found

    def _roll_back(self, partition: int, offsets: Mapping[str, int]) -> set[str]:
        for transaction_id, offset in offsets.items():
            self._ops.send_one_way(
                Op(
                    half_partition=partition,
                    half_offset=offset,
                    producer_group=self._producer_group,
                    transaction_id=transaction_id,
                    state=int(LocalTransactionState.ROLLBACK_MESSAGE),
                    remark=REMARK,
                )
            )
            self._counters.add(Event.DOUBT_SETTLED)
        return set(offsets)


def matching(records: Iterable[Any], wanted: set[str]) -> dict[str, int]:
    """Return the offsets of the records whose transaction ids are wanted, by id."""
    ids = ((names.text_value(record.headers, names.UNIQ_KEY), record.offset) for record in records)
    return {found: offset for found, offset in ids if found in wanted}
