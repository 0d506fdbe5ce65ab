"""docs/direct-delivery.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from checkback.client.counters import ClientEvent
from checkback.client.direct.delivery import BACKLOG_MAX, DELIVERED_S
from checkback.client.direct.session import TRANSACTION_TIMEOUT_MS
from checkback.client.options import ProducerOptions
from checkback.protocol.direct import direct_id_prefix
from checkback.protocol.topics import DIRECT_OP_TOPIC

DOCUMENT = (Path(__file__).parents[3] / "docs" / "direct-delivery.md").read_text("utf-8")


def test_options_have_the_defaults_that_are_said() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", DOCUMENT, re.MULTILINE)

    assert {name for name, _ in rows} >= {"direct_delivery", "direct_lanes", "wait_for_delivery"}
    for name, default in rows:
        assert default.strip("`") == str(getattr(ProducerOptions(), name))


def test_counters_have_the_names_that_are_said() -> None:
    for event in (ClientEvent.DIRECT_DELIVERED, ClientEvent.DIRECT_FELL_BACK, ClientEvent.FENCED):
        assert f"`{event.value}`" in DOCUMENT


def test_limits_and_names_are_those_of_the_code() -> None:
    assert f"the transaction is {TRANSACTION_TIMEOUT_MS // 1000} s old" in DOCUMENT
    assert f"Once {BACKLOG_MAX:,} messages wait in a lane" in DOCUMENT
    assert f"{DELIVERED_S:.0f} s at most" in DOCUMENT
    assert f"`{DIRECT_OP_TOPIC}`" in DOCUMENT
    assert f"`{direct_id_prefix('<topic_prefix>', '<group>')}`" in DOCUMENT
