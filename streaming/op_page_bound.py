"""Refuses, while decoding, ops that name too many pages which can have no half yet.

Each page with records costs a Spark group and a call of the page function, a millisecond and more,
even if the function refuses all its ops. An op that the decoding refuses belongs to the page of its
own offset, where thousands of ops share one call.

The plan of a batch tells up to which offsets it reads the half topic; later pages can have no half.
The class ``OpPageBound.java`` counts those pages (docs/decisions/048).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from checkback.checkpoints.logs import PlannedBatch
from checkback.protocol.properties import TRANSACTION_DELIVERED
from checkback.streaming.java_classes import call_for_rows, java_class

BOUND: Final = "OpPageBound"
PROPERTY: Final = "checkback.half_ends"
"""Spark hands what the driver sets under it to every task of the batch: where the batch ends in
each partition of the half topic."""


def tell_half_ends(context: SparkContext, batch: PlannedBatch, half_topic: str) -> None:
    """Hand a planned batch's ends of the half topic to the tasks that run it.

    Called in the driver, before any of them runs. A batch that is not planned for the half topic
    has read nothing of it.
    """
    ends = batch.ends.get(half_topic, {})
    told = (ends.get(partition, 0) for partition in range(max(ends, default=-1) + 1))
    context.setLocalProperty(PROPERTY, ",".join(map(str, told)))


@dataclass(frozen=True)
class OpPageBound:
    """How many pages without a half the ops of a group may name.

    Args:
        spark: the session.
        page_size: half offsets per page.
        of_group: the bound, for each Kafka partition of ops and batch; all groups together may
            name four times as many.
    """

    spark: SparkSession = field(repr=False)
    page_size: int
    of_group: Column

    def refusing(self, judged: DataFrame) -> DataFrame:
        """Return the records, with the ops beyond the bound refused.

        Delivered ops pass: if they were refused, the pipeline would ask about their halves, and
        they would be delivered twice. Feedback of checks passes, too. Feedback of fences does not,
        because any producer could have written it.

        Args:
            judged: have is_half, partition, source_offset, named_offset, feedback_times, op_state,
                refusal and identity.
        """
        made = java_class(self.spark, BOUND)(self.page_size)
        names = ("partition", "source_offset", "named_offset", "identity")
        refusal = call_for_rows(
            self.spark, made, "refusal", [*map(f.col, names), self.of_group.cast("int")]
        )
        is_of_check = f.coalesce(f.col("feedback_times") > 0, f.lit(False))
        delivered = f.lit(str(TRANSACTION_DELIVERED).encode())
        is_delivered = f.coalesce(f.col("op_state") == delivered, f.lit(False))
        is_taken = ~f.col("is_half") & (f.col("refusal") == 0)
        is_bound = is_taken & ~is_of_check & ~is_delivered
        return judged.withColumn("refusal", f.when(is_bound, refusal).otherwise(f.col("refusal")))
