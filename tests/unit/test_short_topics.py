"""Topics without a leader, or with too few replicas in sync: the sink over a Kafka in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.deciding import page_outcome
from tests.fakes.kafka import Cluster, admin
from tests.unit.sink_stage import BARE, HALVES, NAMES, add_half, finals, staged

from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import text_value
from checkback.protocol.refusals import RecordOrigin
from checkback.sinks.kafka.cluster import topic_directory as real_topics
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.process.writer_pool import WriteRequest, Writers
from checkback.sinks.records.router import Router
from checkback.sinks.report import BatchReport
from checkback.state import Action

SHORT = "payments"
COMMITS = ((Action.COMMIT, 0, 0, 0), (Action.COMMIT, 1, 0, 1))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Half 0 is for a topic that may be short, half 1 for another one."""
    ours = (NAMES.discarded, NAMES.feedback, NAMES.check("g"), SHORT)
    monkeypatch.setattr(real_topics, "SHORTAGE_WAIT_S", 0)
    with staged(None, *ours, first=SHORT) as made:
        yield made


def take_the_leader(monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    honest = admin.metadata_of

    def described(cluster: Cluster) -> admin.Metadata:
        found = honest(cluster)
        found.topics[topic].partitions[0] = admin.Led(leader=-1, isrs=())
        return found

    monkeypatch.setattr(admin, "metadata_of", described)


def write(*decided: tuple[Action, int, int, int]) -> BatchReport:
    settings = begin_epoch(BARE, 1, (), 0)
    request = WriteRequest(settings, 0, 0, [page_outcome(0, *decided).pack()])
    return Writers().write(request).report


def written(cluster: Cluster, topic: str) -> list[Any]:
    log = cluster.topics[topic].partitions[0]
    return [log.records[at] for at in range(log.end) if log.is_visible(at)]


def reasons(cluster: Cluster) -> list[str | None]:
    found = written(cluster, NAMES.refused)
    return [text_value(one.headers, "__checkback.errors.reason") for one in found]


def test_a_final_for_a_topic_without_a_leader_is_refused_and_the_others_are_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_the_leader(monkeypatch, SHORT)

    report = write(*COMMITS)

    assert report.counts["finals_refused"] == 1
    assert reasons(cluster) == ["REAL_TOPIC_UNAVAILABLE"]
    assert finals(cluster) == [b"1"]
    # Nor did the transaction: on this partition the brokers could not end it.
    assert cluster.topics[SHORT].partitions[0].end == 0


def test_a_line_of_the_log_has_the_beginning_of_a_long_id(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_half(cluster, b"long", "i" * 2_000_000, "nowhere")
    told: list[Any] = []
    logger = logging.getLogger("checkback.sinks.partition.records_to_send")
    monkeypatch.setattr(logger, "isEnabledFor", lambda _: True)
    monkeypatch.setattr(logger, "handle", told.append)

    write((Action.COMMIT, HALVES, 0, HALVES))

    assert [one.facts["transaction_id"] for one in told] == ["i" * 1_024]


def test_a_check_for_a_topic_without_a_leader_is_undelivered(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_the_leader(monkeypatch, NAMES.check("g"))

    report = write((Action.CHECK, 0, 1, 0), (Action.COMMIT, 1, 0, 1))

    assert report.undelivered_groups == {"g": 1}
    assert [one.value for one in written(cluster, NAMES.feedback)] == [b"0"]
    assert finals(cluster) == [b"1"]


@pytest.mark.parametrize(
    ("topic", "decided"),
    [
        (NAMES.refused, (Action.REFUSE_HALF, 0, 6, 0)),
        (NAMES.discarded, (Action.DISCARD_EXPIRED, 0, 1, 0)),
    ],
)
def test_a_topic_of_ours_without_a_leader_ends_the_job_before_anything_is_sent_there(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    topic: str,
    decided: tuple[Action, int, int, int],
) -> None:
    take_the_leader(monkeypatch, topic)

    with pytest.raises(BrokerError, match=f"{topic} takes no records: partition 0 has no") as ended:
        write(decided)

    assert ended.value.exit_code == 3
    assert cluster.topics[topic].partitions[0].end == 0


@pytest.mark.parametrize(
    ("action", "maker", "reason"),
    [
        (Action.COMMIT, "final", "RECORD_NOT_MADE"),
        (Action.DISCARD_EXPIRED, "discarded", "DISCARD_REJECTED"),
    ],
)
def test_a_defect_is_told_by_a_reason_that_says_whether_the_half_was_committed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, action: Action, maker: str, reason: str
) -> None:
    honest = getattr(Router, maker)

    def fails(router: Router, half: Any, origin: RecordOrigin, *given: Any) -> Any:
        if origin.offset == 0:
            raise ZeroDivisionError("a defect")
        return honest(router, half, origin, *given)

    monkeypatch.setattr(Router, maker, fails)

    write((action, 0, 0, 0), (Action.COMMIT, 1, 0, 1))

    assert reasons(cluster) == [reason]
    [refused] = written(cluster, NAMES.refused)
    said = text_value(refused.headers, "__checkback.errors.message") or ""
    assert "ZeroDivisionError: a defect" in said
    assert finals(cluster) == [b"1"]
