"""Kafka in memory, as far as the sink uses it: transactions, group offsets, fencing, faults.

The sink's own code runs over it unchanged: `installed` puts its clients in place of those of
confluent_kafka in the modules that write and read. Errors, messages and topic partitions are
confluent_kafka's own classes. Nothing waits: time is a number that is set, and whoever has to wait
says until when.

What is as in Kafka, and where that is written:

- Transactions and their markers, the last stable offset, control records that take up an offset,
  aborted records that a read_committed consumer never sees: KIP-98.
- A transactional id that is initialised again ends what its predecessor left open and shuts it out
  by a greater producer epoch: KIP-98, `TransactionCoordinator.handleInitProducerId`. While a
  transaction is being ended the answer is CONCURRENT_TRANSACTIONS, for which the client waits.
- A transaction that outlives its timeout is aborted and its producer shut out by the coordinator:
  `TransactionCoordinator.abortTimedOutTransactions`.
- Offsets in a transaction are pending until its marker is written; who asks for stable offsets
  waits for that: KIP-447, UNSTABLE_OFFSET_COMMIT.
- Of two commits of one offset the one that was appended later holds, also when the earlier one
  was in a transaction that ends later: `OffsetMetadataManager.replayEndTransactionMarker`.
- Offsets of a group without members expire after offsets.retention.minutes: KIP-211.
- A late record of an ended transaction changes nothing: KIP-890, transaction verification. A late
  request to commit one commits the producer's next: the same KIP's reason to exist, in the first
  transaction protocol, which librdkafka speaks.
- A record batch larger than the topic's max.message.bytes is rejected whole: MSG_SIZE_TOO_LARGE for
  each of its records.

Left out: replication (what was acknowledged is there), quotas, rebalances, compression, retention
by time or size, and librdkafka's own threads: what they would do happens inside the next call.
"""

from tests.fakes.kafka.admin import FakeAdminClient
from tests.fakes.kafka.awaits import Awaits, Fault, SimulatedCrash
from tests.fakes.kafka.clock import Clock
from tests.fakes.kafka.cluster import Cluster
from tests.fakes.kafka.consumer import FakeConsumer
from tests.fakes.kafka.producer import FakeProducer
from tests.fakes.kafka.seams import SEAMS, SeamError, installed

__all__ = [
    "SEAMS",
    "Awaits",
    "Clock",
    "Cluster",
    "FakeAdminClient",
    "FakeConsumer",
    "FakeProducer",
    "Fault",
    "SeamError",
    "SimulatedCrash",
    "installed",
]
