"""What must hold, read from the topics as a read_committed consumer reads them.

What is expected follows from the plans alone: each batch, decided by the real rules in turn, says
which final messages, check requests, discarded and refused records and settled marks there must be.
What is found must be that, each once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.kafka import Cluster
from tests.property.paged import acts_of
from tests.simulation.exactly_once.application import COMMIT, REAL_TOPICS, Applications
from tests.simulation.exactly_once.pages import Reference
from tests.simulation.exactly_once.verdicts import Verdicts

from checkback.protocol import properties
from checkback.protocol.properties import ERROR_HEADER_PREFIX, Headers, text_value
from checkback.protocol.topics import TopicNames
from checkback.state import Action, Outcome, pack_settled, unpack_settled

Fact = tuple[Any, ...]
"""What one record says: its kind, and what it is about."""
MARKED = ("commit", "check", "discard")
"""Kinds of facts that a mark says of a half."""
DISCARDS = (Action.DISCARD_CHECK_LIMIT, Action.DISCARD_EXPIRED)


@dataclass(slots=True)
class Audit:
    """Reads along.

    Args:
        cluster: whose topics.
        applications: know the truth.
        reference: knows what had to be decided.
    """

    cluster: Cluster
    applications: Applications
    reference: Reference
    seen: Counter[Fact] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    epochs: set[int] = field(default_factory=set)
    verdicts: Verdicts = field(init=False)
    _expected: Counter[Fact] = field(default_factory=Counter)
    _batches: list[dict[int, Counter[Fact]]] = field(default_factory=list)
    _read: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.verdicts = Verdicts(self.applications, self.reference)

    def planned(self, outcomes: dict[int, list[Outcome]]) -> None:
        """Take in what the next batch has to write, by state partition.

        Args:
            outcomes: what it decides.
        """
        batch = len(self._batches)
        self.verdicts.batch_begins()
        for pages in outcomes.values():
            self.verdicts.planned(pages)
        facts = {
            number: Counter(fact for one in pages for fact in _facts(one, number, batch))
            for number, pages in outcomes.items()
        }
        self._batches.append(facts)
        for counted in facts.values():
            self._expected.update(counted)

    def take_back(self) -> None:
        """Forget what the last batch has to write, of which nothing may be written."""
        self.read_on()
        for number, facts in self._batches.pop().items():
            marks = [fact for fact in facts if fact[0] == "mark" and self.seen[fact]]
            assert not marks, f"state partition {number} wrote {marks}; other terms decide it now"
            self._expected.subtract(facts)
        self.verdicts.take_back()

    def took_over(self, epoch: int) -> None:
        """Take in that a start has finished taking over: older ones may write nothing more."""
        assert epoch not in self.epochs, f"epoch {epoch} was taken twice"
        self.epochs.add(epoch)

    def marker_moved(self, epoch: int) -> None:
        """Check who moved a marker."""
        latest = max(self.epochs, default=0)
        assert epoch >= latest, f"epoch {epoch} wrote after epoch {latest} had taken over"

    def read_on(self) -> None:
        """Read what has become visible: nothing twice, nothing that was not decided."""
        names = self.applications.names
        checks = [name for name in self.cluster.topics if name.startswith(names.check(""))]
        for topic in (*REAL_TOPICS, names.refused, names.discarded, names.settled, *checks):
            self._read_topic(topic)
        self._read_topic(names.feedback)

    def batch_is_written(self, batch: int) -> None:
        """Check, when Spark commits a batch, that all of it is in the topics or about to be."""
        self.read_on()
        for number in self._batches[batch]:
            missing = self._missing(batch, number)
            if missing:
                self._require_on_the_way(batch, number, missing)

    def at_the_end(self, committed: int, planned: int, *, is_settled: bool) -> None:
        """Check once every transaction has ended.

        Args:
            committed: the last batch that Spark committed, -1 for none.
            planned: the last batch that was planned.
            is_settled: whether every half had its verdict.
        """
        self.read_on()
        self.verdicts.at_the_end(is_settled=is_settled, last_is_committed=committed == planned)
        for batch in range(committed + 1):
            for number in self._batches[batch]:
                missing = self._missing(batch, number)
                assert not missing, f"batch {batch}, state partition {number} lost {missing}"
        # Of these any number of transactions may be there, but each of them whole.
        for batch in range(committed + 1, len(self._batches)):
            self._no_mark_without_its_record(batch)

    def _no_mark_without_its_record(self, batch: int) -> None:
        for number, facts in self._batches[batch].items():
            missing = self._missing(batch, number)
            marked = {fact[3:5] for fact in facts if fact[0] == "mark" and self.seen[fact]}
            torn = [fact for fact in missing if fact[0] in MARKED and fact[1:3] in marked]
            assert not torn, f"batch {batch}, state partition {number} lacks {torn}, marked as done"

    def _missing(self, batch: int, number: int) -> list[Fact]:
        return [
            fact
            for fact, times in self._batches[batch][number].items()
            # Of checks that were given back the same one is asked again in a later batch.
            if self.seen[fact] < min(times, self._expected[fact])
        ]

    def _require_on_the_way(self, batch: int, number: int, missing: list[Fact]) -> None:
        """Look behind the last stable offsets, where other transactions hold the reader up."""
        unread = self._unread_facts()
        lost = [fact for fact in missing if not unread[fact]]
        assert not lost, f"batch {batch} is committed, state partition {number} lacks {lost}"

    def _unread_facts(self) -> Counter[Fact]:
        found: Counter[Fact] = Counter()
        for (topic, partition), first in self._read.items():
            log = self.cluster.topics[topic].partitions[partition]
            for offset in range(first, log.end):
                if log.is_visible(offset):
                    found.update(self._facts_at(topic, partition, offset))
        return found

    def _read_topic(self, name: str) -> None:
        topic = self.cluster.topics.get(name)
        for log in () if topic is None else topic.partitions:
            first, end = self._read.get((name, log.number), 0), log.last_stable_offset
            self._read[name, log.number] = end
            for offset in range(first, end):
                if log.is_visible(offset):
                    self._take(name, log.number, offset)

    def _take(self, topic: str, partition: int, offset: int) -> None:
        for fact in self._facts_at(topic, partition, offset):
            self._take_fact(fact, topic, partition, offset)

    def _take_fact(self, fact: Fact, topic: str, partition: int, offset: int) -> None:
        self.seen[fact] += 1
        self.kinds[fact[0]] += 1
        if fact[0] == "commit":
            self.verdicts.written(fact[1:3])
        assert self._expected[fact] > 0, f"{topic}-{partition}@{offset}: {fact} was never decided"
        most = self._expected[fact]
        assert self.seen[fact] <= most, f"{topic}-{partition}@{offset}: {fact} is there twice"
        if topic in REAL_TOPICS:
            self._require_true(fact, topic, partition, offset)

    def _require_true(self, fact: Fact, topic: str, partition: int, offset: int) -> None:
        transaction = self.applications.transactions[fact[1], fact[2]]
        record = self.cluster.topics[topic].partitions[partition].records[offset]
        assert transaction.state == COMMIT, f"{fact}: the application rolled it back"
        assert record.value == transaction.body, f"{fact}: another body"

    def _facts_at(self, topic: str, partition: int, offset: int) -> list[Fact]:
        record = self.cluster.topics[topic].partitions[partition].records[offset]
        if topic == self.applications.names.settled:
            return _mark_facts(record.value or b"", partition)
        return [self._fact(topic, partition, offset)]

    def _fact(self, topic: str, partition: int, offset: int) -> Fact:
        names = self.applications.names
        record = self.cluster.topics[topic].partitions[partition].records[offset]
        headers = record.headers
        if topic == names.refused:
            return _refused_fact(headers, names)
        if topic == names.feedback:
            times = _number(headers, properties.TRANSACTION_CHECK_TIMES)
            return ("check", partition, int(record.value or 0), times)
        position = (
            _number(headers, properties.TRAN_HALF_QUEUE_ID),
            _number(headers, properties.TRAN_PREPARED_QUEUE_OFFSET),
        )
        if topic == names.discarded:
            return ("discard", *position)
        if topic in REAL_TOPICS:
            return ("commit", *position)
        return ("check", *position, _number(headers, properties.TRANSACTION_CHECK_TIMES))


def expired_in(outcomes: dict[int, list[Outcome]]) -> int:
    """Return how many halves a batch discards for their age."""
    pages = (page for pages in outcomes.values() for page in pages)
    return sum(page.action.tolist().count(Action.DISCARD_EXPIRED) for page in pages)


def _facts(outcome: Outcome, state_partition: int, batch: int) -> list[Fact]:
    """Return what a page's decisions have to leave in the topics."""
    found: list[Fact] = []
    for action, offset, detail, source in acts_of(outcome):
        if action == Action.COMMIT:
            found.append(("commit", outcome.partition, offset))
        elif action == Action.CHECK:
            found.append(("check", outcome.partition, offset, detail))
        elif action in DISCARDS:
            found.append(("discard", outcome.partition, offset))
        elif action == Action.REFUSE_OP:
            found.append(("refused op", outcome.partition, source))
    return found + _mark_facts(pack_settled(outcome, batch), state_partition)


def _mark_facts(blob: bytes, state_partition: int) -> list[Fact]:
    """Return what a settled mark says of each half; a page may have several in one batch."""
    said = unpack_settled(blob)
    of_batch = ("mark", state_partition, said.batch_id)
    rows = zip(said.offset.tolist(), said.mark.tolist(), said.check_times.tolist(), strict=True)
    return [
        (*of_batch, said.partition, offset, mark, times, said.now_ms)
        for offset, mark, times in rows
    ]


def _refused_fact(headers: Headers, names: TopicNames) -> Fact:
    origin = text_value(headers, ERROR_HEADER_PREFIX + "topic")
    partition = _number(headers, ERROR_HEADER_PREFIX + "partition")
    offset = _number(headers, ERROR_HEADER_PREFIX + "offset")
    # A final that has no place is refused instead: final or refused, one of the two and once.
    if origin == names.half:
        return ("commit", partition, offset)
    return ("refused op", partition, offset)


def _number(headers: Headers, name: str) -> int:
    found = text_value(headers, name)
    assert found is not None, f"{name} is missing"
    return int(found)
