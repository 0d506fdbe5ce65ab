"""Spark's small files, read without Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.checkpoints.folder_in_memory import COMMIT, operator, plan

from checkback.checkpoints.spark_files.logs import (
    BrokenLogError,
    parse_commit,
    parse_offsets,
    parse_operator,
    parse_query_id,
)


def test_a_plan_says_time_ends_and_partitions() -> None:
    found = parse_offsets(plan(3, 1_795_255_046_894, '{"half":{"0":5,"1":7},"op":{"0":0}}'))

    assert found.timestamp_ms == 1_795_255_046_894
    assert found.ends == {"half": {0: 5, 1: 7}, "op": {0: 0}}
    assert found.state_partitions == 3
    assert parse_offsets(plan()).ends == {}


@pytest.mark.parametrize("parse", [parse_offsets, parse_commit, parse_operator])
@pytest.mark.parametrize(
    "content",
    [b"", b"v", b"v1", b"v1\n", b"v2\n{}", b"v1\n{", b'v1\n"text"\n-', b"\xff\xfe", b"v1\n[]\n[]"],
)
def test_what_is_torn_or_foreign_is_refused(
    parse: Callable[[bytes], object], content: bytes
) -> None:
    with pytest.raises(BrokenLogError):
        parse(content)


@pytest.mark.parametrize(
    ("parse", "whole"),
    [
        (parse_offsets, plan(2, 1_000, '{"half":{"0":5}}')),
        (parse_commit, COMMIT),
        (parse_operator, operator()),
        (parse_query_id, b'{"id":"6a5b"}'),
    ],
)
def test_no_beginning_of_a_file_passes_for_the_whole(
    parse: Callable[[bytes], object], whole: bytes
) -> None:
    assert parse(whole) is not None
    for length in range(len(whole)):
        with pytest.raises(BrokenLogError):
            parse(whole[:length])


def test_a_plan_without_its_frozen_settings_has_no_number_of_partitions() -> None:
    found = parse_offsets(b'v1\n{"batchTimestampMs":1,"conf":{}}\n-')

    with pytest.raises(BrokenLogError):
        _ = found.state_partitions


def test_an_operator_says_its_state_partitions() -> None:
    assert parse_operator(operator(3)) == 3
