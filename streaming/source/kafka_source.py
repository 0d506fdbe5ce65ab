"""Spark's Kafka source: its topics, the size of its polls, its certificates."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from checkback.checkpoints.store import CheckpointStore
from checkback.metrics.log_lines import facts
from checkback.protocol.errors import ConfigurationError

READ_AT_ONCE: Final = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": "4194304",
    "kafka.fetch.max.wait.ms": "10",
}
"""Spark's source asks for the first and the last offset after every poll, and by seeking there
throws away what was fetched beyond it (InternalKafkaConsumer.fetch, 4.2.0). With Kafka's 500
records a poll it fetched each op ten times, in three round trips for 500 records.

The same question waits, on the same connection, for the fetch that the poll has left behind: at a
partition's end the brokers keep that one for half a second, unless a record comes. The last batch
of a backlog took 1.5 s longer than those before it, and takes no longer since.
"""

READ_IN_SMALL_POLLS: Final = {
    **READ_AT_ONCE,
    "kafka.max.poll.records": "20",
    "kafka.max.partition.fetch.bytes": "1048576",
}
"""For a batch of records that may be too large, once unpacked, to have many in memory."""

FILE: Final = "retried.json"
"""The checkpoint's file with how many starts have found the same batch begun."""
SMALL_FROM: Final = 2
"""Starts that found the batch planned: the first may follow any crash, and should be fast."""
_log = logging.getLogger(__name__)


def read_topics(
    spark: SparkSession,
    topics: Sequence[str],
    connection: Mapping[str, str],
    events_max: int,
    *,
    polls_small: bool,
    drops_topic: bool = False,
) -> DataFrame:
    """Return halves, ops and feedback as Kafka records.

    One source for all topics: their ends are looked up together, so that an op is hardly ever
    read a batch before its half. Read committed, because the sink's feedback is written in its
    transaction.

    Args:
        events_max: how many records a batch reads at most.
        polls_small: whether to have few records in memory at once, however slow that is.
        drops_topic: whether the query runs one batch without records and with a topic less than the
            plan before, which Spark takes for lost data.
    """
    at_once = READ_IN_SMALL_POLLS if polls_small else READ_AT_ONCE
    reader = spark.readStream.format("kafka").options(**at_once).options(**connection)
    return (
        reader.option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("failOnDataLoss", str(not drops_topic).lower())
        .option("maxOffsetsPerTrigger", str(events_max))
        .option("kafka.isolation.level", "read_committed")
        .load()
    )


def count_start_over_batch(store: CheckpointStore) -> bool:
    """Count this start; return whether earlier ones failed to finish the last batch too.

    Brokers take compressed records that unpack to a thousand times what they store.
    The Kafka client unpacks a whole poll at once, so a few hundred such records do not fit into a
    JVM's heap: without small polls the job would end at every start over the same batch.
    """
    planned, done = store.last_batch("offsets"), store.last_batch("commits")
    if planned is None or planned == done:
        return False
    starts = _starts_before(store, planned) + 1
    store.replace_own(FILE, json.dumps({"batch": planned, "starts": starts}))
    if starts < SMALL_FROM:
        return False
    _log.warning(
        "%d starts have found batch %d begun: this run reads in small polls; the next start after"
        " the batch is done reads at full speed",
        starts,
        planned,
        extra=facts(batch_id=planned),
    )
    return True


def _starts_before(store: CheckpointStore, batch: int) -> int:
    try:
        said = json.loads(store.read_own(FILE) or "{}")
        return int(said["starts"]) if said["batch"] == batch else 0
    except (ValueError, TypeError, KeyError):  # a count that can't be read begins again
        return 0


def pem_text(name: str) -> str:
    """Return the text of a certificate or key.

    Raises:
        ConfigurationError: the file can't be read.
    """
    try:
        return Path(name).read_text("ascii")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"The file {name} can't be read as PEM.",
            remedy="Check its name, format and permissions.",
        ) from error
