"""Parsers for Spark's log files in a checkpoint: plans, commits, query id, operator metadata.

Most are a version line followed by JSON documents, one per line (OffsetSeqLog, CommitLog,
StreamMetadata and OperatorStateMetadata of Spark 4.2.0). They are parsed without Spark, so that
Checkback can say which file Spark would reject.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from checkback.protocol.errors import CheckpointError

VERSION: Final = "v1"
OPERATOR_METADATA: Final = "state/0/_metadata/metadata"
STATE_SCHEMA: Final = "state/0/0/_metadata/schema"
ABSENT_SOURCE: Final = "-"
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"

Offsets = Mapping[str, Mapping[int, int]]
"""Topic, partition, next offset."""


class BrokenLogError(ValueError):
    """A file of Spark's logs does not hold what it should."""


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The content of ``offsets/N``: the plan of a batch.

    Args:
        timestamp_ms: the batch's time; its decisions use it.
        ends: by topic and partition, the offset after the last record of the batch; empty without
            input.
        conf: the Spark settings that the checkpoint fixes.
    """

    timestamp_ms: int
    ends: Offsets
    conf: Mapping[str, str]

    @property
    def state_partitions(self) -> int:
        """The number of state partitions that the batch runs with.

        Raises:
            BrokenLogError: the file does not hold it.
        """
        try:
            return int(self.conf[SHUFFLE_PARTITIONS])
        except (KeyError, ValueError) as error:
            raise BrokenLogError(f"no {SHUFFLE_PARTITIONS}") from error


def parse_offsets(content: bytes) -> PlannedBatch:
    """Parse ``offsets/N``.

    Raises:
        BrokenLogError: the file is torn, has another version, or is not an offset log.
    """
    lines = _lines_after_version(content)
    if len(lines) < 2:
        raise BrokenLogError("no source's offsets follow the metadata")
    metadata = _object(lines[0])
    try:
        return PlannedBatch(
            int(metadata["batchTimestampMs"]),
            _ends(lines[1:]),
            {str(key): str(value) for key, value in metadata["conf"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenLogError(f"no batch is described: {error!r}") from error


def plan_with_ends(
    plan: str, ends: Mapping[str, Mapping[Any, int]], timestamp_ms: int | None = None
) -> str:
    """Return the text of ``offsets/N`` with other ends, and with another time if one is given.

    Raises:
        CheckpointError: Spark wrote the plan in an unexpected form.
    """
    version, metadata, *sources = plan.split("\n")
    if len(sources) != 1 or not sources[0].startswith("{"):
        raise CheckpointError(
            "Spark wrote a plan in a form that this version does not know.",
            remedy="Use the version of Spark that Checkback was made for.",
            sources=len(sources),
        )
    if timestamp_ms is not None:
        metadata = json.dumps({**json.loads(metadata), "batchTimestampMs": timestamp_ms})
    return "\n".join([version, metadata, json.dumps(ends, separators=(",", ":"))])


def parse_commit(content: bytes) -> int:
    """Parse ``commits/N``; return its watermark, which is always 0 here.

    Raises:
        BrokenLogError: the file is torn, has another version, or is not a commit log.
    """
    lines = _lines_after_version(content)
    found = _object(lines[0]).get("nextBatchWatermarkMs") if len(lines) == 1 else None
    if not isinstance(found, int):
        raise BrokenLogError("no commit is described")
    return found


def parse_query_id(content: bytes) -> str:
    """Parse ``metadata``; return Spark's id of the query.

    Raises:
        BrokenLogError: the file is torn or holds something else.
    """
    found = _object(_text(content)).get("id")
    if not isinstance(found, str) or not found:
        raise BrokenLogError("no query id")
    return found


def parse_operator(content: bytes) -> int:
    """Parse ``state/0/_metadata/metadata``; return the number of state partitions.

    Raises:
        BrokenLogError: the file is torn, has another version, or belongs to another operator than
            Checkback's.
    """
    lines = _lines_after_version(content)
    try:
        (store,) = _object("".join(lines))["stateStoreInfo"]
        return int(store["numPartitions"])
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenLogError(f"no state store is described: {error!r}") from error


def require_schema(content: bytes) -> bytes:
    """Return ``state/0/0/_metadata/schema`` as it is: only Spark reads it.

    Raises:
        BrokenLogError: it is empty, as after a power loss.
    """
    if not content:
        raise BrokenLogError("it is empty")
    return content


def _ends(sources: list[str]) -> Offsets:
    ends: dict[str, Mapping[int, int]] = {}
    for source in sources:
        if source == ABSENT_SOURCE:
            continue
        for topic, partitions in _object(source).items():
            ends[topic] = {int(number): int(offset) for number, offset in partitions.items()}
    return ends


def _lines_after_version(content: bytes) -> list[str]:
    version, *lines = _text(content).split("\n")
    if version != VERSION:
        raise BrokenLogError(f"it begins with {version[:20]!r} instead of {VERSION}")
    return [line for line in lines if line]


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BrokenLogError("it is not text") from error


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BrokenLogError(f"it is not whole JSON: {error}") from error
    if not isinstance(found, dict):
        raise BrokenLogError("it is not a JSON object")
    return found
