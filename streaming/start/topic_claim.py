"""A checkpoint's claim to its topics: no second checkpoint may settle the same topics.

Two checkpoints over the same topics would each write every final. So a job writes its claim to the
settled topic's first partition before it uses a new checkpoint. The first record there counts, so
the order of the log decides, even if two jobs start at the same moment. A claim has the form of a
settled mark that marks nothing, so readers of marks need not know about claims.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, CheckpointError
from checkback.protocol.properties import text_value
from checkback.sinks.kafka.cluster.transient_errors import asked_again
from checkback.sinks.kafka.read.record_reader import next_record
from checkback.sinks.kafka.transaction.errors import cause_of
from checkback.sinks.records.source_record import readable_headers
from checkback.state import CLAIM_KEY, Counter, Outcome, pack_settled
from checkback.streaming.start.announce import append_one

if TYPE_CHECKING:
    from checkback.checkpoints.store import CheckpointStore

FILE: Final = "claim.json"
HEADER: Final = "__checkback.claim"
NO_BATCH: Final = -1
TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to the topics.

    Args:
        claim_id: random; the checkpoint keeps it.
        application_id: the job's application id.
        checkpoint: the job's checkpoint, as in its settings.
    """

    claim_id: str
    application_id: str
    checkpoint: str

    def to_header(self) -> bytes:
        """Return the claim as a header's value."""
        said = {"id": self.claim_id, "application_id": self.application_id}
        return json.dumps({**said, "checkpoint": self.checkpoint}).encode()

    @classmethod
    def from_record(cls, record: Message) -> Claim | None:
        """Return the claim in a record of the settled topic, None for any other record."""
        text = text_value(readable_headers(record), HEADER)
        if text is None:
            return None
        try:
            said = json.loads(text)
            return cls(*(str(said[name]) for name in ("id", "application_id", "checkpoint")))
        except (ValueError, TypeError, LookupError, RecursionError):
            return None


def claim_topics(settings: Settings, connection: dict[str, Any], store: CheckpointStore) -> None:
    """Claim the topics for this checkpoint; one that ever planned a batch already has them.

    Raises:
        CheckpointError: another checkpoint has claimed them.
        BrokerError: the settled topic can't be written or read.
    """
    if is_won(store) or store.last_batch("offsets") is not None:
        return
    own = Claim(_own_id(store), settings.application_id, settings.checkpoint)
    first = first_record(settings, connection)
    if first is None:
        _write(settings, connection, own)
        first = first_record(settings, connection)
    found = None if first is None else Claim.from_record(first)
    if found is None or found.claim_id != own.claim_id:
        raise claimed_by(settings, found)
    mark_won(store, own.claim_id)


def mark_won(store: CheckpointStore, claim_id: str = "") -> None:
    """Record in the checkpoint that it owns the topics.

    A checkpoint that won its claim records it, and so does one that was rebuilt in place of
    another. Afterwards the first record of the settled topic no longer counts.
    """
    store.replace_own(FILE, json.dumps({"id": claim_id, "won": True}))


def is_won(store: CheckpointStore) -> bool:
    """Return whether the checkpoint records that it owns the topics."""
    return bool(_read(store).get("won"))


def claimed_by(settings: Settings, found: Claim | None) -> CheckpointError:
    """Return the error that refuses a new checkpoint over topics of another one.

    Args:
        settings: the refused job's settings.
        found: the other checkpoint's claim, None if the settled topic no longer has it.
    """
    owner = (
        f"checkpoint {found.checkpoint} of application {found.application_id}"
        if found
        else "another one"
    )
    return CheckpointError(
        f"The checkpoint {settings.checkpoint} is new, but {settings.topics.settled} says that "
        f"these topics were already settled under {owner}: a second one would write every final "
        "twice.",
        remedy="Use that checkpoint; if it is lost, run `checkback checkpoint rebuild`: see "
        "`checkback docs recovering`.",
        claimed_by=None if found is None else found.checkpoint,
        application_id=None if found is None else found.application_id,
    )


def first_record(settings: Settings, connection: dict[str, Any]) -> Message | None:
    """Return the first record of the settled topic's first partition, None if there is none.

    Raises:
        BrokerError: the topic can't be read.
    """
    partition = TopicPartition(settings.topics.settled, 0)
    consumer = Consumer(
        {**connection, "group.id": "checkback-preflight", "enable.partition.eof": True}
    )
    try:
        look = partial(consumer.get_watermark_offsets, partition, TIMEOUT_S)
        first, end = asked_again(look, TIMEOUT_S)
        if first == end:
            return None
        consumer.assign([TopicPartition(partition.topic, 0, first)])
        return next_record(consumer, partition.topic, 0, TIMEOUT_S)
    except KafkaException as error:
        raise _not_possible(settings, cause_of(error).str()) from error
    finally:
        consumer.close()


def _own_id(store: CheckpointStore) -> str:
    found = _read(store).get("id")
    if found:
        return str(found)
    made = str(uuid.uuid4())
    store.replace_own(FILE, json.dumps({"id": made, "won": False}))
    return made


def _read(store: CheckpointStore) -> dict[str, Any]:
    text = store.read_own(FILE)
    try:
        return {} if text is None else dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"The checkpoint's {FILE} can't be read: {error}.",
            remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
        ) from error


def _write(settings: Settings, connection: dict[str, Any], claim: Claim) -> None:
    safe, headers = {**connection, "enable.idempotence": True}, [(HEADER, claim.to_header())]
    append_one(safe, settings.topics.settled, _no_marks(), key=CLAIM_KEY, headers=headers)


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


def _not_possible(settings: Settings, why: str) -> BrokerError:
    return BrokerError(
        f"{settings.topics.settled} can't be claimed: {why}.",
        remedy="Check the brokers, and the pipeline's rights with `checkback doctor`.",
        topic=settings.topics.settled,
    )
