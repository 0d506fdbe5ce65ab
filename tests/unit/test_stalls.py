"""Which partitions stand still, told from look to look."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from checkback.protocol.configuration import Settings
from checkback.sinks.kafka.read import list_offsets as listed_offsets
from checkback.streaming.reports import stalls
from checkback.streaming.reports.progress import Progress
from checkback.streaming.reports.progress_text import is_quiet, progress_text
from checkback.streaming.reports.stalls import InputWatch, Stall, StallHistory, named

HALF, OP = ("half", 0), ("op", 1)


def test_what_stands_still_below_its_end_is_found_at_the_second_look() -> None:
    history = StallHistory()

    first = history.note({HALF: 5, OP: 7}, {HALF: 9, OP: 7}, 100)
    second = history.note({HALF: 5, OP: 7}, {HALF: 12, OP: 9}, 115)

    assert first == []
    assert second == [Stall("half", 0, 5, 7, 15)]


def test_what_moves_or_is_read_to_its_end_does_not_stand_still() -> None:
    history = StallHistory()

    history.note({HALF: 5, OP: 7}, {HALF: 9, OP: 8}, 100)
    assert history.note({HALF: 6, OP: 8}, {HALF: 9, OP: 8}, 115) == []
    history.note({HALF: 6, OP: 8}, {HALF: 6, OP: 8}, 120)
    assert history.note({HALF: 6, OP: 8}, {HALF: 9, OP: 8}, 130) == []


def test_a_line_says_while_the_brokers_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator who looks at the terminal learns it before the job gives up."""
    monkeypatch.setattr(stalls, "TIMEOUT_S", 0.2)
    silent = "127.0.0.1:1"
    admin = AdminClient({"bootstrap.servers": silent, "log_level": 0})
    watch = InputWatch(Settings(bootstrap_servers=silent), admin)
    line = Progress().line(0, None)

    assert watch.look() == []
    assert not watch.brokers_answer
    down = replace(line, brokers_answer=watch.brokers_answer)
    assert "the brokers do not answer" in progress_text(down)
    assert not is_quiet(down)
    assert "brokers" not in progress_text(line)


def test_a_stall_is_in_the_line_with_whom_it_is_to_be_blamed_on() -> None:
    stall = Stall("half", 0, 5, 7, 15, 42, "batch-loader")
    line = replace(Progress().line(0, None), stalls=[stall])
    text = progress_text(line, width=200)

    assert "half-0 has stood still at offset 5 for 15s: producer 42 (batch-loader)" in text
    assert "abort --topic half --partition 0 --start-offset 5`." in " ".join(text.split())
    assert (
        "`kafka-transactions.sh --bootstrap-server b:9092 abort --topic half --partition 0 "
        "--start-offset 5`." in stall.remedy("b:9092")
    )


STALL = Stall("half", 0, 5, 7, 15)


def held_by_42(list_transactions: Any) -> Any:
    """Return an admin client by which producer 42 has begun a transaction where STALL stands."""
    opened = SimpleNamespace(current_transaction_start_offset=5, producer_id=42)
    held = SimpleNamespace(active_producers=[opened])
    return SimpleNamespace(
        describe_producers=lambda places: dict.fromkeys(places, held),
        list_transactions=list_transactions,
        close=lambda: None,
    )


def test_of_a_long_id_the_beginning_is_told() -> None:
    listed = SimpleNamespace(producer_id=42, transactional_id="i" * 32_000)

    [stall] = named(held_by_42(lambda **_: {0: [listed]}), [STALL])

    assert (stall.producer_id, stall.transactional_id) == (42, "i" * 255)


def test_the_id_of_who_stalls_commands_no_terminal() -> None:
    stall = Stall("half", 0, 5, 7, 15, 42, "\x1b[2J")

    assert r"producer 42 (\x1b[2J) has" in stall.says()


class Brokers:
    """An admin client of topics of one partition; after these errors each ends at 7."""

    def __init__(self, topics: Sequence[str], *codes: int) -> None:
        self.topics, self.codes = topics, [*codes]

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={one: SimpleNamespace(partitions=[0]) for one in self.topics})

    def list_offsets(self, places: Mapping[Any, Any], **_: Any) -> dict[Any, Any]:
        return dict.fromkeys(places, self)

    def result(self, _: float) -> Any:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop()))
        return SimpleNamespace(offset=7, leader_epoch=None)


def test_a_partition_that_gets_another_leader_does_not_make_the_brokers_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listed_offsets, "PAUSE_S", 0)
    settings = Settings()
    electing: Any = Brokers(settings.topics.read, KafkaError.NOT_LEADER_FOR_PARTITION)
    watch = InputWatch(settings, electing)

    assert watch.look() == []
    assert watch.brokers_answer


def test_what_is_written_between_two_questions_is_no_open_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ends of partitions and what is stable there are two questions."""
    written = 0

    def offsets(_: InputWatch, __: object) -> dict[tuple[str, int], int]:
        nonlocal written
        written += 1
        return {HALF: written}

    monkeypatch.setattr(InputWatch, "_offsets", offsets)
    watch = InputWatch(Settings(), AdminClient({}), lambda: 100.0, pause_s=0)

    watch.look(0)

    assert not watch.history.is_anything_open


def test_a_state_that_kafka_python_does_not_know_ends_no_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A newer broker may tell it of the very transaction that holds the pipeline up."""

    def raising(**_: Any) -> Any:
        raise ValueError("'PrepareNothing' is not a valid TransactionState")

    monkeypatch.setattr(stalls, "new_admin_client", lambda _: held_by_42(raising))

    assert stalls._with_producers(Settings(bootstrap_servers="b:1"), [STALL]) == [STALL]


def test_who_holds_a_partition_up_is_asked_by_a_client_that_leaves_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While something stands still, it is asked every five seconds."""
    monkeypatch.setattr(stalls, "ANSWER_MS_MAX", 100)
    before = threading.active_count()

    assert stalls._with_producers(Settings(bootstrap_servers="127.0.0.1:1"), [STALL]) == [STALL]

    assert threading.active_count() == before
