"""Whether a checkpoint is whole: looked up file by file, without running anything over it.

What Spark needs to go on is the plan of the last batch, the commit of the one before, and for every
state partition a snapshot with all changelogs up to the version of the last committed batch
(version = batch + 1; 0 is the empty state). What we need besides is who we are and our rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeVar

from checkback.checkpoints.files import FolderFiles, UnreadableFileError
from checkback.checkpoints.identity import FILE as IDENTITY
from checkback.checkpoints.identity import CheckpointIdentity
from checkback.checkpoints.logs import (
    BrokenLogError,
    PlannedBatch,
    parse_commit,
    parse_offsets,
    parse_operator,
    parse_query_id,
)
from checkback.checkpoints.rules import FILE as RULES
from checkback.checkpoints.state_files import StateFiles
from checkback.protocol.errors import CheckpointError
from checkback.state import RulesHistory

OUR_FOLDER: Final = "checkback"
OPERATOR_METADATA: Final = "state/0/_metadata/metadata"
STATE_SCHEMA: Final = "state/0/0/_metadata/schema"
REBUILD: Final = "Run `checkback checkpoint rebuild`; see docs/operating/checkpoints.md."
RESTORE: Final = (
    "Restore the file as it was, or run `checkback checkpoint rebuild`; see "
    "docs/operating/checkpoints.md."
)
WRONG_COPY: Final = (
    "Use the newest checkpoint, or run `checkback checkpoint rebuild` if it is lost; see "
    "docs/operating/recovering.md."
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it has to be.

    Args:
        code: what kind: missing, torn, hole, state, partitions, marker-missing, marker-ahead.
        file: the file, relative to the checkpoint; of a marker, the consumer group.
        says: what is wrong.
        remedy: what to do.
    """

    code: str
    file: str
    says: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a checkpoint holds, and what is wrong with it.

    Args:
        query_id: Spark's id of the query, None where it never ran or can't be told.
        identity: whose it is, None where that can't be told.
        state_partitions: as the newest readable plan says, None before the first batch.
        planned_batch: highest number in ``offsets``, readable or not; None where none is.
        committed_batch: highest number in ``commits``, readable or not; None where none is.
        whole_batch: the highest committed batch from which the job could go on: its plan and
            commit are readable, and so is the state of every partition; None where none is.
        markers: next batch by state partition, where they were looked up.
        problems: what is wrong, files first.
        ledger_batch: last batch with rows in the ledger; None where there is none, or nobody asked.
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

    @property
    def is_whole(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.problems

    @property
    def written_batch(self) -> int | None:
        """Highest batch of which markers or ledger say that something is written; None for none.

        A batch that only brought halves writes nothing to Kafka, but rows to the ledger.
        """
        written = [next_batch - 1 for next_batch in (self.markers or {}).values()]
        written += [] if self.ledger_batch is None else [self.ledger_batch]
        return max(written, default=None)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "is_whole": self.is_whole,
            "query_id": self.query_id,
            "state_partitions": self.state_partitions,
            "planned_batch": self.planned_batch,
            "committed_batch": self.committed_batch,
            "whole_batch": self.whole_batch,
            "written_batch": self.written_batch,
            "markers": None if self.markers is None else dict(self.markers),
            "problems": [asdict(problem) for problem in self.problems],
        }


def verify(files: FolderFiles) -> Verification:
    """Look whether a checkpoint folder is whole; markers are compared by `compare_markers`."""
    return _Look(files, files.sizes()).result()


def compare_markers(found: Verification, markers: Mapping[int, int], group: str) -> Verification:
    """Return the verification with the markers beside it, and what of them contradicts the files.

    Args:
        found: what `verify` returned.
        markers: next batch by state partition, of those that have one.
        group: the consumer group that holds them.
    """
    own = {number: at for number, at in markers.items() if number < (found.state_partitions or 0)}
    problems = [
        *_missing_markers(found, own, group),
        *_markers_ahead(found, markers, group),
    ]
    return replace(found, markers=own, problems=(*found.problems, *problems))


def _missing_markers(found: Verification, markers: Mapping[int, int], group: str) -> list[Problem]:
    committed = found.committed_batch
    if committed is None:
        return []
    return [
        Problem(
            "marker-missing",
            group,
            f"State partition {number} has no marker though batch {committed} is committed: "
            "whether the next batch was written can't be known.",
            REBUILD,
        )
        for number in range(_bound_partitions(found))
        if number not in markers
    ]


def _bound_partitions(found: Verification) -> int:
    """Return how many have written: those that a repartition adds get a marker before its end."""
    planned = found.state_partitions or 0
    return planned if found.identity is None else min(planned, found.identity.state_partitions)


def _markers_ahead(found: Verification, markers: Mapping[int, int], group: str) -> list[Problem]:
    planned = -1 if found.planned_batch is None else found.planned_batch
    return [
        Problem(
            "marker-ahead",
            group,
            f"State partition {number} has written batch {next_batch - 1}, the checkpoint ends "
            f"with the plan of {planned}: it is an older copy.",
            WRONG_COPY,
        )
        for number, next_batch in sorted(markers.items())
        if next_batch - 1 > planned
    ]


@dataclass(slots=True)
class _Look:
    """One look at a folder: reads what it needs, collects what is wrong."""

    files: FolderFiles
    sizes: Mapping[str, int]
    problems: list[Problem] = field(default_factory=list)

    def result(self) -> Verification:
        if not self.sizes:
            self._add("missing", "", "The folder is empty or does not exist.", "Check the setting.")
            return Verification(problems=tuple(self.problems))
        planned, committed = self._numbers("offsets"), self._numbers("commits")
        identity = self._parsed(
            f"{OUR_FOLDER}/{IDENTITY}", lambda text: CheckpointIdentity.from_json(text.decode())
        )
        query_id = self._query_id(has_batches=bool(planned or committed))
        self._rules(has_batches=bool(planned or committed))
        plans = self._parsed_all("offsets", planned, parse_offsets)
        commits = self._parsed_all("commits", committed, parse_commit)
        self._holes("offsets", planned)
        self._holes("commits", committed)
        self._order(planned, committed)
        partitions = self._partitions(plans, identity)
        whole = self._whole_batch(plans, commits, max(committed, default=None))
        return Verification(
            query_id,
            identity,
            partitions,
            max(planned, default=None),
            max(committed, default=None),
            whole,
            problems=tuple(self.problems),
        )

    def _add(self, code: str, file: str, says: str, remedy: str) -> None:
        self.problems.append(Problem(code, file, says, remedy))

    def _numbers(self, log: str) -> list[int]:
        names = (name.partition("/") for name in self.sizes if name.startswith(f"{log}/"))
        return sorted(int(number) for _, _, number in names if number.isdigit())

    def _parsed(self, name: str, parse: Callable[[bytes], T], remedy: str = RESTORE) -> T | None:
        if name not in self.sizes:
            self._add("missing", name, "The file is missing.", remedy)
            return None
        try:
            return parse(self.files.read(name))
        except (BrokenLogError, UnreadableFileError, CheckpointError, ValueError) as error:
            self._add("torn", name, f"The file can't be used: {error}.", remedy)
            return None

    def _parsed_all(
        self, log: str, numbers: Sequence[int], parse: Callable[[bytes], T]
    ) -> dict[int, T]:
        found = {number: self._parsed(f"{log}/{number}", parse, REBUILD) for number in numbers}
        return {number: one for number, one in found.items() if one is not None}

    def _query_id(self, *, has_batches: bool) -> str | None:
        if "metadata" not in self.sizes and not has_batches:
            return None
        return self._parsed("metadata", parse_query_id)

    def _rules(self, *, has_batches: bool) -> None:
        name = f"{OUR_FOLDER}/{RULES}"
        if name in self.sizes or has_batches:
            self._parsed(name, lambda text: RulesHistory.from_json(text.decode()))

    def _holes(self, log: str, numbers: Sequence[int]) -> None:
        expected = range(min(numbers), max(numbers) + 1) if numbers else range(0)
        for number in sorted({*expected} - {*numbers}):
            says = "Batches before and after it are there, this one is missing."
            self._add("hole", f"{log}/{number}", says, REBUILD)

    def _order(self, planned: Sequence[int], committed: Sequence[int]) -> None:
        last_planned, last_committed = max(planned, default=-1), max(committed, default=-1)
        if last_committed > last_planned:
            says = f"Batch {last_committed} is committed and was never planned."
            self._add("missing", f"offsets/{last_committed}", says, REBUILD)
        if last_planned > last_committed + 1:
            says = f"Batch {last_planned} is planned though the one before was never committed."
            self._add("missing", f"commits/{last_planned - 1}", says, REBUILD)

    def _partitions(
        self, plans: Mapping[int, PlannedBatch], identity: CheckpointIdentity | None
    ) -> int | None:
        if not plans:
            return None if identity is None else identity.state_partitions
        newest = max(plans)
        try:
            partitions = plans[newest].state_partitions
        except BrokenLogError as error:
            self._add("torn", f"offsets/{newest}", f"It has {error}.", REBUILD)
            return None
        if identity is not None and identity.state_partitions != partitions:
            self._add(
                "partitions",
                f"{OUR_FOLDER}/{IDENTITY}",
                f"It says {identity.state_partitions} state partitions, offsets/{newest} says "
                f"{partitions}.",
                f"Run `checkback checkpoint repartition {partitions}` again: it ends what was "
                "left half done.",
            )
        return partitions

    def _whole_batch(
        self,
        plans: Mapping[int, PlannedBatch],
        commits: Mapping[int, object],
        last_committed: int | None,
    ) -> int | None:
        """Return the newest batch to go on from; what stands in the way of newer ones is told."""
        if last_committed is None:
            return None
        operator = self._parsed(OPERATOR_METADATA, parse_operator, REBUILD)
        if STATE_SCHEMA not in self.sizes:
            self._add("missing", STATE_SCHEMA, "The state's schema is missing.", REBUILD)
        state = StateFiles(self.files, self.sizes)
        for batch in sorted({*plans} & {*commits}, reverse=True):
            wanted = plans[batch].state_partitions
            faults = state.faults(batch + 1, wanted, plans[batch].conf)
            if not faults:
                return batch if operator is not None and STATE_SCHEMA in self.sizes else None
            if batch == last_committed:
                for file, says in faults:
                    self._add("state", file, says, REBUILD)
        return None
