"""Limits processes to a share of the machine's processor time, like a container's limit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from checkback.protocol.errors import PrerequisiteError

ROOT: Final = Path("/sys/fs/cgroup")
END_TIMEOUT_S: Final = 10.0
PERIOD_US: Final = 20_000
"""A fifth of the usual period, because a group that has used up its share pauses until the next
one."""


@contextmanager
def control_group(cores: float) -> Iterator[Path]:
    """Yield a control group (version 1 or 2) whose processes together have this many cores.

    Args:
        cores: number of cores; may be a fraction.

    Yields:
        The file to write process ids to; processes that these start later belong to the group, too.
        The group is removed at the end of the block, and must have no processes then.

    Raises:
        PrerequisiteError: there are no control groups here, or this user may not create one.
    """
    is_first_version = (ROOT / "cpu").is_dir()
    folder = (ROOT / "cpu" if is_first_version else ROOT) / f"checkback-{uuid.uuid4().hex[:8]}"
    quota_us = int(cores * PERIOD_US)
    try:
        folder.mkdir()
        if is_first_version:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    except OSError as error:
        raise PrerequisiteError(
            f"Processes can't be limited to {cores} cores here: {error}.",
            remedy="This needs Linux, root and control groups with the controller `cpu`. Without "
            "--cores-each every executor has a core of its own.",
        ) from error
    try:
        yield folder / "cgroup.procs"
    finally:
        _remove(folder)


def inside(group: Path | None, command: Sequence[str]) -> list[str]:
    """Return the command, changed to enter the group first."""
    if group is None:
        return list(command)
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group), *command]


def _remove(folder: Path) -> None:
    """Remove a group; its last processes may need a moment to end."""
    deadline_s = time.monotonic() + END_TIMEOUT_S
    while True:
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
        else:
            return
