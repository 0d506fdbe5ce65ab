"""What must hold after any crash. Pure: compares what the application did with what it read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.crash.truth import Evidence, Fate, Position, Transaction

from checkback.state.formats.settled_marks import Mark as MarkKind

COMMITS = frozenset({MarkKind.COMMIT, MarkKind.DELIVERED})
VERDICTS = COMMITS | {
    MarkKind.ROLLBACK, MarkKind.DISCARD_CHECK_LIMIT, MarkKind.DISCARD_EXPIRED
}  # fmt: skip
DISCARDS = frozenset({MarkKind.DISCARD_CHECK_LIMIT, MarkKind.DISCARD_EXPIRED})


@dataclass(frozen=True, slots=True)
class Told:
    """What the settled marks say about one half in one batch."""

    half: Position
    kind: MarkKind
    check_times: int
    state_partition: int
    batch_id: int


def audit_so_far(truth: Mapping[Position, Transaction], evidence: Evidence) -> list[str]:
    """Return what is already wrong: no record may appear twice, or without a reason."""
    told = list(_told(evidence))
    return [
        *_twice("final", (final.half for final in evidence.finals)),
        *_twice("check request", evidence.checks),
        *_twice("discarded", evidence.discarded),
        *_twice("mark of half and batch", ((one.half, one.batch_id) for one in told)),
        *_twice("verdict", (one.half for one in told if one.kind in VERDICTS)),
        *_twice(
            "asked", ((one.half, one.check_times) for one in told if one.kind is MarkKind.ASKED)
        ),
        *_twice("asked in one batch", _asked_in_batch(told)),
        *_wrong_finals(truth, evidence),
        *_disorder_of_keys(truth, evidence),
    ]


def audit_at_end(truth: Mapping[Position, Transaction], evidence: Evidence) -> list[str]:
    """Return everything that is wrong when all is settled: then nothing may be missing, either."""
    told = list(_told(evidence))
    return [
        *audit_so_far(truth, evidence),
        *_missing(truth, evidence),
        *_disagreements(told, evidence),
        *_disorder(told, evidence),
    ]


def unsettled(truth: Mapping[Position, Transaction], evidence: Evidence) -> list[Transaction]:
    """Return the transactions without a verdict."""
    settled = {one.half for one in _told(evidence) if one.kind in VERDICTS}
    return [one for position, one in truth.items() if position not in settled]


def _told(evidence: Evidence) -> Iterator[Told]:
    for state_partition, marks in evidence.marks:
        rows = zip(
            marks.offset.tolist(), marks.mark.tolist(), marks.check_times.tolist(), strict=True
        )
        for offset, kind, times in rows:
            half = (marks.partition, offset)
            yield Told(half, MarkKind(kind), times, state_partition, marks.batch_id)


def _asked_in_batch(told: Iterable[Told]) -> Iterator[Hashable]:
    return ((one.batch_id, one.half) for one in told if one.kind is MarkKind.ASKED)


def _twice(what: str, seen: Iterable[Hashable]) -> Iterator[str]:
    for one, count in Counter(seen).items():
        if count > 1:
            yield f"{what} {count} times: {one}"


def _wrong_finals(truth: Mapping[Position, Transaction], evidence: Evidence) -> Iterator[str]:
    for final in evidence.finals:
        transaction = truth.get(final.half)
        if transaction is None or not transaction.fate.is_committed:
            yield f"final without a commit: {final}, {transaction}"
        elif (final.topic, final.body) != (transaction.topic, transaction.body):
            yield f"final is not its half: {final}, {transaction}"


def _missing(truth: Mapping[Position, Transaction], evidence: Evidence) -> Iterator[str]:
    finals = {final.half for final in evidence.finals}
    discarded = set(evidence.discarded)
    too_late = {body for reason, body in evidence.refused if reason.endswith("_AFTER_DISCARD")}
    for position, one in truth.items():
        # An answer that comes after the last check's time is refused, with a refused record.
        came_late = one.body.decode() in too_late and one.fate is not Fate.COMMITTED
        if one.fate.is_committed and position not in finals and not came_late:
            yield f"committed half without a final: {one}"
        if position in discarded and one.fate is not Fate.SILENT and not came_late:
            yield f"discarded although it was ended: {one}"
        if one.fate is Fate.SILENT and position not in discarded:
            yield f"never ended and not discarded: {one}"


def _disagreements(told: Iterable[Told], evidence: Evidence) -> Iterator[str]:
    marked: dict[str, set[Hashable]] = defaultdict(set)
    for one in told:
        if one.kind in COMMITS:
            marked["final"].add(one.half)
        elif one.kind is MarkKind.ASKED:
            marked["check request"].add((one.half, one.check_times))
        elif one.kind in DISCARDS:
            marked["discarded"].add(one.half)
    seen: dict[str, set[Hashable]] = {
        "final": {final.half for final in evidence.finals},
        "check request": set(evidence.checks),
        "discarded": set(evidence.discarded),
    }
    for what, found in seen.items():
        for half in found ^ marked[what]:
            yield f"{what} and settled marks disagree: {half}"


def _disorder_of_keys(truth: Mapping[Position, Transaction], evidence: Evidence) -> Iterator[str]:
    """Yield finals behind later ones of their key, where both were committed at once."""
    last: dict[Hashable, Position] = {}
    for final in sorted(evidence.finals, key=lambda one: (one.topic, one.partition, one.offset)):
        one = truth.get(final.half)
        if one is None or not one.key or one.fate is not Fate.COMMITTED:
            continue
        line = (final.topic, one.key)
        if line in last and final.half < last[line]:
            yield f"behind a later one of its key: {final}, {last[line]}"
        last[line] = final.half


def _disorder(told: Iterable[Told], evidence: Evidence) -> Iterator[str]:
    """Yield finals out of order.

    On each partition of a real topic, the finals of one state partition have the order of the
    batches and, within a batch, of the halves.
    """
    commits = {one.half: one for one in told if one.kind is MarkKind.COMMIT}
    last: dict[Hashable, tuple[int, Position]] = {}
    for final in sorted(evidence.finals, key=lambda one: (one.topic, one.partition, one.offset)):
        commit = commits.get(final.half)
        if commit is None:
            continue
        line = (final.topic, final.partition, commit.state_partition)
        place = (commit.batch_id, final.half)
        if line in last and place <= last[line]:
            yield f"out of order: {final} of batch {commit.batch_id} after {last[line]}"
        last[line] = place
