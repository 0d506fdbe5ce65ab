"""Refuses to switch access control on while producers may still deliver what is pending.

With access control on, the pipeline refuses delivered ops, because nobody signs them. If a producer
delivered a half after the switch, the half would stay pending, get no answer to its checks and be
discarded, although consumers see its message.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from checkback.checkpoints.access_versions import OFF, read_access_version
from checkback.checkpoints.deliverable import Deliverable, read_deliverable
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import CheckpointError

_NAMED: Final = 3


def require_nothing_deliverable(spark: SparkSession, store: CheckpointStore, version: str) -> None:
    """Refuse to switch access control on while a producer may still deliver a pending half.

    Args:
        spark: reads the state.
        store: the checkpoint; no query runs over it.
        version: of the rules of this start, OFF for none.

    Raises:
        CheckpointError: a producer may still deliver a pending half.
    """
    if version == OFF or read_access_version(store).version != OFF:
        return
    found = read_deliverable(spark, store)
    if found:
        raise _deliverable(store.path, found)


def _deliverable(path: str, found: list[Deliverable]) -> CheckpointError:
    number = sum(one.number for one in found)
    named = ", ".join(f"{one.partition}:{one.offset}" for one in found[:_NAMED])
    halves = f"{number} direct halves of {path} are pending (the first at {named})"
    if number == 1:
        halves = f"A direct half of {path} is pending (at {named})"
    return CheckpointError(
        f"{halves}: with access control on, what its producer delivers or says would be refused.",
        remedy="Start without acl_file and with no producer that delivers directly, until none is"
        " pending, or decide it by `checkback tx resolve`; see `checkback docs security`.",
        pending=number,
    )
