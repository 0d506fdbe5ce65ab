"""Whose the topics are: one checkpoint settles them, and no second one beside it.

Two checkpoints over the same topics would each write every final. So before a new checkpoint is
used its claim is written to the settled topic's first partition, and the first record there counts:
the log's order decides, also between two jobs that start at the same moment. A claim has the form
of a settled mark that marks nothing, so that whoever reads marks need not know of claims.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from checkback.checkpoints.folder import CheckpointFolder
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, CheckpointError
from checkback.protocol.properties import text_value
from checkback.sinks.transaction import SentHeaders
from checkback.state import Counter, Outcome, pack_settled

FILE: Final = "claim.json"
HEADER: Final = "__checkback.claim"
KEY: Final = b"claim"
NO_BATCH: Final = -1
TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Claim:
    """Who claims the topics.

    Args:
        claim_id: random; the checkpoint keeps it.
        application_id: of the job.
        checkpoint: its folder, as its settings say.
    """

    claim_id: str
    application_id: str
    checkpoint: str

    def to_header(self) -> bytes:
        """Return the header's value."""
        said = {"id": self.claim_id, "application_id": self.application_id}
        return json.dumps({**said, "checkpoint": self.checkpoint}).encode()

    @classmethod
    def from_record(cls, record: Message) -> Claim | None:
        """Return the claim that a record of the settled topic holds, None for a mark."""
        text = text_value(record.headers() or [], HEADER)
        if text is None:
            return None
        said = json.loads(text)
        return cls(said["id"], said["application_id"], said["checkpoint"])


def claim_topics(settings: Settings, connection: dict[str, Any], folder: CheckpointFolder) -> None:
    """Make sure that the topics are this checkpoint's; one that ever planned a batch has them.

    Raises:
        CheckpointError: another checkpoint has them.
        BrokerError: the settled topic can't be written or read.
    """
    if is_won(folder) or folder.last_batch("offsets") is not None:
        return
    own = Claim(_own_id(folder), settings.application_id, settings.checkpoint)
    first = first_record(settings, connection)
    if first is None:
        _write(settings, connection, own)
        first = first_record(settings, connection)
    found = None if first is None else Claim.from_record(first)
    if found is None or found.claim_id != own.claim_id:
        raise claimed_by(settings, found)
    mark_won(folder, own.claim_id)


def mark_won(folder: CheckpointFolder, claim_id: str = "") -> None:
    """Write down that the topics are this checkpoint's, whatever the settled topic says first.

    For one that was won, and for one that was rebuilt in another's place.
    """
    folder.write(FILE, json.dumps({"id": claim_id, "won": True}))


def is_won(folder: CheckpointFolder) -> bool:
    """Tell whether it was written down."""
    return bool(_read(folder).get("won"))


def claimed_by(settings: Settings, found: Claim | None) -> CheckpointError:
    """Return the refusal of a new checkpoint over topics that another one has.

    Args:
        settings: the refused job's.
        found: whose they are, None where the settled topic does not say any more.
    """
    whose = (
        f"checkpoint {found.checkpoint} of application {found.application_id}"
        if found
        else "another one"
    )
    return CheckpointError(
        f"The checkpoint {settings.checkpoint} is new, but {settings.topics.settled} says that "
        f"these topics were already settled under {whose}: a second one would write every final "
        "twice.",
        remedy="Use that checkpoint; if it is lost, run `checkback checkpoint rebuild`: see "
        "docs/operating/recovering.md.",
        claimed_by=None if found is None else found.checkpoint,
        application_id=None if found is None else found.application_id,
    )


def first_record(settings: Settings, connection: dict[str, Any]) -> Message | None:
    """Return the first record of the settled topic's first partition, None if it has none.

    Raises:
        BrokerError: it can't be read.
    """
    partition = TopicPartition(settings.topics.settled, 0)
    consumer = Consumer(
        {**connection, "group.id": "checkback-preflight", "enable.partition.eof": True}
    )
    try:
        first, end = consumer.get_watermark_offsets(partition, TIMEOUT_S)
        if first == end:
            return None
        consumer.assign([TopicPartition(partition.topic, 0, first)])
        record = consumer.poll(TIMEOUT_S)
    finally:
        consumer.close()
    if record is None:
        raise _not_possible(settings, "no answer")
    return None if record.error() else record


def _own_id(folder: CheckpointFolder) -> str:
    found = _read(folder).get("id")
    if found:
        return str(found)
    made = str(uuid.uuid4())
    folder.write(FILE, json.dumps({"id": made, "won": False}))
    return made


def _read(folder: CheckpointFolder) -> dict[str, Any]:
    text = folder.read(FILE)
    try:
        return {} if text is None else dict(json.loads(text))
    except ValueError as error:
        raise CheckpointError(
            f"The checkpoint's {FILE} can't be read: {error}.",
            remedy="Run `checkback checkpoint rebuild`; see docs/operating/recovering.md.",
        ) from error


def _write(settings: Settings, connection: dict[str, Any], claim: Claim) -> None:
    failures: list[str] = []
    producer = Producer({**connection, "acks": "all", "enable.idempotence": True})
    headers: list[tuple[str, bytes]] = [(HEADER, claim.to_header())]
    producer.produce(
        settings.topics.settled,
        _no_marks(),
        KEY,
        partition=0,
        headers=cast("SentHeaders", headers),
        on_delivery=lambda error, _: failures.append(error.str()) if error else None,
    )
    if producer.flush(TIMEOUT_S) or failures:
        raise _not_possible(settings, ", ".join(failures) or "no answer")


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
