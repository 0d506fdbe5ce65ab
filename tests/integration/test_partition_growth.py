"""Partitions that somebody adds to the half topic alone."""

from __future__ import annotations

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec
from tests.integration.running import Topics, wait_until

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.read.list_offsets import listed_offsets
from checkback.streaming.batch.partition_growth import PartitionGrowth


def grow_half(topics: Topics, partitions: int) -> None:
    admin, half = AdminClient(topics.connection), topics.names.half
    admin.create_partitions([NewPartitions(half, partitions)])[half].result(30)
    wait_until(lambda: len(sizes(topics)[half]) == partitions)


def sizes(topics: Topics) -> dict[str, dict[int, int]]:
    """What a plan says: the ends of all partitions, by topic."""
    known = AdminClient(topics.connection).list_topics(timeout=30).topics
    return {name: dict.fromkeys(known[name].partitions, 0) for name in topics.names.read}


def test_the_other_topics_get_as_many_partitions_as_the_half_topic_was_given(
    topics: Topics,
) -> None:
    topics.create()
    growth = PartitionGrowth(topics.connection, topics.names)
    growth.follow(sizes(topics))
    assert {len(found) for found in sizes(topics).values()} == {2}
    grow_half(topics, 5)

    growth.follow(sizes(topics))

    wait_until(lambda: {len(found) for found in sizes(topics).values()} == {5})


def test_a_decided_topic_that_a_plan_has_grows_with_them(topics: Topics) -> None:
    topics.create(topics.settings(relay=True))
    decided = topics.names.decided
    ends = {topics.names.half: dict.fromkeys(range(3), 0), decided: dict.fromkeys(range(2), 0)}

    PartitionGrowth(topics.connection, topics.names).follow(ends)

    known = AdminClient(topics.connection)
    wait_until(lambda: len(known.list_topics(timeout=30).topics[decided].partitions) == 3)


def test_each_number_of_partitions_is_asked_for_once(topics: Topics) -> None:
    """The plans of the next batches say the same again, and a login may lack the right."""
    growth = PartitionGrowth(topics.connection, topics.names)

    def follow(partitions: int) -> None:
        growth.follow({topics.names.half: dict.fromkeys(range(partitions), 0)})

    follow(3)  # in vain: there is no topic yet
    topics.create()
    follow(3)
    assert {len(found) for found in sizes(topics).values()} == {2}
    follow(4)

    others = topics.names.read[1:]
    wait_until(lambda: all(len(sizes(topics)[one]) == 4 for one in others))


def test_a_client_that_looked_before_finds_the_offsets_of_a_partition_that_was_added(
    topics: Topics,
) -> None:
    """Else a job would take the brokers for silent, and ask about no half for minutes."""
    topics.create()
    admin = AdminClient(topics.connection)

    def ends(partitions: int) -> list[int] | None:
        places = [(topics.names.half, number) for number in range(partitions)]
        latest, every = OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED
        try:
            return [*listed_offsets(admin, places, latest, every, 10, retry_s=0).values()]
        except BrokerError:  # a partition has no leader yet for a moment after it was made
            return None

    wait_until(lambda: ends(2) == [0, 0], what="the offsets of the partitions")
    grow_half(topics, 3)

    wait_until(lambda: ends(3) == [0, 0, 0], what="the offsets of the partition that was added")
