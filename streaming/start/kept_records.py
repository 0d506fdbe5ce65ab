"""Finds out whether Kafka has lost records that the job has read.

Kafka can lose the end of a partition: a replica that lacked it became the leader (an unclean
election), or a disk lost it. Then other halves get offsets that the state knows, and their ops
would meet the verdicts of the lost halves. If the partition now ends before the offset that was
read, the loss is plain. If it has grown past that offset, it has a later leader epoch, because
Kafka raises the epoch with each election. The leader then says where the epoch ended in which the
records were read (KIP-320).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.own_files.batch_terms import LeaderEpoch
from checkback.protocol.errors import BrokerError, CheckpointError
from checkback.sinks.kafka.read.errors import require_passing
from checkback.sinks.kafka.read.list_offsets import LogEnd, Place, by_place, listed_ends
from checkback.sinks.kafka.read.record_reader import LOOKUP_CONSUMER, REPORTS_END

TIMEOUT_S: Final = 10.0
READ_S: Final = 30.0
CONFIRM_S: Final = 12.0
"""How long a partition has to end too early. A leader that was just replaced and does not know it
yet returns an old end, until the controller misses the leader (9 s by Kafka's default)."""
PAUSE_S: Final = 2.0
NO_RESET: Final = {"auto.offset.reset": "error", "isolation.level": "read_uncommitted"}
ANSWERED: Final = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})
TRUNCATED: Final = re.compile(r"truncation detected at .* end offset is (-?\d+)")
"""In librdkafka's error; without this text, retention has passed the offset."""
REMEDY: Final = "Run `checkback checkpoint rebuild`; see `checkback docs bad-days`."

LogEnds = Mapping[Place, LogEnd]
LeaderEpochs = Mapping[Place, LeaderEpoch]


def read_to(checkpoint: ReadableCheckpoint) -> dict[Place, int]:
    """Return the offset up to which a checkpoint has read each partition; {} if it has no plan.

    A plan that can't be read gives {}, too: other checks of the start report it.
    """
    last = checkpoint.last_batch("commits")
    with suppress(CheckpointError):
        return {} if last is None else by_place(checkpoint.planned(last).ends)
    return {}


def log_ends(admin: AdminClient, places: Collection[Place]) -> LogEnds:
    """Return the end of each partition; nothing if brokers are silent.

    Records of open transactions count: they are stored, though read_committed readers do not see
    them.
    """
    try:
        return listed_ends(admin, places, timeout_s=TIMEOUT_S, retry_s=TIMEOUT_S)
    except BrokerError:
        return {}


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """Compares what was read with what the brokers have."""

    connection: Mapping[str, Any]
    pause: Callable[[float], object] = time.sleep

    def require(self, read: Mapping[Place, int], epochs: LeaderEpochs, ends: LogEnds) -> LogEnds:
        """Refuse partitions that lost records which were read.

        Args:
            read: the offset up to which each partition was read.
            epochs: the leader epoch of each when it was read, as far as it is known.
            ends: the partitions' ends now; a partition without one passes.

        Returns:
            The ends; those that came too early were asked for again.

        Raises:
            CheckpointError: says what is lost.
            BrokerError: the brokers do not answer.
        """
        lost, ends = self.lost(read, epochs, ends)
        if lost:
            raise CheckpointError(
                f"Kafka lost records that the job had read: {' '.join(lost.values())}",
                remedy=REMEDY,
                lost=[*lost],
            )
        return ends

    def lost(
        self, read: Mapping[Place, int], epochs: LeaderEpochs, ends: LogEnds
    ) -> tuple[dict[str, str], LogEnds]:
        """Return what each partition lost that `require` refuses, and the ends as it does."""
        ends = self._confirmed(read, ends)
        known = {place: at for place, at in sorted(read.items()) if place in ends}
        early = {place: ends[place].offset for place in _too_early(known, ends)}
        changed = {
            place: (min(at, epochs[place].read_to), epochs[place].number)
            for place, at in known.items()
            if place not in early
            and place in epochs
            and ends[place].leader_epoch > epochs[place].number
        }
        found = early | (self._truncated(changed) if changed else {})
        return {
            f"{topic}-{number}": f"{topic}-{number} was read up to offset {known[topic, number]},"
            f" and lost what stood from offset {lost_from} on."
            for (topic, number), lost_from in sorted(found.items())
        }, ends

    def _confirmed(self, read: Mapping[Place, int], ends: LogEnds) -> LogEnds:
        """Return the ends; those that come too early are asked for again for a while."""
        until_s = time.monotonic() + CONFIRM_S
        early = _too_early(read, ends)
        while early and time.monotonic() < until_s:
            self.pause(PAUSE_S)
            # A new client asks again which broker leads.
            found = log_ends(AdminClient({**self.connection}), early)
            ends = {place: end for place, end in ends.items() if place not in early} | {**found}
            early = _too_early(read, ends)
        return ends

    def _truncated(self, changed: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
        """Return the offset from which on records were lost, of the partitions that lost some.

        Args:
            changed: by partition, up to where it was read, and the leader epoch of that time.
        """
        consumer = Consumer({**LOOKUP_CONSUMER, **REPORTS_END, **self.connection, **NO_RESET})
        found: dict[Place, int] = {}
        left = {*changed}
        until_s = time.monotonic() + READ_S
        with closing(consumer):
            consumer.assign(
                [
                    TopicPartition(*place, at, leader_epoch=epoch)
                    for place, (at, epoch) in changed.items()
                ]
            )
            while left:
                # Before it reads on, librdkafka asks the leader where the epoch ended (KIP-320).
                record = consumer.poll(max(0.0, until_s - time.monotonic()))
                if record is None:
                    raise _no_answer(left)
                place, error = (str(record.topic()), int(record.partition() or 0)), record.error()
                if error is not None and error.code() not in ANSWERED:
                    require_passing(error, *place)
                    continue
                left.discard(place)
                gone = None if error is None else TRUNCATED.search(error.str())
                found |= {} if gone is None else {place: int(gone[1])}
        return found


def _no_answer(places: Collection[Place]) -> BrokerError:
    names = ", ".join(f"{topic}-{number}" for topic, number in sorted(places))
    return BrokerError(
        f"The brokers do not say whether {names} lost records.",
        remedy="Check that all brokers are up, and this user's rights on the topics.",
    )


def _too_early(read: Mapping[Place, int], ends: LogEnds) -> list[Place]:
    return [place for place, at in read.items() if place in ends and ends[place].offset < at]
