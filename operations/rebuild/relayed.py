"""Finds the spans of ops that relays took, for a rebuild (docs/decisions/relay.md)."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from checkback.checkpoints.own_files.relay_terms import RelaySpan, Spans, with_note
from checkback.protocol.decided import ANY_TOPIC, NOTE_HEADERS, OP_TOPIC_ID, Closed, Taken

_KINDS: Final = {name: kind for kind, name in NOTE_HEADERS.items()}
"""Notes by the name of their last header."""
_FIELDS: Final = f"ops_from long, halves_from long, {OP_TOPIC_ID} string"


def spans_on(decided: DataFrame, op_topic_id: str) -> Spans:
    """Return the spans that relays took and take, from the notes on the decided topic.

    Args:
        decided: the topic's records, as Spark's Kafka source gives them, with headers.
        op_topic_id: Kafka's id of the op topic; notes about a former one do not count.
    """
    kind = f.try_element_at("headers", f.lit(-1)).getField("key")
    said = f.from_json(f.col("value").cast("string"), _FIELDS)
    topic_id = f.coalesce(said.getField(OP_TOPIC_ID), f.lit(ANY_TOPIC))
    is_note = kind.isin(*_KINDS) & topic_id.isin(ANY_TOPIC, op_topic_id)
    notes = decided.where(is_note).select(
        "partition", "offset", kind.alias("kind"), said.getField("ops_from").alias("ops_from"),
        said.getField("halves_from").alias("halves_from"),
    )  # fmt: skip
    # Marks repeat the current span every second.
    first = notes.groupBy("partition", "kind", "ops_from", "halves_from").agg(
        f.min("offset").alias("offset")
    )
    spans: dict[int, tuple[RelaySpan, ...]] = {}
    for row in sorted(first.collect(), key=lambda row: (row.partition, row.offset)):
        if row.ops_from is None:
            continue
        is_closed, ops_from = _KINDS[row.kind] is Closed, int(row.ops_from)
        note = Closed(ops_from) if is_closed else Taken(ops_from, int(row.halves_from or 0))
        spans[row.partition] = with_note(spans.get(row.partition, ()), note, int(row.offset))
    return spans


def without_relayed(ops: DataFrame, spans: Spans) -> DataFrame:
    """Return the records of the op topic without those that relays took."""
    taken = [_is_in(at, span) for at, found in spans.items() for span in found]
    return ops.where(~reduce(or_, taken)) if taken else ops


def _is_in(partition: int, span: RelaySpan) -> Column:
    found = (f.col("partition") == partition) & (f.col("offset") >= span.ops_from)
    return found if span.ops_until is None else found & (f.col("offset") < span.ops_until)
