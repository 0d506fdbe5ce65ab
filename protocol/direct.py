"""The ids of direct sessions: the producers that deliver final messages themselves.

A session is one Kafka transactional id. A process that decides about another process's half fences
that process's session first, and a fence ends whatever uses the id. So each id that a record names
is checked before anybody fences it.
"""

from __future__ import annotations

import re
from typing import Final

from checkback.protocol.topics import KAFKA_TOPIC_NAME

DIRECT_ID_PREFIX: Final = "checkback-direct-"
"""What every direct session's transactional id begins with: the rights of producers end here."""
_UUID_HEX: Final = re.compile("[0-9a-f]{32}")


def direct_id_prefix(topic_prefix: str, producer_group: str) -> str:
    """Return what the transactional ids of a group's direct sessions begin with."""
    return f"{DIRECT_ID_PREFIX}{topic_prefix}{producer_group}-"


def direct_transactional_id(topic_prefix: str, producer_group: str, uuid_hex: str) -> str:
    """Return the transactional id of a direct session.

    Args:
        topic_prefix: of the Checkback whose halves it delivers.
        producer_group: of those halves.
        uuid_hex: 32 lower-case hexadecimal digits that no other session has.
    """
    return direct_id_prefix(topic_prefix, producer_group) + uuid_hex


def is_direct_id_of(transactional_id: str, topic_prefix: str, producer_group: str) -> bool:
    """Tell whether that can be the id of a session of this group.

    A half says its own DIRECT_ID: one that named another group's session, or the producer of an
    application that has nothing to do with Checkback, must not make anybody fence it. A group whose
    name is not legal has no session: librdkafka reads an id only up to a NUL, and would fence
    another session.
    """
    if not producer_group or not KAFKA_TOPIC_NAME.fullmatch(topic_prefix + producer_group):
        return False
    prefix = direct_id_prefix(topic_prefix, producer_group)
    uuid_hex = transactional_id.removeprefix(prefix)
    return transactional_id.startswith(prefix) and _UUID_HEX.fullmatch(uuid_hex) is not None
