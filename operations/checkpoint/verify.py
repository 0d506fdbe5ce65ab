"""``checkback checkpoint verify``: check each file, then compare the markers with the files.

It runs no query over the checkpoint. To continue, Spark needs the plan of the last batch, the
commit of the batch before, and for every state partition a snapshot with all changelogs up to the
version of the last committed batch (version = batch + 1; 0 is the empty state). Checkback also
needs its identity file and its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from confluent_kafka.admin import AdminClient

from checkback.checkpoints.files import (
    OUR_FOLDER,
    FolderFiles,
    ReadableCheckpoint,
    UnreadableFileError,
)
from checkback.checkpoints.own_files.batch_terms import FOLDER as TERMS
from checkback.checkpoints.own_files.batch_terms import all_notes, parse_note
from checkback.checkpoints.own_files.identity import FILE as IDENTITY
from checkback.checkpoints.own_files.identity import CheckpointIdentity
from checkback.checkpoints.own_files.running import is_pipeline_running
from checkback.checkpoints.spark_files.logs import (
    OPERATOR_METADATA,
    STATE_SCHEMA,
    BrokenLogError,
    PlannedBatch,
    parse_commit,
    parse_offsets,
    parse_operator,
    parse_query_id,
    require_schema,
)
from checkback.checkpoints.spark_files.state_files import StateFiles
from checkback.operations.checkpoint.open import marker_settings, open_files, read_markers
from checkback.operations.checkpoint.verification import (
    Problem,
    Verification,
    with_running,
)
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError, NotFoundError
from checkback.streaming.start.kept_records import KeptRecords, LeaderEpochs, log_ends, read_to

REBUILD: Final = "Run `checkback checkpoint rebuild`; see `checkback docs checkpoints`."
RESTORE: Final = (
    "Restore the file from a backup, or run `checkback checkpoint rebuild`; see "
    "`checkback docs checkpoints`."
)
WRONG_COPY: Final = (
    "Use the newest checkpoint, or run `checkback checkpoint rebuild` if it is lost; see "
    "`checkback docs recovering`."
)

LOOKS: Final = 5

T = TypeVar("T")


def verify_checkpoint(settings: Settings, *, with_markers: bool = True) -> Verification:
    """Return what the checkpoint in the settings holds and what is wrong with it.

    Its pipeline may be running: the remedies then say to stop it first.

    Raises:
        BrokerError: the caller wants markers and the brokers do not answer.
    """
    with open_files(settings) as store:
        found = verify_files(settings, store, with_markers=with_markers)
    return with_running(found, is_pipeline_running(settings))


def verify_files(
    settings: Settings, files: ReadableCheckpoint, *, with_markers: bool = True
) -> Verification:
    """Verify a checkpoint that is already open."""
    found = _require_owner(settings, verify(files))
    if not with_markers or found.query_id is None:
        return found
    sink = marker_settings(settings, found.query_id, found.identity)
    markers = read_markers(sink, found.state_partitions or 0)
    compared = compare_markers(found, markers, sink.marker_group)
    problems = *compared.problems, *_lost_records(sink.connection, files)
    compared = replace(compared, problems=problems)
    return replace(compared, ledger_batch=ledger_batch(settings, found.query_id))


def _lost_records(connection: Mapping[str, Any], files: ReadableCheckpoint) -> list[Problem]:
    """Return a problem for each partition that lost records which the checkpoint has read."""
    read = read_to(files)
    epochs: LeaderEpochs = {}
    with suppress(CheckpointError):  # a note that can't be read is a problem already
        epochs = next((one.terms.leader_epochs for one in reversed(all_notes(files))), {})
    ends = log_ends(AdminClient({**connection}), read) if read else {}
    lost, _ = KeptRecords(connection).lost(read, epochs, ends)
    return [Problem("lost-records", name, says, REBUILD) for name, says in lost.items()]


def ledger_batch(settings: Settings, query_id: str) -> int | None:
    """Return the last batch of a query that has rows in the ledger; None without ledger or rows."""
    if not settings.ledger:
        return None
    from checkback.sinks.ledger.table import DeltaLedger  # delta-rs is for those with a ledger

    try:
        return DeltaLedger.open(settings.ledger).last_batch(query_id)
    except NotFoundError:
        return None


def verify(files: FolderFiles) -> Verification:
    """Check whether a checkpoint folder is whole; `compare_markers` compares the markers.

    A running pipeline makes and deletes files meanwhile. So as long as files change, what is wrong
    is looked at again, and only what stays wrong is a problem.
    """
    sizes = files.sizes()
    found = _Look(files, sizes).result()
    lasting = _places(found)
    for _ in range(LOOKS - 1):
        listed = files.sizes()
        if found.is_whole or listed == sizes:
            return found
        sizes, found = listed, _Look(files, listed).result()
        lasting &= _places(found)
    problems = tuple(one for one in found.problems if (one.code, one.file) in lasting)
    return replace(found, problems=problems)


def _places(found: Verification) -> set[tuple[str, str]]:
    return {(one.code, one.file) for one in found.problems}


def compare_markers(found: Verification, markers: Mapping[int, int], group: str) -> Verification:
    """Return the verification with the markers, and with a problem for each contradiction."""
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
            f"State partition {number} has no marker although batch {committed} is committed: "
            "whether the next batch was written can't be known.",
            REBUILD,
        )
        for number in range(_bound_partitions(found))
        if number not in markers
    ]


def _bound_partitions(found: Verification) -> int:
    """Return how many partitions must have markers; a repartition adds the new ones at its end."""
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


def _require_owner(settings: Settings, found: Verification) -> Verification:
    if found.identity is None or found.identity.application_id == settings.application_id:
        return found
    problem = Problem(
        "foreign",
        f"{OUR_FOLDER}/{IDENTITY}",
        f"It belongs to application_id {found.identity.application_id!r}, the settings have "
        f"{settings.application_id!r}.",
        "Set application_id to the checkpoint's, or choose another checkpoint.",
    )
    return replace(found, problems=(*found.problems, problem))


@dataclass(slots=True)
class _Look:
    """One check of a folder: reads the files and collects the problems."""

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
        self._terms()
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

    def _numbers(self, folder: str, end: str = "") -> list[int]:
        names = [name.removesuffix(end) for name in self.sizes if name.endswith(end)]
        stems = [name.removeprefix(f"{folder}/") for name in names if name.startswith(f"{folder}/")]
        return sorted(int(stem) for stem in stems if stem.isdigit())

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

    def _terms(self) -> None:
        numbers = self._numbers(f"{OUR_FOLDER}/{TERMS}", ".json")
        if numbers:
            newest = f"{OUR_FOLDER}/{TERMS}/{numbers[-1]}.json"
            self._parsed(newest, lambda text: parse_note(text.decode(), newest))

    def _holes(self, log: str, numbers: Sequence[int]) -> None:
        expected = range(min(numbers), max(numbers) + 1) if numbers else range(0)
        for number in sorted({*expected} - {*numbers}):
            says = "This batch is missing between an older and a newer one."
            self._add("hole", f"{log}/{number}", says, REBUILD)

    def _order(self, planned: Sequence[int], committed: Sequence[int]) -> None:
        last_planned, last_committed = max(planned, default=-1), max(committed, default=-1)
        if last_committed > last_planned:
            says = f"Batch {last_committed} is committed but has no plan."
            self._add("missing", f"offsets/{last_committed}", says, REBUILD)
        if last_planned > last_committed + 1:
            says = f"Batch {last_planned} is planned but the batch before was never committed."
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
                f"It has {identity.state_partitions} state partitions, offsets/{newest} has "
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
        """Return the newest batch to go on from; add what stands in the way of newer ones."""
        if last_committed is None:
            return None
        operator = self._parsed(OPERATOR_METADATA, parse_operator, REBUILD)
        schema = self._parsed(STATE_SCHEMA, require_schema, REBUILD)
        state = StateFiles(self.files, self.sizes)
        for batch in sorted({*plans} & {*commits}, reverse=True):
            wanted = plans[batch].state_partitions
            faults = state.faults(batch + 1, wanted, plans[batch].conf)
            if not faults:
                return batch if operator is not None and schema is not None else None
            if batch == last_committed:
                for file, says in faults:
                    self._add("state", file, says, REBUILD)
        return None
