"""One direct session: a transactional id that is initialised once, and never again by its owner.

A group of halves is one Kafka transaction: for each its final message and a *delivered* op. All
records are acknowledged before the commit is sent. Any failure ends the session: the commit may
have succeeded although its answer was lost, and only the pipeline sees that.

A repeated commit ends the session as well, after the group: with the first transaction protocol
brokers mistake a late duplicate of a commit for the commit of the next transaction (KIP-890).
librdkafka repeats a commit by itself, but never sooner than four fifths of `retry.backoff.ms`. So a
commit that took less time was sent once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from checkback.client.direct.direct_half import DirectHalf
from checkback.client.send_errors import cause_of

TRANSACTION_TIMEOUT_MS: Final = 5_000
"""After this time the brokers abort the transaction of a killed process; they look every 10 s by
default. Until then, readers of committed messages wait on the partitions that it wrote to. The time
must be longer than a session tries: if the brokers abort its transaction meanwhile, the session is
lost."""
DELIVERY_S: Final = 4.0
"""How long a session tries one group; after that its halves go the checked way."""
RETRY_BACKOFF_MS: Final = 500
SLOW_COMMIT_S: Final = 0.3
"""Less than the 400 ms after which librdkafka repeats a commit at the earliest."""

SESSION_CODES: Final = frozenset(
    {
        KafkaError._FENCED, KafkaError._FATAL, KafkaError._STATE, KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT, KafkaError._MSG_TIMED_OUT, KafkaError._ALL_BROKERS_DOWN,
        KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_TXN_STATE, KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.REQUEST_TIMED_OUT,
    }
)  # fmt: skip
"""Errors of the session or the brokers; a topic or a record may cause all others."""
ENDED_CODES: Final = frozenset(
    {
        KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_TXN_STATE,
    }
)  # fmt: skip
"""Errors of a transaction that has ended already: by a fence, or by the brokers because of its
age."""


class NotDelivered(Exception):  # noqa: N818 - it says what is known, and that is no error of anybody
    """A group's transaction did not certainly commit.

    Args:
        why: what Kafka said.
        blames_records: whether a topic or a record may be the reason.
        is_ended: whether the transaction is no longer open on the brokers.
    """

    def __init__(self, why: str, *, blames_records: bool = False, is_ended: bool = False) -> None:
        super().__init__(why)
        self.blames_records = blames_records
        self.is_ended = is_ended


class Session:
    """A transactional producer, used by one thread.

    Args:
        session_id: its transactional id.
        open_producer: opens the producer of that id, given what hears of broken connections.
        now_s: a clock that is never set.
    """

    def __init__(
        self,
        session_id: str,
        open_producer: Callable[[str], Any],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session_id = session_id
        self.is_spent = False
        self._now_s = now_s
        self._producer = open_producer(session_id)

    def initialise(self, timeout_s: float) -> None:
        """Have the brokers give the id its first epoch.

        Raises:
            NotDelivered: they did not, in that time.
        """
        error = _error_of(lambda: self._producer.init_transactions(timeout_s))
        if error is not None:
            raise NotDelivered(error.str())

    def deliver(self, group: Sequence[DirectHalf]) -> None:
        """Make a group visible in one transaction.

        Raises:
            NotDelivered: it is not, or not certainly; the session must not be used again.
        """
        error = _error_of(lambda: self._deliver(group))
        if error is not None:
            raise NotDelivered(
                error.str(),
                blames_records=error.code() not in SESSION_CODES,
                is_ended=error.code() in ENDED_CODES,
            )

    def close(self) -> None:
        """Close the producer of a session in which nothing is open."""
        self._producer.close()

    def abandon(self) -> None:
        """Drop a producer that failed; a fence or the brokers end its open transaction.

        close() would end the transaction itself, and warn if it can't.
        """
        self._producer.purge()
        self._producer = None

    def _deliver(self, group: Sequence[DirectHalf]) -> None:
        deadline_s = self._now_s() + DELIVERY_S
        self._producer.begin_transaction()
        produce = self._producer.produce
        for half in group:
            for topic, partition, key, value, headers, timestamp_ms in half.records:
                produce(topic, value, key, partition, None, None, timestamp_ms, headers)
        if self._producer.flush(DELIVERY_S):
            said = "Kafka did not acknowledge all records in time"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said))
        acknowledged_s = self._now_s()
        # It fails by itself if any record was not stored.
        self._producer.commit_transaction(max(0.0, deadline_s - acknowledged_s))
        self.is_spent = self._now_s() - acknowledged_s > SLOW_COMMIT_S


def _error_of(call: Callable[[], None]) -> KafkaError | None:
    """Return the error of a call to confluent-kafka, None if it succeeded.

    The exception must end here. Its frames hold the group and the producer; as the cause of another
    exception it would keep both until the garbage collection, which would close the producer in any
    thread, even one of the application's.
    """
    try:
        call()
    except:  # noqa: E722 - it raises what is no exception
        return cause_of(sys.exc_info()[1])
    return None
