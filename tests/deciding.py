"""Short ways for tests to write rules, outcomes, halves and records, and to read decided ops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Message

from checkback.protocol.configuration import Settings
from checkback.protocol.decided import OP_KIND_HEADERS, OpKind
from checkback.protocol.properties import Headers
from checkback.protocol.records import half_headers
from checkback.state import Action, Counter, Outcome, Rules

Decided = tuple[Action, int, int, int]
"""(action, half offset, detail, source offset)."""


def rules(**changes: Any) -> Rules:
    """The rules of the default settings, changed."""
    return replace(Rules.from_settings(Settings()), **changes)


def page_outcome(partition: int, *decided: Decided, now_ms: int = 1_000) -> Outcome:
    """The outcome of page 0 of a partition."""
    return Outcome(
        partition=partition,
        page=0,
        now_ms=now_ms,
        action=np.array([one[0] for one in decided], np.uint8),
        offset=np.array([one[1] for one in decided], np.int64),
        detail=np.array([one[2] for one in decided], np.int32),
        source_offset=np.array([one[3] for one in decided], np.int64),
        counters=np.zeros(len(Counter), np.int64),
        pending=0,
        oldest_ms=-1,
    )


def plain_half(transaction_id: str, real_topic: str, group: str = "g") -> Headers:
    """The headers of a half without properties."""
    return half_headers(
        producer_group=group, transaction_id=transaction_id, real_topic=real_topic, properties={}
    )


def message(**given: Any) -> Any:
    """A record as confluent-kafka gives it to a consumer; the stubs know no constructor."""
    make: Any = Message
    return make(**given)


class Unnameable:
    """In place of a record with a header name that is no UTF-8, as confluent-kafka has it."""

    def __init__(self, record: Any) -> None:
        self._record = record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._record, name)

    def headers(self) -> Any:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


class DecidedOp(NamedTuple):
    """What a record on the decided topic says of an op."""

    kind: OpKind
    op_offset: int


def decided_op(headers: Sequence[tuple[str, bytes | None]]) -> DecidedOp | None:
    """Return which op a record is about; None where it is about none."""
    name, value = headers[-1] if headers else ("", None)
    kinds = {header: kind for kind, header in OP_KIND_HEADERS.items()}
    is_op = name in kinds and re.fullmatch(rb"\d+", value or b"")
    return DecidedOp(kinds[name], int(value or b"")) if is_op else None
