"""What decides a batch: what is hidden, which halves an op may name; and a replay repeats it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.unit.notes import Notes
from tests.unit.state.building import RULES

from checkback.checkpoints.own_files.batch_terms import (
    FOLDER,
    NOTES_KEPT,
    READ_TO_END,
    AccessVersion,
    BatchTerms,
    LeaderEpoch,
    OpRange,
    newest_terms,
    note_terms,
)
from checkback.checkpoints.spark_files.logs import PlannedBatch
from checkback.protocol.errors import CheckpointError
from checkback.sinks.kafka.read.list_offsets import LogEnd, Place
from checkback.state import NOTHING_READ, Rules
from checkback.streaming.batch import terms as module
from checkback.streaming.batch.terms import (
    PAGES_AHEAD,
    BatchPlans,
    TaskTerms,
    TermsOfRun,
    hidden_partitions,
)
from checkback.streaming.spark.java_protocol import TERMS_PROPERTY
from checkback.streaming.start import kept_records
from checkback.streaming.start.kept_records import LeaderEpochs, LogEnds, log_ends

PAGE_SIZE = 8
AHEAD = PAGES_AHEAD * PAGE_SIZE
OTHER = replace(RULES, check_max=9)


@dataclass
class Topics:
    """The half and the op topic: where they end, and how far the plans have read them."""

    ends: dict[Place, int] = field(
        default_factory=lambda: {("half", 0): 10, ("half", 1): 20, ("op", 0): 5, ("op", 1): 5}
    )
    plans: dict[int, PlannedBatch] = field(default_factory=dict)

    def plan(self, batch: int, *, time_ms: int = 0, **unread: int) -> None:
        """Plan a batch up to the ends, less the number that is given of a partition: op1=3."""
        ends: dict[str, dict[int, int]] = {"half": {}, "op": {}}
        for (topic, number), end in self.ends.items():
            ends[topic][number] = end - unread.get(f"{topic}{number}", 0)
        self.plans[batch] = PlannedBatch(time_ms or 1_000 * batch, ends, {})

    def planned(self, batch: int) -> PlannedBatch:
        return self.plans[batch]


@dataclass
class Driver:
    """A run over a checkpoint; each `Driver` is a run of its own."""

    topics: Topics
    store: Any = field(default_factory=Notes)
    is_begun: bool = False
    rules: Rules = RULES
    access: AccessVersion = field(default_factory=AccessVersion)
    first_pages: Mapping[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    clock_ahead_ms: int = 0
    is_silent: bool = False
    epoch: int = 0

    def __post_init__(self) -> None:
        self.compared: list[tuple[dict[Place, int], dict[Place, LeaderEpoch]]] = []
        self.run = TermsOfRun(
            self.store,
            self.topics,  # type: ignore[arg-type]
            self.rules,
            self.access,
            self._look,
            self._require_kept,
            lambda: self.first_pages,
            lambda: self.clock_ahead_ms,
            lambda _: self.is_begun,
            "half",
            PAGE_SIZE,
        )

    def decide(self, batch: int) -> BatchTerms:
        """Decide a batch; plan it up to the ends if it is not planned."""
        if batch not in self.topics.plans:
            self.topics.plan(batch)
        return self.run._of_batch(batch, self.run.plans_of(batch))

    def _look(self, places: Collection[Place]) -> LogEnds:
        if self.is_silent:
            return {}
        return {place: LogEnd(self.topics.ends[place], self.epoch) for place in places}

    def _require_kept(
        self, read: Mapping[Place, int], epochs: LeaderEpochs, ends: LogEnds
    ) -> LogEnds:
        self.compared.append((dict(read), dict(epochs)))
        return ends


@pytest.fixture
def topics() -> Topics:
    found = Topics()
    found.plan(4)
    return found


def test_a_partition_is_hidden_whose_plan_ends_before_what_was_stored() -> None:
    stored = {("half", 0): 10, ("op", 0): 5, ("half", 1): 10, ("op", 1): 5}

    assert hidden_partitions({"half": {0: 10, 1: 11}, "op": {0: 5, 1: 4}}, stored) == {1}
    assert hidden_partitions({"half": {0: 9, 1: 11}, "op": {0: 5, 1: 5}}, stored) == {0}


def test_a_partition_that_the_look_did_not_know_is_hidden() -> None:
    assert hidden_partitions({"half": {0: 10, 7: 3}}, {("half", 0): 10}) == {7}


def test_what_comes_after_the_look_hides_nothing(topics: Topics) -> None:
    driver = Driver(topics)
    driver.decide(5)
    topics.plan(6)
    topics.ends["op", 1] += 100

    assert driver.decide(6).hidden == frozenset()


def test_what_was_stored_when_the_batch_before_was_planned_has_to_be_read(topics: Topics) -> None:
    driver = Driver(topics)
    topics.ends["op", 1] += 100
    topics.plan(5, op1=100)
    driver.decide(5)
    topics.plan(6, op1=1)  # a limit cut it, or a transaction hides the last record

    assert driver.decide(6).hidden == {1}
    topics.plan(7)
    assert driver.decide(7).hidden == frozenset()


def test_the_first_batch_of_a_run_has_to_have_read_all_that_is_there(topics: Topics) -> None:
    topics.plan(5, half0=1)

    assert Driver(topics).decide(5).hidden == {0}


def test_while_the_brokers_are_silent_everything_is_hidden(topics: Topics) -> None:
    driver = Driver(topics)
    driver.decide(5)
    driver.is_silent = True

    assert driver.decide(6).hidden == frozenset()  # the look of batch 5 counts
    driver.is_silent = False
    assert driver.decide(7).hidden == {0, 1}
    assert driver.decide(8).hidden == frozenset()


@pytest.mark.parametrize(
    ("before_ms", "batch_ms", "ahead_ms", "until_ms"),
    [
        pytest.param(5_000, 9_000, 0, 5_000, id="what was there before"),
        pytest.param(5_000, 9_000, 2_000, 3_000, id="by a clock ahead"),
        pytest.param(None, 9_000, 0, NOTHING_READ, id="first batch"),
        pytest.param(5_000, 4_000, 0, 4_000, id="clock set back"),
    ],
)
def test_what_was_there_when_the_batch_before_was_planned_was_read(
    before_ms: int | None, batch_ms: int, ahead_ms: int, until_ms: int
) -> None:
    before = None if before_ms is None else PlannedBatch(before_ms, {}, {})

    assert BatchPlans(PlannedBatch(batch_ms, {}, {}), before).read_until_ms(ahead_ms) == until_ms


def test_only_a_step_of_a_clock_is_noted(topics: Topics) -> None:
    driver = Driver(topics, clock_ahead_ms=2_000)
    found = [driver.decide(5).clock_ahead_ms]
    for batch, ahead_ms in ((6, 2_200), (7, 1_800), (8, 2_300), (9, -5_000)):
        driver.clock_ahead_ms = ahead_ms
        found.append(driver.decide(batch).clock_ahead_ms)

    assert found == [2_000, 2_000, 2_000, 2_300, 0]


def test_an_op_may_name_some_pages_more_than_the_log_has(topics: Topics) -> None:
    assert Driver(topics).decide(5).op_ranges == {0: (0, 10 + AHEAD), 1: (0, 20 + AHEAD)}


def test_they_move_once_the_log_has_grown_past_them(topics: Topics) -> None:
    driver = Driver(topics)
    first = driver.decide(5).op_ranges

    topics.ends["half", 0] = 10 + AHEAD
    assert driver.decide(6).op_ranges == first
    topics.ends["half", 0] = 11 + AHEAD
    assert driver.decide(7).op_ranges[0] == (0, 11 + 2 * AHEAD)


def test_where_the_brokers_are_silent_an_op_may_name_any_half(topics: Topics) -> None:
    assert Driver(topics, is_silent=True).decide(5).op_ranges == {}


def test_of_pages_that_were_read_those_count_with_something_remembered(topics: Topics) -> None:
    topics.ends["half", 0] = 5_000
    topics.plan(4)

    ranges = Driver(topics, first_pages={0: 40}).decide(5).op_ranges

    assert ranges == {0: (320, 5_000 + AHEAD), 1: (20, 20 + AHEAD)}


def test_halves_that_are_not_read_may_be_named_whatever_waits_in_later_pages(
    topics: Topics,
) -> None:
    assert Driver(topics, first_pages={0: 90_000}).decide(5).op_ranges[0].first == 10


def test_a_partition_of_which_nothing_was_read_may_be_named_from_its_start() -> None:
    assert Driver(Topics(), first_pages={}).decide(0).op_ranges[0].first == 0


def test_they_move_once_the_state_has_forgotten_some_pages(topics: Topics) -> None:
    topics.ends["half", 0] = topics.ends["half", 1] = 5_000
    topics.plan(4)
    driver = Driver(topics)
    driver.decide(5)

    driver.first_pages = dict.fromkeys((0, 1), PAGES_AHEAD - 1)
    assert driver.decide(6).op_ranges[0].first == 0
    driver.first_pages = {0: PAGES_AHEAD, 1: 0}
    assert driver.decide(7).op_ranges[0].first == AHEAD


def test_a_batch_that_was_begun_decides_as_its_first_try(topics: Topics) -> None:
    """Whether it has a note of its own, or went by an earlier one."""
    notes = Notes()
    first = Driver(topics, notes, clock_ahead_ms=7_000)
    tries = [first.decide(batch) for batch in (5, 6)]
    topics.plan(7, op0=1)
    tries.append(first.decide(7))
    topics.ends = dict.fromkeys(topics.ends, 10**9)

    for batch, tried in zip((5, 6, 7), tries, strict=True):
        again = Driver(topics, Notes(dict(notes.files)), True, OTHER, first_pages={0: 600})
        assert again.decide(batch) == tried
    assert tries[2].hidden == {0}


def test_a_batch_that_was_not_begun_is_decided_by_the_rules_of_today(topics: Topics) -> None:
    notes = Notes()
    Driver(topics, notes).decide(5)

    assert Driver(topics, notes, rules=OTHER).decide(6).rules == OTHER


def test_a_batch_that_was_noted_and_not_begun_keeps_its_terms(topics: Topics) -> None:
    """A job that is fenced may still store the state that it decided by them."""
    notes = Notes()
    noted = Driver(topics, notes).decide(5)

    assert Driver(topics, notes, rules=OTHER).decide(5) == noted


def test_other_rules_of_access_take_the_place_of_those_that_are_noted(topics: Topics) -> None:
    """A start refuses them if the batch is begun (access_watch.py)."""
    notes = Notes()
    Driver(topics, notes).decide(5)

    access = AccessVersion("named", "salt")
    assert Driver(topics, notes, access=access).decide(5).access == access
    assert newest_terms(notes).access == access  # type: ignore[arg-type,union-attr]


def test_of_two_drivers_with_one_batch_the_first_to_note_decides(topics: Topics) -> None:
    """The younger one runs the batch as its first; the older may wake up in it at any time."""
    notes = Notes()
    older = Driver(topics, notes)
    older.decide(5)
    topics.plan(6, op1=1)
    younger = Driver(topics, notes, rules=OTHER).decide(6)

    assert older.decide(6) == younger
    assert Driver(topics, notes, is_begun=True).decide(6) == younger


def test_after_a_batch_that_runs_again_the_topics_are_looked_at(topics: Topics) -> None:
    notes = Notes()
    Driver(topics, notes).decide(5)
    again = Driver(topics, notes, is_begun=True)
    again.decide(5)
    topics.ends["op", 0] += 1
    topics.plan(6)
    topics.ends["op", 0] += 1

    assert again.decide(6).hidden == frozenset()


def test_a_begun_batch_of_which_nothing_is_noted_is_refused(topics: Topics) -> None:
    with pytest.raises(CheckpointError, match="Batch 5 is written in part") as refusal:
        Driver(topics, is_begun=True).decide(5)

    assert "rebuild" in refusal.value.remedy


def test_whether_it_was_begun_is_asked_of_the_first_batch_of_a_run_only(topics: Topics) -> None:
    """Where a ledger is broken, the look at it ended the job before Kafka had the batch."""
    driver = Driver(topics)
    driver.decide(5)
    driver.is_begun = True
    topics.plan(6, op0=1)

    assert driver.decide(6).hidden == {0}


def test_a_note_is_written_for_the_first_batch_and_when_something_changes(topics: Topics) -> None:
    notes = Notes()
    driver = Driver(topics, notes)
    for batch in (5, 6):
        driver.decide(batch)
    for batch in (7, 8):
        topics.plan(batch, op0=1)
        driver.decide(batch)
    driver.decide(9)

    assert notes.own_numbers(FOLDER) == [5, 7, 9]


def test_a_note_of_a_plan_that_was_dropped_says_nothing_of_its_successor(topics: Topics) -> None:
    notes = Notes()
    topics.plan(5, op0=1)
    for batch in (5, 6):
        Driver(topics, notes).decide(batch)
    topics.plan(5, time_ms=7_777)

    assert Driver(topics, notes).decide(5).hidden == frozenset()
    assert notes.own_numbers(FOLDER) == [5]


def test_the_newest_notes_are_kept() -> None:
    notes = Notes()
    for batch in range(NOTES_KEPT + 3):
        terms = BatchTerms(RULES, hidden=frozenset([batch]))
        note_terms(notes, batch, 1_000, terms, is_first=False)  # type: ignore[arg-type]

    assert notes.own_numbers(FOLDER) == list(range(3, NOTES_KEPT + 3))


def test_a_rule_that_was_taken_away_is_passed_over(topics: Topics) -> None:
    notes = Notes()
    noted = Driver(topics, notes).decide(5)
    [name] = notes.files
    document = json.loads(notes.files[name])
    document["rules"]["taken_away"] = 1
    notes.files[name] = json.dumps(document)

    assert Driver(topics, notes).decide(5) == noted


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"format": 2}', '{"format": 1, "planned_ms": 1}']
)
def test_a_note_that_can_not_be_read_is_named(topics: Topics, text: str) -> None:
    with pytest.raises(CheckpointError, match=r"terms/5\.json"):
        Driver(topics, Notes({f"{FOLDER}/5.json": text})).decide(5)


def test_the_name_of_access_rules_tells_nothing_and_knows_them_again() -> None:
    named = AccessVersion.of("first", "salt")

    assert named.is_of("first")
    assert not named.is_of("second")
    assert "first" not in named.name
    assert AccessVersion.of("", "salt") == AccessVersion()


def test_a_task_gets_what_the_driver_decided(topics: Topics) -> None:
    properties: dict[str, str] = {}
    context: Any = SimpleNamespace(setLocalProperty=properties.__setitem__)
    driver = Driver(topics, clock_ahead_ms=500)
    topics.plan(5, op1=1)

    driver.run.set_for_tasks(context, 5, driver.run.plans_of(5))

    terms = TaskTerms.from_property(properties[TERMS_PROPERTY])
    assert (terms.rules, terms.clock_ahead_ms) == (RULES, 500)
    assert [terms.read_until_of(number) for number in (0, 1)] == [3_500, NOTHING_READ]
    assert properties[TERMS_PROPERTY].startswith(
        f"{RULES.max_message_bytes}|0:{10 + AHEAD},0:{20 + AHEAD}|"
    )


def test_a_partition_without_a_range_may_be_named_anywhere() -> None:
    text = TaskTerms(RULES).to_property({2: OpRange(3, 50)})

    assert text.split("|")[1] == f"0:{2**63 - 1},0:{2**63 - 1},3:50"


def test_outside_of_a_batch_there_are_no_terms() -> None:
    with pytest.raises(LookupError):
        module.terms_of_task()


def test_silent_brokers_give_no_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_records, "TIMEOUT_S", 0.2)
    admin = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})

    assert log_ends(admin, [("half", 0)]) == {}


def test_what_was_read_is_compared_under_the_epochs_of_that_time_by_the_next_run_too(
    topics: Topics,
) -> None:
    """A topic that lost its end and grew past it is known by its leader's epoch alone."""
    driver = Driver(topics, epoch=3)
    driver.decide(5)
    read = dict(topics.ends)
    driver.is_silent = True
    topics.ends[("half", 0)] += 7  # by a leader that nobody has seen yet
    driver.decide(6)
    later = Driver(topics, driver.store, epoch=4)
    later.decide(7)
    later.decide(8)

    assert driver.compared[1] == (read, {})
    assert later.compared[1] == (topics.ends, {at: LeaderEpoch(3, to) for at, to in read.items()})
    assert later.compared[3] == (topics.ends, dict.fromkeys(read, LeaderEpoch(4, READ_TO_END)))
