"""What ``checkback checkpoint verify`` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from checkback.checkpoints.own_files.identity import CheckpointIdentity

STOP_FIRST: Final = "The pipeline runs: stop it with SIGTERM, then verify again."
IF_IT_RUNS: Final = "If its pipeline runs, stop it with SIGTERM first and verify again."


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a checkpoint.

    Args:
        code: its kind: missing, torn, hole, state, partitions, marker-missing, marker-ahead,
            lost-records, recreated.
        file: the file, relative to the checkpoint; for a marker, the consumer group; for records,
            topic and partition.
    """

    code: str
    file: str
    says: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a checkpoint holds, and what is wrong with it.

    Args:
        query_id: Spark's id of the query, None if the query never ran or the id can't be read.
        identity: what the checkpoint is bound to, None if that can't be read.
        state_partitions: the number in the newest readable plan, None before the first batch.
        planned_batch: highest number in ``offsets``, readable or not; None if it is empty.
        committed_batch: highest number in ``commits``, readable or not; None if it is empty.
        whole_batch: the highest committed batch from which the job can continue, because its plan,
            its commit and the state of every partition are readable; None if there is none.
        markers: next batch by state partition, if the markers were read.
        ledger_batch: last batch with rows in the ledger; None if there is none or it was not read.
        is_running: whether a pipeline runs over it; None if that is not known.
    """

    query_id: str | None = None
    identity: CheckpointIdentity | None = None
    state_partitions: int | None = None
    planned_batch: int | None = None
    committed_batch: int | None = None
    whole_batch: int | None = None
    markers: Mapping[int, int] | None = None
    problems: tuple[Problem, ...] = ()
    ledger_batch: int | None = None
    is_running: bool | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether there is no problem."""
        return not self.problems

    @property
    def written_batch(self) -> int | None:
        """The highest batch with output, by the markers and the ledger; None if there is none.

        A batch that only brought halves writes nothing to Kafka, but rows to the ledger.
        """
        written = [next_batch - 1 for next_batch in (self.markers or {}).values()]
        written += [] if self.ledger_batch is None else [self.ledger_batch]
        return max(written, default=None)

    def as_data(self) -> dict[str, Any]:
        """Return the verification as plain data."""
        names = (
            "is_whole", "is_running", "query_id", "state_partitions", "planned_batch",
            "committed_batch", "whole_batch", "written_batch",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in names},
            "markers": None if self.markers is None else dict(self.markers),
            "problems": [asdict(problem) for problem in self.problems],
        }


def with_running(found: Verification, is_running: bool | None) -> Verification:
    """Return the verification with whether the pipeline runs, and with remedies that fit that."""
    if is_running is False:
        return replace(found, is_running=is_running)
    problems = tuple(
        replace(one, remedy=STOP_FIRST if is_running else f"{IF_IT_RUNS} {one.remedy}")
        for one in found.problems
    )
    return replace(found, is_running=is_running, problems=problems)
