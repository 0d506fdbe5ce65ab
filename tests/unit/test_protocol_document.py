"""docs/protocol.md is the wire format: its tables and its examples are those of the code."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError
from tests.deciding import message, page_outcome

from checkback.client import validation
from checkback.client.kafka.errors import REFUSALS
from checkback.client.listener import REMARK_LENGTH_MAX
from checkback.protocol import decided, records, topics
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.properties import Headers
from checkback.protocol.refusals import (
    GROUP_BYTES_MAX,
    ID_BYTES_MAX,
    IMMUNITY_DIGITS_MAX,
    TOPIC_LENGTH_MAX,
    RecordOrigin,
    RefusedReason,
    refused_headers,
)
from checkback.protocol.signed_content import signed_content
from checkback.security.record_signer import RecordSigner
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic
from checkback.sinks.records.router import Router
from checkback.sinks.records.sink_record import SinkRecord
from checkback.state.formats.outcome import Action
from checkback.state.formats.settled_marks import _HEADER, SETTLED_VERSION, Mark, pack_settled
from checkback.state.steps.halves import IMMUNITY_MS_MAX

TEXT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
PARTITION, OFFSET = 2, 77
HALF: Headers = records.half_headers(
    producer_group="order-service",
    transaction_id="3f9c2a",
    real_topic="paid",
    properties={
        names.CHECK_IMMUNITY_TIME_IN_SECONDS: "30",
        names.KEYS: "order-1",
        names.TAGS: "eu",
        "source": "web",
    },
    real_queue_id=1,
)
OP = records.Op(PARTITION, OFFSET, "order-service", "3f9c2a", names.TRANSACTION_COMMIT_TYPE)
ANSWER = records.Op(
    PARTITION, OFFSET, "order-service", "3f9c2a", names.TRANSACTION_NOT_TYPE, True, "not found"
)
BODY, KEY = b"42 EUR", b"order-1"
SIGNER = RecordSigner("orders-service", "12345678", lambda: 1_700_000_000_000, "10.0.0.1")
SIGNED_HALF = SIGNER.half(topics.HALF_TOPIC, KEY, BODY, HALF)
SIGNED_OP = SIGNER.op(topics.OP_TOPIC, PARTITION, OP.key(), OP.value(), OP.headers())
REFUSED = refused_headers(
    OP.headers(), RefusedReason.COMMIT_AFTER_ROLLBACK, topics.OP_TOPIC, PARTITION, 91
)
FEEDBACK = records.undelivered_check_headers(3)
OP_TOPIC_ID = "qkQ1bXhVQ7mB2Z4yVh0iJg"
NOTES: dict[str, decided.PartitionNote] = {
    "taken": decided.Taken(90, 78, OP_TOPIC_ID),
    "mark": decided.RelayMark(92, 78, 1_700_000_000_000, 90, 78, OP_TOPIC_ID),
    "closed": decided.Closed(120, OP_TOPIC_ID),
}


def as_the_sink_asks() -> tuple[bytes | None, bytes | None, Headers]:
    """Return the check request that the sink writes with default settings."""
    names, interval_ms = topics.TopicNames(""), Settings().check_interval_ms
    router = Router(
        names, lambda _: KnownTopic(1, 10_000_000), check_interval_ms=interval_ms, check_max=2
    )
    half = message(key=KEY, value=BODY, headers=HALF, timestamp=(1, 1_700_000_000_000))
    asked = router.check_request(half, RecordOrigin(names.half, PARTITION, OFFSET), 1)
    assert isinstance(asked, SinkRecord)
    return asked.key, asked.value, asked.headers


EXAMPLES: dict[str, tuple[bytes | None, bytes | None, Headers]] = {
    "half": (KEY, BODY, HALF),
    "op": (OP.key(), OP.value(), OP.headers()),
    "answer to a check": (ANSWER.key(), ANSWER.value(), ANSWER.headers()),
    "check request": as_the_sink_asks(),
    "final message": (KEY, BODY, records.final_parts(HALF, PARTITION, OFFSET).headers),
    "discarded": (
        KEY, BODY, records.discarded_headers(HALF, PARTITION, OFFSET, 15, "check limit"),
    ),
    "refused op": (OP.key(), OP.value(), REFUSED),
    "feedback": (None, b"77", FEEDBACK),
    "tick": (None, None, records.tick_headers()),
    "signed half": (KEY, BODY, SIGNED_HALF),
    "signed op": (OP.key(), OP.value(), SIGNED_OP),
    "delivered op": (
        OP.key(), OP.value(), decided.delivered_headers(b"order-service", b"3f9c2a", b"false", 91),
    ),
    "passed op": (
        OP.key(), OP.value(), decided.passed_headers(OP.headers(), decided.OpKind.PASSED, 91),
    ),
    **{
        name: (None, decided.note_value(note), decided.note_headers(note))
        for name, note in NOTES.items()
    },
}  # fmt: skip


def spaced(data: bytes | None) -> str:
    """Write bytes in hex, a space between two of them; a dash for none."""
    return "-" if data is None else data.hex(" ")


def example(key: bytes | None, value: bytes | None, headers: Headers) -> str:
    """Write a record as a block: its bytes in hex, then the text of each header."""
    lines = [f"key     {spaced(key)}", f"value   {spaced(value)}"]
    for name, content in headers:
        lines.append(f"header  {spaced(name.encode())} = {spaced(content)}".rstrip())
        lines.append(f"        {name} = {content.decode()}".rstrip())
    return "\n".join(lines)


def blocks() -> dict[str, str]:
    """Return the examples by name."""
    found = re.findall(r"^Example, ([a-z ]+):\n\n```\n(.*?)\n```$", TEXT, re.MULTILINE | re.DOTALL)
    return dict(found)


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table after a heading, without the table's head."""
    section = TEXT.split(f"\n{heading}\n", 1)[1]
    rows = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert rows is not None
    lines = rows.group(0).splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]


def column(heading: str, number: int = 0) -> list[str]:
    return [row[number] for row in table(heading)]


def test_there_is_an_example_of_each_record() -> None:
    assert set(blocks()) == {*EXAMPLES, "settled mark", "what is signed of the op"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_what_the_code_writes(name: str) -> None:
    assert blocks()[name] == example(*EXAMPLES[name])


def test_the_settled_mark_is_what_the_code_writes() -> None:
    decided = (Action.COMMIT, OFFSET, 0, OFFSET), (Action.CHECK, 80, 2, 80)
    outcome = replace(
        page_outcome(PARTITION, *decided, now_ms=1_700_000_000_000),
        identity_rest=np.array([0x01020304, 0x05060708]),
    )

    assert blocks()["settled mark"] == f"key     {spaced(b'2:0')}\n" + wrapped(
        pack_settled(outcome, batch_id=5)
    )


def test_the_signed_bytes_are_what_the_code_signs() -> None:
    said = dict(SIGNED_OP)[names.SIGNATURE].rpartition(b" ")[0] + b" "
    stated = [*SIGNED_OP[:-1], (names.SIGNATURE, said)]
    content = signed_content(topics.OP_TOPIC, PARTITION, OP.key(), OP.value(), stated, "HmacSHA256")

    assert blocks()["what is signed of the op"] == wrapped(content)
    assert f"`{SIGNER.secret_key}`" in TEXT


def test_fields_of_notes_on_the_decided_topic_are_the_code_s() -> None:
    rows = {(row[0], row[1]) for row in table("### What is said of a partition")}

    assert rows == {
        (decided.note_headers(note)[0][0], f"`{'`, `'.join(asdict(note))}`".strip("`"))
        for note in NOTES.values()
    }


def test_the_layout_of_a_settled_mark_is_the_code_s() -> None:
    sizes = {"u8": 1, "i32": 4, "i64": 8, "u32": 4, "pad": 3, "u16": 2}
    fields = table("### Fields of a settled mark")
    fixed = [row for row in fields if row[2] == "once"]

    assert sum(sizes[row[1]] for row in fixed) == _HEADER.size
    assert [row[1] for row in fields if row[2] != "once"] == ["u32", "u32", "u16", "u8"]
    assert {row[0]: int(row[1]) for row in table("#### Marks")} == {
        one.name: int(one) for one in Mark
    }
    assert f"version {SETTLED_VERSION}" in TEXT


def test_topics_are_those_of_the_code() -> None:
    settings = Settings()
    plans = topics.plan_topics(replace(settings, relay=True), 3)
    check = topics.plan_check_topic(
        settings.topics, "<group>", max_message_bytes=settings.max_message_bytes
    )
    rows = {row[0]: row[1:] for row in table("## Topics")}

    assert set(rows) == {plan.name for plan in (*plans, check)}
    for plan in (*plans, check):
        _, partitions, time, kept, limit = rows[plan.name]
        assert time == plan.configs["message.timestamp.type"]
        if plan.configs["cleanup.policy"] == "compact":
            assert (kept, limit) == ("the last", "the broker's default")
            continue
        assert kept == f"{int(plan.configs['retention.ms']) // topics.DAY_MS} d"
        assert int(limit.replace(",", "")) == int(plan.configs["max.message.bytes"])
        if partitions.isdigit():
            assert int(partitions) == plan.partitions


def test_limits_are_those_of_the_code() -> None:
    limits = {row[0]: row[1] for row in table("### Limits")}

    assert limits == {
        "topic name": f"1 to {TOPIC_LENGTH_MAX} characters",
        "producer group": f"1 to {validation.GROUP_LENGTH_MAX} characters",
        "transaction id": f"1 to {ID_BYTES_MAX:,} bytes",
        "queue id": f"0 to {validation.INT32_MAX:,}",
        "immunity time": "0 to 999,999,999,999 seconds",
        "body": f"1 to {Settings().max_message_bytes:,} bytes",
        "remark": f"{REMARK_LENGTH_MAX:,} characters, as the Python client writes it",
    }
    assert validation.DEFAULT_PRODUCER_GROUP in TEXT
    assert f"a group of up to {GROUP_BYTES_MAX} bytes" in TEXT
    assert len(str(999_999_999_999)) == IMMUNITY_DIGITS_MAX
    assert IMMUNITY_MS_MAX > 999_999_999_999 * 1_000


@pytest.mark.parametrize(
    ("heading", "order"),
    [
        ("### Headers of a half message", names.HALF_PROTOCOL_ORDER),
        ("### Headers of an op", names.OP_PROTOCOL_ORDER),
    ],
)
def test_headers_stand_in_the_protocol_s_order(heading: str, order: tuple[str, ...]) -> None:
    assert tuple(column(heading, 1)[: len(order)]) == order


def names_of(headers: Headers) -> list[str]:
    return [name for name, _ in headers]


FULL_OP = records.Op(0, 1, "g", "u", 8, remark="r", operator="o")


@pytest.mark.parametrize(
    ("heading", "number", "expected"),
    [
        ("### Headers of an op", 1, names_of(FULL_OP.headers())),
        ("### Headers of a signed record", 0, [names.BORN_HOST, names.SIGNATURE]),
        ("### Headers that a check request adds", 0,
         names_of(records.check_headers([], PARTITION, OFFSET, 1, 60_000))),
        ("### Headers that a final message adds", 0, names_of(EXAMPLES["final message"][2])[-2:]),
        ("### Tags on the op topic", 0, [names.OP_TAG_REMOVE]),
        ("### Tags on the feedback topic", 0, [names.OP_TAG_TICK, names.OP_TAG_UNDELIVERED]),
        ("### Headers of a refused record", 0, names_of(REFUSED)[len(OP.headers()) :]),
        ("### What a relay made of an op", 0, [*decided.OP_KIND_HEADERS.values()]),
    ],
)  # fmt: skip
def test_a_table_has_these_names_in_this_order(
    heading: str, number: int, expected: list[str]
) -> None:
    assert column(heading, number) == expected


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("#### What an op says", {f"{state}" for state in names.OP_STATES}),
        ("### Headers that a final message lacks", names.NOT_ON_FINAL),
        ("### Headers of a resumed half", names.RESUME_HEADERS),
        ("### Reserved names", names.RESERVED_PROPERTIES),
        ("### System topics",
         topics.SYSTEM_TOPICS | {f"{prefix}*" for prefix in topics.SYSTEM_TOPIC_PREFIXES}),
    ],
)  # fmt: skip
def test_a_table_has_exactly_these_names(heading: str, expected: frozenset[str]) -> None:
    assert set(column(heading)) == expected


def test_errors_that_prove_that_nothing_was_stored_are_those_of_the_client() -> None:
    stated = {int(code) for code in column("### Errors that prove that nothing was stored")}

    assert stated == {int(code) for code in REFUSALS if code > KafkaError.NO_ERROR}


def test_reasons_for_a_refusal_are_told_with_their_codes_and_texts() -> None:
    rows = table("### Reasons for a refusal")

    assert [(int(row[0]), row[1], row[2]) for row in rows] == [
        (int(one), one.name, one.text) for one in RefusedReason
    ]


def test_defaults_are_those_of_the_settings() -> None:
    rows = {row[0]: int(row[1].replace(",", "")) for row in table("## Times and counts")}
    settings = Settings()

    assert rows == {name: getattr(settings, name) for name in rows}


def wrapped(data: bytes, width: int = 16) -> str:
    """Write a value in lines of the given number of bytes."""
    parts = [data[at : at + width].hex(" ") for at in range(0, len(data), width)]
    return "\n".join(f"{'value' if not at else '':<8}{part}" for at, part in enumerate(parts))
