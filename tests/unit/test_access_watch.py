"""A changed file of rules is seen, a broken one not taken: streaming.access.rules_in_force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from tests.fakes.kafka import Awaits, Clock, Cluster, installed
from tests.unit.sink_stage import BARE

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError, ConfigurationError
from checkback.security import AccessControl
from checkback.sinks.kafka.read.rule_source import LOOK_S, FileRules, TopicRules, present_rules
from checkback.sinks.kafka.read.rule_watch import SECRETS_LOOK_S
from checkback.sinks.ledger.rows import LEDGER_SCHEMA, LedgerBatch, packed
from checkback.sinks.ledger.table import DeltaLedger, LedgerOwner
from checkback.streaming.access.rules_in_force import AccessWatch
from checkback.streaming.batch.run_batch import is_begun

RULES = "accounts:\n- accessKey: service\n  secretKey: the-secret-of-service\n"


class Watched:
    """A watch over a file, with a clock that the test sets."""

    def __init__(self, folder: Path, text: str = RULES) -> None:
        self.file = folder / "plain_acl.yml"
        self.file.write_text(text)
        self.now_s = 100.0
        clock: Callable[[], float] = lambda: self.now_s  # noqa: E731
        self.watch = AccessWatch(FileRules(str(self.file)), clock, lambda _: None)
        self.watch.read()

    def later(self, text: str | None = None, seconds: float = LOOK_S) -> bool:
        """Write the file, let time pass and look."""
        if text is not None:
            self.file.write_text(text)
        self.now_s += seconds
        return self.watch.take_new_rules()


def test_without_a_file_access_control_is_off() -> None:
    watch = AccessWatch(None)
    watch.read()

    assert (watch.rules, watch.version, watch.take_new_rules()) == (None, "", False)


def test_a_changed_file_is_taken(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    before = watched.watch.version

    assert not watched.later()
    assert not watched.later(RULES.replace("service", "another"))
    assert watched.watch.version == before
    assert watched.later()
    assert watched.watch.version != before
    assert watched.watch.rules is not None
    assert list(watched.watch.rules.accounts) == ["another"]
    assert not watched.later()


def test_a_file_that_is_cut_at_an_account_is_not_taken_while_it_is_written(tmp_path: Path) -> None:
    """It is right YAML, and the records of all accounts that come later would be refused."""
    whole = RULES + "".join(
        f"- accessKey: service-{number}\n  secretKey: the-secret-of-{number}\n"
        for number in range(3)
    )
    watched = Watched(tmp_path, whole)
    changed = whole.replace("the-secret-of-2", "another-secret")
    cuts = [changed[: changed.index(f"- accessKey: service-{number}")] for number in range(3)]

    assert [watched.later(text) for text in (*cuts, changed)] == [False] * 4
    assert watched.watch.problem == ""
    assert watched.watch.rules is not None
    assert len(watched.watch.rules.accounts) == 4

    assert watched.later()
    assert len(watched.watch.rules.accounts) == 4
    assert not watched.later()


@dataclass(frozen=True, slots=True)
class Written(FileRules):
    """Rules that are never there in half, like a record on a topic."""

    is_written_whole: ClassVar[bool] = True


def test_what_is_written_whole_is_taken_at_the_first_look(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.watch.source = Written(str(watched.file))

    assert watched.later(RULES.replace("service", "another"))


@pytest.mark.parametrize("whole", [False, True])
def test_a_secret_that_is_cut_is_not_taken_while_it_is_written(tmp_path: Path, whole: bool) -> None:
    (tmp_path / "secret").write_text("the-first-secret")
    rules = "accounts:\n- accessKey: service\n  secretKey: {file: secret}\n"
    watched = Watched(tmp_path, rules)
    if whole:
        watched.watch.source = Written(str(watched.file))
    watched.later()

    (tmp_path / "secret").write_text("the-second")
    assert not watched.later(seconds=SECRETS_LOOK_S)
    cut = watched.watch.version
    (tmp_path / "secret").write_text("the-second-secret")
    assert not watched.later()
    assert watched.watch.version == cut

    assert watched.later()


def test_a_change_that_is_taken_back_is_none(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.file.write_text("accounts: []")

    assert not watched.later(RULES)
    assert not watched.later("accounts: []")
    assert not watched.later(RULES)
    assert not watched.later()


@pytest.mark.parametrize("text", ["accounts: [", "accounts:\n- accessKey: x\n", None])
def test_a_broken_file_leaves_the_rules_in_force_and_is_told(
    tmp_path: Path, text: str | None
) -> None:
    watched = Watched(tmp_path)
    before = watched.watch.rules
    if text is None:
        watched.file.unlink()

    assert not watched.later(text)
    assert watched.watch.rules is before
    assert "plain_acl.yml" in watched.watch.problem

    watched.later(RULES)
    assert watched.watch.problem == ""


def test_a_job_does_not_start_with_missing_or_broken_rules(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="secretKey"):
        Watched(tmp_path, "accounts:\n- accessKey: service\n")
    with pytest.raises(ConfigurationError, match=r"plain_acl\.yml"):
        AccessWatch(FileRules(str(tmp_path / "nowhere" / "plain_acl.yml"))).read()


def written_while_read(file: Path, texts: Iterable[str]) -> Callable[[float], object]:
    """Return a pause in which somebody writes the next of the texts."""
    left = iter(texts)
    return lambda _: file.write_text(next(left, file.read_text()))


def test_a_start_takes_no_file_that_is_half_written(tmp_path: Path) -> None:
    """It is cut at the end of an account: what the other one signs would be refused for good."""
    whole = RULES + "- accessKey: another\n  secretKey: the-secret-of-another\n"
    file = tmp_path / "plain_acl.yml"
    file.write_text(RULES)
    pause = written_while_read(file, [whole[:-20], whole[:-3], whole])
    watch = AccessWatch(FileRules(str(file)), pause=pause)

    watch.read()

    assert watch.rules is not None
    assert list(watch.rules.accounts) == ["service", "another"]


def test_a_start_waits_for_rules_no_longer_than_ten_looks(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(RULES)
    texts = (RULES.replace("service", f"service-{number}") for number in range(100))
    watch = AccessWatch(FileRules(str(file)), pause=written_while_read(file, texts))

    with pytest.raises(ConfigurationError, match="changed at each of 10 looks"):
        watch.read()


def test_whoever_asks_for_the_rules_leaves_the_brokers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`doctor`, `refused resend` and the console ask; each left a consumer behind."""
    closed: list[str] = []
    settings = Settings(bootstrap_servers="127.0.0.1:9", acl_file="kafka:rules")
    monkeypatch.setattr(TopicRules, "close", lambda source: closed.append(source.topic))
    monkeypatch.setattr(TopicRules, "rules", lambda _: AccessControl.parse(RULES, "kafka:rules"))

    assert present_rules(settings) is not None
    assert present_rules(settings, may_be_part=False) is not None
    assert closed == ["rules", "rules"]


class Planned:
    """A checkpoint with batch 3 planned and batch 2 committed, which never had access control."""

    path = "checkpoint"

    def __init__(self) -> None:
        self.own: dict[str, str] = {}

    def last_batch(self, log: str) -> int:
        return {"offsets": 3, "commits": 2}[log]

    def own_numbers(self, folder: str) -> list[int]:
        return [int(name.removeprefix(f"{folder}/")[: -len(".json")]) for name in self.own]

    def create_own(self, name: str, text: str) -> bool:
        return self.own.setdefault(name, text) is text


def ledger_until(path: Path, batch: int) -> DeltaLedger:
    """Return a ledger that a former process has written: the row of a half in each batch."""
    owner = LedgerOwner("orders", "topic-id")
    at = datetime(2026, 1, 2, tzinfo=UTC)
    row = {"event": "prepared", "half_partition": 0, "half_offset": 7, "event_time": at}
    given = [pa.RecordBatch.from_pylist([{**row, "day": at.date()}], schema=LEDGER_SCHEMA)]
    former = DeltaLedger.open_or_create(str(path / "ledger"), owner)
    for number in range(batch + 1):
        former.append(LedgerBatch(BARE.query_id, number), list(packed(given)))
    return DeltaLedger.open_or_create(str(path / "ledger"), owner)


def begun(ledger: DeltaLedger | None) -> Callable[[int], bool]:
    return partial(is_begun, BARE, 1, ledger)


@pytest.fixture
def no_markers() -> Iterator[None]:
    made = Cluster(Awaits(Clock()))
    made.create_topic(BARE.topics.settled, 1)
    with installed(made):
        yield


@pytest.mark.usefixtures("no_markers")
def test_a_batch_whose_rows_are_in_the_ledger_is_begun(tmp_path: Path) -> None:
    """A batch with nothing but halves sets no marker, and its rows say who was believed."""
    watched, store = Watched(tmp_path), Planned()

    with pytest.raises(CheckpointError, match="Batch 3 of checkpoint is written in part"):
        watched.watch.for_run(store, begun(ledger_until(tmp_path, 3)))  # type: ignore[arg-type]
    assert store.own == {}


@pytest.mark.usefixtures("no_markers")
@pytest.mark.parametrize("keeps_ledger", [True, False])
def test_a_batch_without_rows_and_markers_takes_the_new_rules(
    tmp_path: Path, keeps_ledger: bool
) -> None:
    watched = Watched(tmp_path)
    ledger = ledger_until(tmp_path, 2) if keeps_ledger else None

    version, changed = watched.watch.for_run(Planned(), begun(ledger))  # type: ignore[arg-type]

    assert changed is not None
    assert (changed["access_control"], changed["from_batch"]) == ("on", 3)
    assert version.is_of(watched.watch.version)
