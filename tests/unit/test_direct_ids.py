"""Direct sessions: whose id it is, and what halves and ops say of it."""

from __future__ import annotations

import pytest

from checkback.protocol import properties as names
from checkback.protocol.direct import direct_transactional_id, is_direct_id_of
from checkback.protocol.properties import Headers
from checkback.protocol.records import Op, fenced_headers, final_parts, half_headers
from checkback.protocol.topics import HALF_TOPIC, OP_TOPIC, TopicNames, plan_topics

UUID = "0123456789abcdef" * 2


def test_an_id_names_the_prefix_the_group_and_the_session() -> None:
    assert direct_transactional_id("eu.", "orders", UUID) == f"checkback-direct-eu.orders-{UUID}"


@pytest.mark.parametrize("prefix", ["", "eu.", "eu-"])
@pytest.mark.parametrize("group", ["orders", "a-b", "x.y_z"])
def test_an_id_is_its_own_group_s(prefix: str, group: str) -> None:
    assert is_direct_id_of(direct_transactional_id(prefix, group, UUID), prefix, group)


@pytest.mark.parametrize(
    "other",
    [
        "",
        UUID,
        "payments-writer",
        "checkback-0",
        f"checkback-direct-eu.payments-{UUID}",
        f"checkback-direct-us.orders-{UUID}",
        f"checkback-direct-orders-{UUID}",
        f"checkback-direct-eu.orders-a-{UUID}",
        f"checkback-direct-eu.orders-{UUID[1:]}",
        f"checkback-direct-eu.orders-{UUID}0",
        f"checkback-direct-eu.orders-{UUID.upper()}",
        f"checkback-direct-eu.orders-{UUID}\n",
        f"x-checkback-direct-eu.orders-{UUID}",
    ],
)
def test_no_other_id_is(other: str) -> None:
    assert not is_direct_id_of(other, "eu.", "orders")


@pytest.mark.parametrize(
    "group",
    [
        "",
        f"payments-{UUID}\0",  # C reads the id of another group's session, up to there
        "pay\N{REPLACEMENT CHARACTER}",
        "a b",
        "g" * 250,  # the brokers can't store the id of a longer one: every fence fails
    ],
)
def test_a_group_of_no_legal_name_has_no_session(group: str) -> None:
    assert not is_direct_id_of(direct_transactional_id("eu.", group, UUID), "eu.", group)


def test_a_half_says_its_session_right_after_the_ordered_headers() -> None:
    headers = half_headers(
        producer_group="g",
        transaction_id="u",
        real_topic="t",
        properties={"a": "b"},
        real_queue_id=1,
        direct_id="checkback-direct-g-1",
    )

    at = len(names.HALF_PROTOCOL_ORDER)
    assert headers[at] == ("DIRECT_ID", b"checkback-direct-g-1")
    assert tuple(name for name, _ in headers[:at]) == names.HALF_PROTOCOL_ORDER


def test_a_final_does_not_say_the_session() -> None:
    def half(direct_id: str) -> Headers:
        return half_headers(
            producer_group="g",
            transaction_id="u",
            real_topic="t",
            properties={},
            direct_id=direct_id,
        )

    assert final_parts(half("checkback-direct-g-1"), 1, 2) == final_parts(half(""), 1, 2)


def test_an_op_says_right_after_the_ordered_headers_that_its_session_is_closed() -> None:
    op = Op(0, 1, "g", "u", names.TRANSACTION_COMMIT_TYPE, remark="r", direct_closed="id")

    assert op.headers()[len(names.OP_PROTOCOL_ORDER)] == ("DIRECT_CLOSED", b"id")


def test_feedback_of_a_fence_can_be_no_op() -> None:
    assert fenced_headers(7)[0] != (names.TAGS, names.OP_TAG_REMOVE.encode())


def test_the_topic_of_direct_ops_is_set_up_as_the_op_topic_is() -> None:
    topics = TopicNames("eu.")
    plans = plan_topics(
        topics,
        half_partitions=3,
        state_partitions=2,
        half_retention_ms=1_000,
        max_message_bytes=1_000,
    )
    by_name = {plan.name: plan for plan in plans}
    op, direct = by_name[topics.op], by_name[topics.direct_op]

    assert topics.direct_op == "eu.RMQ_SYS_TRANS_DIRECT_OP_TOPIC"
    assert (direct.partitions, direct.configs) == (op.partitions, op.configs)
    assert direct.partitions == by_name[topics.half].partitions
    assert {topics.half, topics.op} == {"eu." + HALF_TOPIC, "eu." + OP_TOPIC}
