"""Messages as an application writes them, and as a check hands them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from checkback.protocol import properties as names

KEY_SEPARATOR = " "
"""Between two keys in the KEYS property (RocketMQ's MessageConst.KEY_SEPARATOR)."""


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """A queue in RocketMQ's words: one partition of a topic.

    Args:
        topic: the topic.
        queue_id: the partition number.
    """

    topic: str
    queue_id: int


@dataclass
class Message:
    """A message for a topic. The producer never changes it, but adds properties to a copy.

    Args:
        topic: where the message goes; for a transaction, once it is committed.
        body: the payload, passed on byte for byte; None is a tombstone, which needs a key.
        tags: RocketMQ's TAGS, empty for none.
        keys: RocketMQ's KEYS: one key, or several with a space between.
        key: the Kafka record key; left out, the first of ``keys`` in UTF-8, or none.
        properties: the application's own, one Kafka header each. Of a message that came back in a
            check, values that are UTF-8 are texts, others bytes.
        queue_id: partition of the topic; None lets the key decide.
        delay_time_level: RocketMQ's delay level. A transaction can't be delayed: dropped, as
            RocketMQ drops it, but with a warning and a count.
        transaction_id: set by the producer on the copy that the listener gets.
    """

    topic: str
    body: bytes | None
    _: KW_ONLY
    tags: str = ""
    keys: str = ""
    key: bytes | None = None
    properties: Mapping[str, str | bytes] = field(default_factory=dict)
    queue_id: int | None = None
    delay_time_level: int = 0
    transaction_id: str = ""

    def record_key(self) -> bytes | None:
        """Return the Kafka record key: ``key``, else the first of ``keys``, else None."""
        if self.key is not None:
            return self.key
        first = self.keys.partition(KEY_SEPARATOR)[0]
        return first.encode() if first else None

    def get_property(self, name: str) -> str | bytes | None:
        """Return a property, the application's or one of KEYS, TAGS and UNIQ_KEY, else None.

        One of the application's may be empty.
        """
        if name in self.properties:
            return self.properties[name]
        system = {
            names.KEYS: self.keys,
            names.TAGS: self.tags,
            names.UNIQ_KEY: self.transaction_id,
        }
        return system.get(name) or None


@dataclass
class MessageExt(Message):
    """A half message that came back in a check request.

    Args:
        producer_group: the group that is asked.
        msg_id: UNIQ_KEY; the same as ``transaction_id``.
        half_queue: partition of the half topic that holds the half.
        queue_offset: offset of the half in it.
        check_times: number of this check request for the half, from 1.
        requested_at_ms: when the request was written, milliseconds since the epoch.
        check_interval_ms: the pipeline's; after that long the next request is on its way. None
            where the request does not say.
    """

    _: KW_ONLY
    producer_group: str = ""
    msg_id: str = ""
    half_queue: int = -1
    queue_offset: int = -1
    check_times: int = 0
    requested_at_ms: int = 0
    check_interval_ms: int | None = None
