"""``checkback checkpoint verify``: the files first, then the markers beside them."""

from __future__ import annotations

from dataclasses import replace

from checkback.checkpoints.files import FolderFiles
from checkback.checkpoints.verification import (
    OUR_FOLDER,
    Problem,
    Verification,
    compare_markers,
    verify,
)
from checkback.operations.checkpoint_files import marker_settings, open_files, read_markers
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import NotFoundError


def verify_checkpoint(settings: Settings, *, with_markers: bool = True) -> Verification:
    """Return what the checkpoint in the settings holds and what is wrong with it.

    Raises:
        BrokerError: the markers are wanted and the brokers do not answer.
    """
    with open_files(settings) as files:
        return verify_files(settings, files, with_markers=with_markers)


def verify_files(
    settings: Settings, files: FolderFiles, *, with_markers: bool = True
) -> Verification:
    """Do it with files that are open already."""
    found = _require_owner(settings, verify(files))
    if not with_markers or found.query_id is None:
        return found
    sink = marker_settings(settings, found.query_id, found.identity)
    markers = read_markers(sink, found.state_partitions or 0)
    compared = compare_markers(found, markers, sink.marker_group)
    return replace(compared, ledger_batch=ledger_batch(settings, found.query_id))


def ledger_batch(settings: Settings, query_id: str) -> int | None:
    """Return the last batch of a query with rows in the ledger; None without ledger or rows.

    Raises:
        PrerequisiteError: the ledger can't be read.
    """
    if not settings.ledger:
        return None
    from checkback.sinks.ledger import DeltaLedger  # delta-rs is for those with a ledger

    try:
        return DeltaLedger.open(settings.ledger).last_batch(query_id)
    except NotFoundError:
        return None


def _require_owner(settings: Settings, found: Verification) -> Verification:
    if found.identity is None or found.identity.application_id == settings.application_id:
        return found
    problem = Problem(
        "foreign",
        f"{OUR_FOLDER}/identity.json",
        f"It belongs to application_id {found.identity.application_id!r}, the settings say "
        f"{settings.application_id!r}.",
        "Set application_id to the checkpoint's, or choose another checkpoint.",
    )
    return replace(found, problems=(*found.problems, problem))
