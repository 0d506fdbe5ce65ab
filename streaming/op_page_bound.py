"""Refuses, while decoding, ops that name too many pages, or halves that nobody can have written.

Each page with records costs a Spark group and a call of the page function, a millisecond and more,
even if the function refuses all its ops. An op that the decoding refuses belongs to the page of its
own offset, where thousands of ops share one call.

The plans tell which pages of halves a batch reads; each has a call anyway. The class
``OpPageBound.java`` counts the others that the ops of a group name: later pages, which can have no
half yet, and earlier ones. It also refuses what lies behind the end of the half topic's log, and
before the first half that the state remembers (docs/decisions/query.md#op-range).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import Column, SparkSession

from checkback.streaming.half_bounds import HalfRange, HalfRanges
from checkback.streaming.java_classes import java_class
from checkback.streaming.read_until import BatchPlans

BOUND: Final = "OpPageBound"
PROPERTY: Final = "checkback.half_pages"
"""Spark hands what the driver sets under it to every task of the batch: for each partition of the
half topic where the batch begins and ends, and from which offset up to which ops may name."""
ANY_HALF: Final = HalfRange(0, 2**63 - 1)


def tell_half_pages(
    context: SparkContext, plans: BatchPlans, named: HalfRanges, half_topic: str
) -> None:
    """Tell the tasks of a planned batch which halves it reads, and which can exist.

    Called in the driver, before any of them runs. A batch that is not planned for the half topic
    has read nothing of it.
    """
    ends = plans.batch.ends.get(half_topic, {})
    begins = {} if plans.before is None else plans.before.ends.get(half_topic, {})
    told = (
        (begins.get(number, 0), ends.get(number, 0), *named.get(number, ANY_HALF))
        for number in range(max(ends, default=-1) + 1)
    )
    context.setLocalProperty(PROPERTY, ",".join(":".join(map(str, one)) for one in told))


@dataclass(frozen=True)
class OpPageBound:
    """How many pages the ops of a group may name of which the batch reads no half.

    Delivered ops are not counted: if one was refused whose half exists, the pipeline would ask
    about that half, and it would be delivered twice. Feedback of checks passes, too. Feedback of
    fences is counted, because any producer could have written it.

    Args:
        spark: the session.
        of_group: the bound on later pages, for each Kafka partition of ops and batch. All groups
            together may name four times as many. Of earlier pages a group may name ten times as
            many, if access control tells groups apart, and else any number: who can be anybody
            could have the answers of others refused, check after check.
    """

    spark: SparkSession = field(repr=False)
    of_group: Column

    def counter(self, page_size: int, *, is_verified: bool) -> Any:
        """Return the object that counts the pages, for the decoder.

        Args:
            page_size: half offsets per page.
            is_verified: whether access control tells that ops are of the group that they name.
        """
        return java_class(self.spark, BOUND)(page_size, is_verified)
