"""What a producer makes of the pipeline's status."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.deciding import message

from checkback.client.kafka.status_watch import StatusWatch
from checkback.protocol.errors import SendError
from checkback.protocol.records import PipelineStatus
from checkback.testing.waiting import wait_until

REJECTING = PipelineStatus(reject_transactions=True, check_interval_ms=60_000, time_ms=7)


class Topic:
    """A consumer of a topic with these records; more may follow."""

    def __init__(self, *values: bytes | None) -> None:
        self.values = list(values)
        self.at = 0
        self.is_closed = False

    def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
        return 0, len(self.values)

    def assign(self, _: object) -> None:
        self.at = 0

    def poll(self, _: float) -> Any:
        if self.at == len(self.values):
            return None
        self.at += 1
        return message(value=self.values[self.at - 1], offset=self.at - 1)

    def close(self) -> None:
        self.is_closed = True


def started(topic: Topic) -> StatusWatch:
    watch = StatusWatch(lambda: topic, "status")  # type: ignore[arg-type,return-value]
    watch.start(5)
    return watch


def test_the_last_status_counts_and_is_followed() -> None:
    accepting = PipelineStatus(reject_transactions=False, check_interval_ms=1, time_ms=8)
    topic = Topic(accepting.to_json(), REJECTING.to_json())
    watch = started(topic)

    with pytest.raises(SendError) as raised:
        watch.require_accepting()

    assert raised.value.fields["in_doubt"] is False
    topic.values.append(accepting.to_json())
    wait_until(lambda: topic.at == 3)
    watch.close(60)
    watch.require_accepting()
    assert topic.is_closed


ENDLESS = b'{"reject_transactions": true, "check_interval_ms": 1e999, "time_ms": 1}'


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"[]", b"{}", b'{"reject_transactions": 1}', ENDLESS]
)
def test_what_is_no_status_changes_nothing(value: bytes | None) -> None:
    assert PipelineStatus.from_json(value) is None
    nothing_known, known = started(Topic(value)), started(Topic(REJECTING.to_json(), value))

    nothing_known.require_accepting()
    with pytest.raises(SendError):
        known.require_accepting()

    nothing_known.close(60)
    known.close(60)


def test_a_question_that_fails_at_the_start_does_not_keep_it_from_following() -> None:
    class Leaderless(Topic):
        is_followed = False

        def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))

        def assign(self, _: object) -> None:
            super().assign(_)
            self.is_followed = True

        def poll(self, _: float) -> Any:
            return super().poll(_) if self.is_followed else None

    topic = Leaderless(REJECTING.to_json())
    watch = started(topic)

    wait_until(lambda: watch._status is not None)
    with pytest.raises(SendError):
        watch.require_accepting()
    watch.close(60)
    assert topic.is_closed
