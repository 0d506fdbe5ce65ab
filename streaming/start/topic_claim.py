"""A checkpoint's claim to its topics: no second checkpoint may settle the same topics.

Two checkpoints over the same topics would each write every final. So a job writes its claim to the
settled topic's first partition before it uses a new checkpoint. The first record there counts, so
the order of the log decides, even if two jobs start at the same moment. A claim has the form of a
settled mark that marks nothing, so readers of marks need not know about claims.

Kafka deletes a claim like any record. So a running job repeats it, and as long as its last one is
in the log, no other checkpoint can have become the first. Where it is gone, another claim that is
there came later, and the topics are that checkpoint's.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from confluent_kafka import Consumer, Message, TopicPartition

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, CheckpointError
from checkback.protocol.properties import text_value
from checkback.sinks.kafka.cluster.transient_errors import broker_errors, retry_transient
from checkback.sinks.kafka.read.record_reader import next_record
from checkback.sinks.records.source_record import readable_headers
from checkback.state import CLAIM_KEY, Counter, Outcome, pack_settled
from checkback.streaming.start.announce import produce_and_wait

if TYPE_CHECKING:
    from checkback.checkpoints.store import CheckpointStore

FILE: Final = "claim.json"
HEADER: Final = "__checkback.claim"
NO_BATCH: Final = -1
TIMEOUT_S: Final = 30.0
REPEAT_MS_MAX: Final = 3_600_000
"""How long after its last claim a running job repeats it; earlier where retention is shorter."""
REPEATS_KEPT: Final = 4
"""How many claims a job writes within the retention of the settled topic, at least."""
RETRY_MS: Final = 60_000
LOOK_S: Final = 10.0
"""How long a running job waits for the brokers each time: its progress waits meanwhile."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to the topics.

    Args:
        claim_id: random; the checkpoint keeps it.
        checkpoint: the job's checkpoint, as in its settings.
        half_topic_id: Kafka's id of the half topic; "" in a claim of an earlier version.
    """

    claim_id: str
    application_id: str
    checkpoint: str
    half_topic_id: str = ""

    def to_header(self) -> bytes:
        """Return the claim as a header's value."""
        said = {"id": self.claim_id, "application_id": self.application_id}
        said |= {"checkpoint": self.checkpoint, "half_topic_id": self.half_topic_id}
        return json.dumps(said).encode()

    @classmethod
    def from_record(cls, record: Message) -> Claim | None:
        """Return the claim in a record of the settled topic, None for any other record."""
        text = text_value(readable_headers(record), HEADER)
        if text is None:
            return None
        try:
            said = json.loads(text)
            claim_id, application_id, checkpoint = (
                str(said[name]) for name in ("id", "application_id", "checkpoint")
            )
            return cls(claim_id, application_id, checkpoint, str(said.get("half_topic_id", "")))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None


@dataclass(slots=True)
class TopicClaim:
    """A job's claim: made at its start, and repeated while it runs.

    Args:
        marks_kept_ms: the settled topic's retention; None where it is not known.
        now_ms: the wall clock, which goes on while a machine is suspended.
    """

    settings: Settings
    connection: dict[str, Any]
    store: CheckpointStore
    half_topic_id: str
    marks_kept_ms: int | None
    now_ms: Callable[[], int]
    _looked_ms: int = field(default=0, init=False)
    _wait_ms: int = field(default=0, init=False)

    def claim(self) -> None:
        """Claim the topics; a checkpoint that ever planned a batch already has them.

        Raises:
            CheckpointError: another checkpoint has claimed them, perhaps after this one.
            BrokerError: the settled topic can't be written or read.
        """
        held = _read(self.store)
        if held.get("won") or self.store.last_batch("offsets") is not None:
            self._require_no_later(held)
            return
        own = self._own()
        first = first_record(self.settings, self.connection)
        if first is None:
            self._write(own)
            first = first_record(self.settings, self.connection)
        found = None if first is None else Claim.from_record(first)
        if first is None or found is None or found.claim_id != own.claim_id:
            raise claimed_error(self.settings, found)
        mark_won(self.store, own.claim_id, first.offset())

    def renew_if_due(self) -> None:
        """Repeat the claim if it is time; try again later where the brokers do not answer.

        Raises:
            CheckpointError: another checkpoint has claimed the topics.
        """
        now_ms = self.now_ms()
        if 0 <= now_ms - self._looked_ms < self._wait_ms:
            return
        self._looked_ms, self._wait_ms = now_ms, RETRY_MS
        with suppress(BrokerError):
            self._require_no_later(_read(self.store), LOOK_S)
            own = self._own()
            mark_won(self.store, own.claim_id, self._write(own, LOOK_S).offset())
            self._wait_ms = self._repeat_ms

    def _own(self) -> Claim:
        held = _read(self.store)
        if not held.get("id"):
            held = {**held, "id": str(uuid.uuid4()), "won": bool(held.get("won"))}
            _keep(self.store, held)
        settings = self.settings
        return Claim(
            str(held["id"]), settings.application_id, settings.checkpoint, self.half_topic_id
        )

    def _write(self, claim: Claim, timeout_s: float = TIMEOUT_S) -> Message:
        safe, topic = {**self.connection, "enable.idempotence": True}, self.settings.topics.settled
        headers = [(HEADER, claim.to_header())]
        return produce_and_wait(
            safe, topic, _no_marks(), key=CLAIM_KEY, headers=headers, timeout_s=timeout_s
        )

    def _require_no_later(self, held: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> None:
        """Refuse a checkpoint whose last claim is gone, if another one's is there."""
        offset = held.get("offset")
        if offset is None:  # an earlier version, or a rebuild, left none to compare with
            return
        # A mark that is not committed yet would hide where the log ends.
        whole = {**self.connection, "isolation.level": "read_uncommitted"}
        with closing(_records(self.settings, whole, int(offset), timeout_s)) as records:
            for found in map(Claim.from_record, records):
                if found is not None and found.claim_id != held.get("id"):
                    raise _refusal(
                        f"The topics of the checkpoint {self.settings.checkpoint} were claimed by "
                        f"{_name_of(found)} after {self.settings.topics.settled} had lost this "
                        "one's claim: to go on would write every final twice.",
                        found,
                    )

    @property
    def _repeat_ms(self) -> int:
        kept_ms = self.marks_kept_ms
        if kept_ms is None or kept_ms < 0:
            return REPEAT_MS_MAX
        return min(REPEAT_MS_MAX, kept_ms // REPEATS_KEPT)


def mark_won(store: CheckpointStore, claim_id: str = "", offset: int | None = None) -> None:
    """Record in the checkpoint that it owns the topics.

    A checkpoint that won its claim records it, and so does one that was rebuilt in place of
    another.

    Args:
        claim_id: of its claim, "" if it wrote none yet.
        offset: where its last claim is.
    """
    _keep(store, {"id": claim_id, "won": True, "offset": offset})


def claimed_error(settings: Settings, found: Claim | None) -> CheckpointError:
    """Return the error that refuses a new checkpoint over topics of another one.

    Args:
        settings: the refused job's settings.
        found: the other checkpoint's claim, None if the settled topic no longer has it.
    """
    return _refusal(
        f"The checkpoint {settings.checkpoint} is new, but {settings.topics.settled} says that "
        f"these topics were already settled under {_name_of(found)}: a second one would write "
        "every final twice.",
        found,
    )


def _refusal(says: str, found: Claim | None) -> CheckpointError:
    return CheckpointError(
        says,
        remedy="Use that checkpoint; if it is lost, run `checkback checkpoint rebuild`: see "
        "`checkback docs recovering`.",
        claimed_by=None if found is None else found.checkpoint,
        application_id=None if found is None else found.application_id,
    )


def _name_of(claim: Claim | None) -> str:
    if claim is None:
        return "another one"
    return f"checkpoint {claim.checkpoint} of application {claim.application_id}"


def first_record(settings: Settings, connection: dict[str, Any]) -> Message | None:
    """Return the first record of the settled topic's first partition, None if there is none."""
    with closing(_records(settings, connection)) as records:
        return next(records, None)


def claimed_half_topic(settings: Settings, connection: dict[str, Any]) -> str:
    """Return the id of the half topic to which the marks on the settled topic belong.

    A new checkpoint finds no marks at its claim, or is refused. So all claims that are there are of
    one half topic.

    Returns:
        "" where no claim tells: earlier versions wrote none of it.
    """
    with closing(_records(settings, connection)) as records:
        claims = (Claim.from_record(record) for record in records)
        return next((claim.half_topic_id for claim in claims if claim and claim.half_topic_id), "")


def _records(
    settings: Settings,
    connection: dict[str, Any],
    own_claim_offset: int = -1,
    timeout_s: float = TIMEOUT_S,
) -> Generator[Message]:
    """Yield the records of the first partition; none if the one at own_claim_offset is there."""
    partition = TopicPartition(settings.topics.settled, 0)
    reading = {**connection, "group.id": "checkback-preflight", "enable.partition.eof": True}
    with closing(Consumer(reading)) as consumer:
        remedy = "Check the brokers, and the pipeline's rights with `checkback doctor`."
        with broker_errors(f"{partition.topic} can't be claimed", remedy, topic=partition.topic):
            look = partial(consumer.get_watermark_offsets, partition, timeout_s)
            first, end = retry_transient(look, timeout_s)
            if first == end or first <= own_claim_offset < end:
                return
            consumer.assign([TopicPartition(partition.topic, 0, first)])
        while (record := next_record(consumer, partition.topic, 0, timeout_s)) is not None:
            yield record


def _keep(store: CheckpointStore, held: Mapping[str, Any]) -> None:
    store.replace_own(FILE, json.dumps(held))


def _read(store: CheckpointStore) -> dict[str, Any]:
    text = store.read_own(FILE)
    try:
        return {} if text is None else dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"The checkpoint's {FILE} can't be read: {error}.",
            remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
        ) from error


def _no_marks() -> bytes:
    none = np.zeros(0, np.int64)
    empty = Outcome(
        partition=0,
        page=0,
        now_ms=0,
        action=none.astype(np.uint8),
        offset=none,
        detail=none.astype(np.int32),
        source_offset=none,
        counters=np.zeros(len(Counter), np.int64),
        pending=0,
        oldest_ms=-1,
    )
    return pack_settled(empty, NO_BATCH)
