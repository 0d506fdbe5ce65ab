"""Cases of records: what a client writes, byte for byte, and what the pipeline delivers."""

from __future__ import annotations

from typing import Any, Final

from kafka.partitioner.default import murmur2

from checkback.protocol import properties as names
from checkback.protocol.properties import HALF_PROTOCOL_ORDER, Headers
from checkback.protocol.records import Op, final_parts, half_headers
from checkback.protocol.signed_content import is_in_time, signed_content
from checkback.security import SignatureAlgorithm, sign
from checkback.testing.conformance.book import COMMIT, RAISE, ROLLBACK, UNKNOWN, Script
from checkback.testing.conformance.program import (
    PlannedSend,
    Program,
    SendFailedError,
    Sent,
    decoded,
)
from checkback.testing.conformance.report import require, require_equal
from checkback.testing.conformance.stage import (
    BORN_HOST,
    HALF_PARTITIONS,
    SECRETS,
    Stage,
    account,
    headers_of,
    wait_for,
)

STATES: Final = {
    COMMIT: names.TRANSACTION_COMMIT_TYPE,
    ROLLBACK: names.TRANSACTION_ROLLBACK_TYPE,
    UNKNOWN: names.TRANSACTION_NOT_TYPE,
}
IMMUNITY: Final = names.CHECK_IMMUNITY_TIME_IN_SECONDS


def orders(topic: str) -> list[PlannedSend]:
    """Return messages of every form, each with a body of its own."""
    properties = [
        ("source", b"web"), ("empty", b""), ("not UTF-8", b"\xfe\x80\0"),
        ("имя — 名", "значение 值".encode()), ("with space", b" "), (IMMUNITY, b"30"),
    ]  # fmt: skip
    return [
        PlannedSend(topic, b"without anything"),
        PlannedSend(topic, b"42 EUR", keys="order-1", tags="eu"),
        PlannedSend(topic, b"two keys", keys="order-1 customer-7"),
        PlannedSend(topic, b"key of bytes", key=b"\0\xff", keys="other"),
        PlannedSend(topic, b"headers of all kinds", key=b"k", properties=properties),
        PlannedSend(topic, b"many headers", properties=[(f"n{n}", b"%d" % n) for n in range(100)]),
        PlannedSend(topic, b"to a queue", queue_id=1, tags="t"),
        PlannedSend(topic, b"\0\x01\xff\n{}", keys="№1"),
        PlannedSend(topic, None, keys="tombstone"),
    ]


def half_is_byte_for_byte(stage: Stage) -> None:
    """Each half has the headers of the wire format, in its order, and key and body untouched."""
    topic, group = stage.real_topic(), stage.unique("group")
    for algorithm in SECRETS if stage.is_guarded else ("",):
        with stage.started(group, algorithm=algorithm) as program:
            for order in orders(topic):
                sent = stage.send(program, order)
                require_half(stage, group, order, sent, algorithm)
                require_shown(stage, order, sent)


def require_half(stage: Stage, group: str, order: PlannedSend, sent: Sent, algorithm: str) -> None:
    """Require the half of an order at the place that the client reports."""
    record = stage.half(sent)
    what = f"of the half of {order.body!r}"
    require_equal(record.key(), order.record_key, f"the key {what}")
    require_equal(record.value(), order.body, f"the value {what}")
    own = dict(order.properties)
    own |= {names.KEYS: order.keys.encode()} if order.keys else {}
    own |= {names.TAGS: order.tags.encode()} if order.tags else {}
    expected = half_headers(
        producer_group=group,
        transaction_id=sent.transaction_id,
        real_topic=order.topic,
        properties=own,
        real_queue_id=order.queue_id,
    )
    found = headers_of(record)
    if algorithm:
        half_topic = stage.topics.names.half
        require_signed(found, half_topic, None, order.record_key, order.body, algorithm)
        require_in_time(found, record.timestamp()[1])
        found = found[:-2]
    first = len(HALF_PROTOCOL_ORDER)
    require_equal(found[:first], expected[:first], f"the first headers {what}")
    require_equal(sorted(found[first:]), sorted(expected[first:]), f"the other headers {what}")


def require_signed(
    headers: Headers,
    topic: str,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    algorithm: str,
) -> None:
    """Require that the last two headers are those of a signed record, and the signature right."""
    require_equal(headers[-2], (names.BORN_HOST, BORN_HOST.encode()), "the header before the last")
    require_equal(headers[-1][0], names.SIGNATURE, "the name of the last header")
    time, access_key, signature = headers[-1][1].split(b" ")
    require_equal(access_key.decode(), account(algorithm), "the access key")
    stated = [*headers[:-1], (names.SIGNATURE, b"%s %s " % (time, access_key))]
    content = signed_content(topic, partition, key, value, stated, algorithm)
    expected = sign(SECRETS[algorithm], content, SignatureAlgorithm(algorithm))
    require_equal(signature.decode(), expected, "the signature")


def require_in_time(headers: Headers, stored_at_ms: int) -> None:
    """Require that the time of a signature is near the broker's."""
    signed_at_ms = int(headers[-1][1].split(b" ")[0])
    require(is_in_time(signed_at_ms, stored_at_ms), f"signed at {signed_at_ms}")


def require_shown(stage: Stage, order: PlannedSend, sent: Sent) -> None:
    """Require that the listener got the message as it was sent, with its transaction id."""
    message = stage.book.executed.get(sent.transaction_id)
    require(message is not None, f"the local transaction of {order.body!r} did not run")
    if message is not None:
        require_message(message, order)


def require_message(message: dict[str, object], order: PlannedSend) -> None:
    """Require that a listener's message is an order."""
    found = {name: message[name] for name in ("topic", "keys", "tags", "body", "queue_id")}
    expected = {name: order.as_line()[name] for name in found}
    require_equal(found, expected, "the message of the listener")
    key = message["key"]
    require_equal(decoded(key if isinstance(key, str) else None), order.record_key, "its key")
    properties = message["properties"]
    listed = properties if isinstance(properties, list) else []
    shown = sorted((name, decoded(value)) for name, value in listed)
    require_equal(shown, sorted(order.properties), "its properties")


def op_is_byte_for_byte(stage: Stage) -> None:
    """After each end of a local transaction the op stands in the half's partition number."""
    topic, group = stage.real_topic(), stage.unique("group")
    for algorithm in SECRETS if stage.is_guarded else ("",):
        with stage.started(group, algorithm=algorithm) as program:
            for state in STATES:
                order = PlannedSend(topic, f"{state} {algorithm}".encode())
                sent = stage.send(program, order, Script(state, unknown_checks=1))
                require_equal(sent.state, state, "the state that the send returned")
                require_op(stage, group, sent, state, algorithm)


def require_op(stage: Stage, group: str, sent: Sent, state: str, algorithm: str) -> None:
    """Require exactly one op of the send."""
    wait_for(lambda: stage.ops(sent.transaction_id), f"the op of {sent.transaction_id}", 15)
    found = stage.ops(sent.transaction_id)
    require_equal(len(found), 1, "the number of ops")
    (record,) = found
    op = Op(sent.partition, sent.offset, group, sent.transaction_id, STATES[state])
    require_equal(record.partition(), sent.partition, "the partition of the op")
    require_equal(record.value(), op.value(), "the value of the op")
    headers = headers_of(record)
    if algorithm:
        require_signed(
            headers, stage.topics.names.op, sent.partition, op.key(), op.value(), algorithm
        )
        headers = headers[:-2]
    require_equal(headers, op.headers(), "the headers of the op")


def keyed_halves_keep_their_partition(stage: Stage) -> None:
    """A half with a key goes to the partition that the Java client chooses for the key."""
    topic, group = stage.real_topic(), stage.unique("group")
    with stage.started(group) as program:
        for number in range(12):
            key = f"key-{number}".encode()
            sent = stage.send(program, PlannedSend(topic, b"keyed %d" % number, key=key))
            expected = (murmur2(key) & 0x7FFFFFFF) % HALF_PARTITIONS
            require_equal(sent.partition, expected, f"the half partition of {key!r}")


def finals_are_the_orders(stage: Stage) -> None:
    """Each committed order is on its topic once, whole; those of one key in their order."""
    topic, group = stage.real_topic(), stage.unique("group")
    with stage.started(group) as program:
        sequence = [PlannedSend(topic, b"step %d" % number, keys="one-key") for number in range(10)]
        planned = (*orders(topic), *sequence)
        sent = [(order, stage.send(program, order)) for order in planned]
        rolled_back = stage.send(program, PlannedSend(topic, b"rolled back"), Script(ROLLBACK))
        wait_for(lambda: len(stage.finals(topic)) >= len(sent), "the finals of all commits")
    found = stage.finals(topic)
    require(rolled_back.transaction_id not in found, "what was rolled back has a final")
    for order, report in sent:
        finals = found.get(report.transaction_id, [])
        require_equal(len(finals), 1, f"the number of finals of {order.body!r}")
        require_final(stage, order, report, finals[0])
    steps = [record.value() for record in stage.topics.read(topic) if record.key() == b"one-key"]
    require_equal(steps, [order.body for order in sequence], "the order of one key's finals")


def require_final(stage: Stage, order: PlannedSend, sent: Sent, final: object) -> None:
    """Require that a final is what the pipeline makes of its half."""
    record: Any = final
    half = headers_of(stage.half(sent))
    expected = final_parts(half, sent.partition, sent.offset).headers
    require_equal(headers_of(record), expected, f"the headers of the final of {order.body!r}")
    require_equal(record.key(), order.record_key, "the final's key")
    require_equal(record.value(), order.body, "the final's value")


def listener_that_raises_is_unknown(stage: Stage) -> None:
    """An exception of the local transaction counts as unknown; a check settles it."""
    topic, group = stage.real_topic(), stage.unique("group")
    with stage.started(group) as program:
        sent = stage.send(program, PlannedSend(topic, b"raised"), Script(COMMIT, said=RAISE))
        require_equal(sent.state, UNKNOWN, "the state that the send returned")
        wait_for(lambda: stage.ops(sent.transaction_id), "its op", 15)
        state = names.first_value(
            headers_of(stage.ops(sent.transaction_id)[0]), names.COMMIT_OR_ROLLBACK
        )
        require_equal(state, b"0", "what the op says")
        wait_for(lambda: sent.transaction_id in stage.finals(topic), "the final after a check")


def clean_shutdown_leaves_nothing(stage: Stage) -> None:
    """A shutdown sends the ops that wait, and says that it left nothing."""
    topic, group = stage.real_topic(), stage.unique("group")
    with stage.started(group) as program:
        sent = [stage.send(program, PlannedSend(topic, b"last %d" % n)) for n in range(20)]
        require_equal(program.shutdown(), 0, "what the shutdown says it left")
    for report in sent:
        require_equal(len(stage.ops(report.transaction_id)), 1, "the ops of a transaction")


def refuses_to_send(program: Program, stage: Stage, order: PlannedSend, kinds: set[str]) -> None:
    """Require that a client refuses an order, before the half and the local transaction."""
    before = len(stage.book.executed)
    try:
        stage.send(program, order)
    except SendFailedError as error:
        require(error.kind in kinds, f"{order.topic}: the client says {error}, expected {kinds}")
    else:
        require(False, f"the client sent {order.body!r:.60} to {order.topic}")
    require_equal(len(stage.book.executed), before, "the number of local transactions")
