"""What a relay reads on the decided topic at a start: who takes the ops, and the last op."""

from __future__ import annotations

from dataclasses import dataclass, field

from checkback.protocol.decided import (
    Closed,
    OpKind,
    PartitionNote,
    RelayMark,
    Taken,
    note_headers,
    note_value,
    passed_headers,
)
from checkback.protocol.properties import Headers
from checkback.relay.decided_log import DecidedPartition


@dataclass
class Message:
    at: int
    said: Headers = field(default_factory=list)
    body: bytes | None = None
    record_key: bytes | None = None

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.record_key

    def value(self) -> bytes | None:
        return self.body

    def headers(self) -> Headers:
        return self.said


def note(at: int, note: PartitionNote) -> Message:
    return Message(at, note_headers(note), note_value(note))


def op(at: int) -> Message:
    return Message(at, passed_headers([], OpKind.PASSED, at), b"7", b"u")


def read(*messages: Message, end: int = 100) -> DecidedPartition:
    found = DecidedPartition(0, end, 0, 0)
    for message in messages:
        take(found, message)
    return found


def take(found: DecidedPartition, message: Message) -> None:
    found.take(message.at, message)  # type: ignore[arg-type]


def test_the_last_word_says_who_takes_the_ops_and_a_mark_repeats_it() -> None:
    mark = RelayMark(40, 9, 0, 3, 4)
    assert read(note(0, Taken(1, 2))).taken == Taken(1, 2)
    found = read(note(0, Taken(1, 2)), note(1, mark))
    assert (found.taken, found.position_of_marks) == (Taken(3, 4), 40)
    closed = read(note(0, mark), note(1, Closed(50)), end=2)
    assert (closed.taken, closed.is_closed, closed.is_read) == (None, True, True)
    again = read(note(0, Closed(50)), note(1, Taken(60, 7)))
    assert (again.taken, again.is_closed, again.is_read) == (Taken(60, 7), False, False)


def test_what_was_said_of_a_former_op_topic_does_not_count() -> None:
    found = DecidedPartition(0, 100, 0, 0, "new")
    take(found, note(0, Taken(0, 0, "old")))
    take(found, note(1, RelayMark(40, 9, 0, 0, 0, "old")))
    assert (found.taken, found.position_of_marks, found.ops_end) == (None, 0, 0)
    take(found, note(2, Taken(3, 4, "new")))
    take(found, note(3, Closed(50, "old")))
    assert (found.taken, found.is_closed, found.position_of_marks) == (Taken(3, 4, "new"), False, 0)


def test_marks_behind_the_last_op_are_nothing_to_wait_for() -> None:
    mark = note(4, RelayMark(0, 0, 0, 0, 0))
    found = read(op(0), op(3), mark)
    found.take(9, None)
    assert (found.position, found.ops_end) == (9, 4)
    take(found, op(9))
    assert found.ops_end == 10


def test_what_stands_before_the_first_record_that_was_read_may_be_an_op() -> None:
    found = DecidedPartition(50, 100, 50, 50)
    take(found, note(50, RelayMark(0, 0, 0, 0, 0)))
    assert found.ops_end == 50
