"""Reads what is pending in each page from the state in a checkpoint."""

from __future__ import annotations

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.spark_files.state_rows import StoredPage, read_state
from checkback.sinks.report import PageStatus
from checkback.state import Page


def read_page_statuses(checkpoint: ReadableCheckpoint) -> list[PageStatus]:
    """Return the status of every page in the last committed batch's state.

    Raises:
        CheckpointError: the state can't be read.
        PrerequisiteError: the state is compressed by another codec than Spark's default.
    """
    held = read_state(checkpoint)
    return [] if held is None else [_status_of(stored) for stored in held.pages]


def _status_of(stored: StoredPage) -> PageStatus:
    page = Page.unpack(stored.blob)
    return PageStatus(
        page.partition,
        page.page,
        page.pending,
        page.oldest_ms,
        wake_at_ms=stored.timeout_ms,
        state_bytes=len(stored.blob),
    )
