"""What happens around a batch, without Spark."""

from __future__ import annotations

from dataclasses import fields
from threading import Event
from typing import Any
from unittest.mock import MagicMock

import pytest

from checkback.checkpoints.own_files.relay_terms import RelaySpan
from checkback.checkpoints.spark_files.logs import PlannedBatch
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import FencedError, OperationalError
from checkback.protocol.topics import TopicNames
from checkback.sinks.settings import SinkSettings
from checkback.streaming.batch.run_batch import RunBatch
from checkback.streaming.batch.sink_task import sink_function
from checkback.streaming.batch.stop import StoppedBetweenBatchesError
from checkback.streaming.batch.terms import BatchPlans
from checkback.streaming.job.query_failure import raising_exceptions
from checkback.streaming.relay.terms import RelayTermsOfRun
from checkback.streaming.reports.progress import Progress
from checkback.streaming.start.clock_check import AheadWatch

SETTINGS = SinkSettings(Settings(), "q", {}, 1_000)


class Outcomes:
    """A DataFrame whose tasks have nothing to report."""

    def __init__(self) -> None:
        self.written = 0
        self.sparkSession = MagicMock()

    def mapInArrow(self, *_: object) -> Outcomes:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> list[Any]:
        self.written += 1
        return []


class Watch:
    def __init__(self, *, is_own: bool) -> None:
        self.is_own = is_own

    def require_own(self) -> None:
        if not self.is_own:
            raise FencedError("another job has taken over")


def run_batch(**changes: Any) -> RunBatch:
    """A batch of a job whose other parts have nothing to say."""
    given: dict[str, Any] = {field.name: MagicMock() for field in fields(RunBatch)}
    plan = PlannedBatch(0, {}, {})
    terms = MagicMock(plans_of=lambda _: BatchPlans(plan, None))
    observed = MagicMock(log_level="INFO")
    given |= {"settings": SETTINGS, "progress": Progress(), "stopping": Event()}
    given |= {"ledger": None, "relay": None, "only_batch": None}
    return RunBatch(**{**given, "terms": terms, "observed": observed, **changes})


class PanicError(BaseException):
    """As libraries in Rust raise one."""


def test_whatever_a_batch_raises_is_an_exception_of_one_sentence() -> None:
    """py4j's thread ended by anything else without an answer, and the query hung for ever."""

    def panics(_: object, batch_id: int) -> None:
        raise PanicError("no file\ncan be opened") if batch_id else FencedError("taken over")

    with pytest.raises(OperationalError, match=r"^Batch 3 ended by PanicError: no file can be"):
        raising_exceptions(panics)(Outcomes(), 3)  # type: ignore[arg-type]
    with pytest.raises(FencedError):
        raising_exceptions(panics)(Outcomes(), 0)  # type: ignore[arg-type]


def test_what_a_written_batch_has_read_is_known_before_spark_tells_it() -> None:
    """Spark tells it once the batch is over, which may hang or be held."""
    plan, progress = PlannedBatch(0, {"half": {0: 7, 1: 4}}, {}), Progress()
    progress.read = {("half", 1): 2, ("op", 0): 9}
    terms = MagicMock(plans_of=lambda _: BatchPlans(plan, None))

    run_batch(terms=terms, progress=progress)(Outcomes(), 3)  # type: ignore[arg-type]

    assert progress.read == {("half", 0): 7, ("half", 1): 4, ("op", 0): 9}


def test_a_batch_is_at_work_until_spark_has_its_answer() -> None:
    """Where its thread is gone before, /healthz has to know that one was at work."""
    told: list[str] = []
    observed = MagicMock(log_level="INFO")
    observed.health.batch_begun, observed.health.batch_over = (
        lambda _: told.append("begun"), lambda: told.append("over"),
    )  # fmt: skip
    panics = MagicMock(side_effect=PanicError)

    run_batch(observed=observed)(Outcomes(), 3)  # type: ignore[arg-type]
    fenced = run_batch(observed=observed, require_own_epoch=Watch(is_own=False).require_own)
    with pytest.raises(FencedError):
        fenced(Outcomes(), 4)  # type: ignore[arg-type]
    with pytest.raises(PanicError):
        run_batch(observed=observed, growth=MagicMock(follow=panics))(Outcomes(), 5)  # type: ignore[arg-type]

    assert told == ["begun", "over", "begun", "over", "begun"]


def test_a_job_looks_for_a_younger_one_before_spark_plans_the_next_batch() -> None:
    outcomes = Outcomes()

    run_batch(require_own_epoch=Watch(is_own=True).require_own)(outcomes, 3)  # type: ignore[arg-type]
    with pytest.raises(FencedError):
        run_batch(require_own_epoch=Watch(is_own=False).require_own)(outcomes, 4)  # type: ignore[arg-type]

    assert outcomes.written == 2


def test_a_batch_is_not_begun_whose_time_the_brokers_deny() -> None:
    outcomes = MagicMock()
    plan, clock = PlannedBatch(86_400_000, {}, {}), AheadWatch(lambda: 0, lambda: 86_400_000)
    terms = MagicMock(plans_of=lambda _: BatchPlans(plan, None))

    with pytest.raises(OperationalError, match="ahead of the brokers'"):
        run_batch(terms=terms, clock=clock)(outcomes, 3)

    outcomes.mapInArrow.assert_not_called()


def test_a_batch_after_a_stop_is_not_begun() -> None:
    outcomes, stopping = Outcomes(), Event()
    stopping.set()

    with pytest.raises(StoppedBetweenBatchesError):
        run_batch(stopping=stopping)(outcomes, 3)  # type: ignore[arg-type]

    assert outcomes.written == 0


def test_outside_of_a_spark_task_nothing_is_written() -> None:
    write = sink_function(SETTINGS, 0)

    with pytest.raises(OperationalError, match="inside Spark tasks only"):
        next(write(iter(())))


@pytest.mark.parametrize(("op", "wants_sleep"), [(1, True), (0, False)])
def test_a_batch_of_marks_and_of_ops_that_relays_take_did_nothing(
    op: int, *, wants_sleep: bool
) -> None:
    """Partition 1 is the relays', partition 0 the job's."""
    names, spans = TopicNames(), {1: (RelaySpan(0, 0),)}
    relay = RelayTermsOfRun(names, spans, lambda _: {})
    ends = {names.op: {0: 4, 1: 4}, names.decided: {1: 9}}
    before = {names.op: {0: 4, 1: 4, op: 3}, names.decided: {1: 7}}
    plans = BatchPlans(PlannedBatch(0, ends, {}), PlannedBatch(0, before, {}))
    terms = MagicMock(plans_of=lambda _: plans, relayed=relay.of_batch(ends, {}))
    idling = MagicMock()

    run_batch(terms=terms, relay=relay, idling=idling)(Outcomes(), 3)  # type: ignore[arg-type]

    read = {names.op: {0: 4}, names.decided: {1: 9}}
    idling.hold.assert_called_once_with(3, read, did_nothing=wants_sleep)


def test_a_run_of_one_planned_batch_carries_out_no_other() -> None:
    with pytest.raises(FencedError, match="batch 2"):
        run_batch(only_batch=2)(Outcomes(), 3)  # type: ignore[arg-type]
