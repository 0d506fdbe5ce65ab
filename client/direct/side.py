"""A producer's part in direct delivery: it always answers checks, and has lanes where they are set.

A process that does not deliver directly itself may be asked about halves of one that does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from checkback.client.callback_result import CallbackResult
from checkback.client.check_topic import understands_direct_delivery
from checkback.client.counters import Counters
from checkback.client.direct.delivery import DirectDelivery, DirectSettings, Waiting
from checkback.client.direct.direct_checks import DirectChecks
from checkback.client.direct.direct_half import HalfState
from checkback.client.direct.fences import Fences
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.half import Half
from checkback.client.kafka_clients import KafkaClients
from checkback.client.op_producer import OpProducer
from checkback.client.topic_facts import TopicFacts
from checkback.protocol.properties import DIRECT_ID
from checkback.protocol.record_size import headers_bytes_max
from checkback.protocol.topics import TopicNames


class DirectSide:
    """Direct delivery for one producer.

    Args:
        clients: opens producers, and has the options.
        topics: names of Checkback's topics.
        producer_group: of the producer.
        facts: knows topics.
        ops: sends plain ops.
        counters: of the producer.
    """

    def __init__(
        self,
        clients: KafkaClients,
        topics: TopicNames,
        producer_group: str,
        facts: TopicFacts,
        ops: OpProducer,
        counters: Counters,
    ) -> None:
        options = clients.options
        self._start_timeout_s = options.start_timeout_ms / 1000
        own = OwnHalves()
        fences = Fences(clients.direct_producer, topics.prefix, producer_group, counters)
        self.checks = DirectChecks(own, fences, options.send_msg_timeout_ms / 1000)
        self.bytes_max = 0
        """By how many bytes a direct half may be larger than others."""
        self._delivery: DirectDelivery | None = None
        if options.direct_delivery and understands_direct_delivery(facts, topics):
            settings = DirectSettings(
                topics=topics,
                producer_group=producer_group,
                lanes=options.direct_lanes,
                waits=options.wait_for_delivery,
                open_producer=clients.direct_producer,
            )
            self._delivery = DirectDelivery(settings, own, fences, facts, ops, counters)
            new_id = self._delivery.new_session_id()
            self.bytes_max = headers_bytes_max([(DIRECT_ID, new_id.encode())])

    def start(self) -> None:
        """Open the sessions, where the options ask for direct delivery."""
        if self._delivery is not None:
            self._delivery.start(self._start_timeout_s)

    def bind(self, half: Half) -> None:
        """Bind a half that was not sent yet to a session, where it can be delivered directly."""
        if self._delivery is not None:
            self._delivery.bind(half)

    def finish(
        self,
        half: Half,
        outcome: CallbackResult,
        new_report: Callable[[deque[Any]], Waiting],
    ) -> Waiting | None:
        """End a half that is bound; see `DirectDelivery.finish`."""
        if self._delivery is None or half.direct is None:
            return None
        return self._delivery.finish(half, half.direct, outcome, new_report)

    def close(self, left_s: Callable[[], float]) -> int:
        """Deliver what waits, then stop; return how many halves could not be waited for."""
        return 0 if self._delivery is None else self._delivery.close(left_s)


def is_delivered(half: Half) -> bool | None:
    """Tell whether consumers see a message already; None if the call did not wait for that."""
    direct = half.direct
    if direct is None or direct.report is None:
        return None
    return direct.state is HalfState.DELIVERED
