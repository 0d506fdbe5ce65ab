"""Refuses, while decoding, ops that name too many pages which can have no half yet.

Each page with records costs a Spark group and a call of the page function, a millisecond and more,
even if the function refuses all its ops. An op that the decoding refuses belongs to the page of its
own offset, where thousands of ops share one call.

The plan of a batch tells up to which offsets it reads the half topic; later pages can have no half.
The class ``OpPageBound.java`` counts those pages (docs/decisions/048).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import Column, SparkSession

from checkback.checkpoints.logs import PlannedBatch
from checkback.streaming.java_classes import java_class

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

    Delivered ops pass: if they were refused, the pipeline would ask about their halves, and they
    would be delivered twice. Feedback of checks passes, too. Feedback of fences does not, because
    any producer could have written it.

    Args:
        spark: the session.
        of_group: the bound, for each Kafka partition of ops and batch; all groups together may
            name four times as many.
    """

    spark: SparkSession = field(repr=False)
    of_group: Column

    def counter(self, page_size: int) -> Any:
        """Return the object that counts the pages, for the decoder.

        Args:
            page_size: half offsets per page.
        """
        return java_class(self.spark, BOUND)(page_size)
