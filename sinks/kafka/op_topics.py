"""Reads ops by the offsets that the state stores, from either of the two op topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.refusals import RecordOrigin
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.lookup import RecordSource
from checkback.sinks.kafka.source_record import PlacedRecord
from checkback.state import DIRECT_SOURCE


@dataclass(frozen=True, slots=True)
class OpTopics:
    """Both op topics as one source of records.

    Args:
        plain: reads the op topic.
        direct: reads the direct op topic.
    """

    plain: RecordSource
    direct: RecordSource

    def read(
        self, partition: int, offsets: NDArray[np.int64]
    ) -> Iterator[tuple[int, PlacedRecord | None]]:
        """Yield (offset, record) in ascending order; None for a record that is gone.

        Args:
            partition: of either topic.
            offsets: int64[n], ascending; with DIRECT_SOURCE added for the direct op topic.
        """
        is_direct = offsets >= DIRECT_SOURCE
        yield from self.plain.read(partition, offsets[~is_direct])
        for offset, record in self.direct.read(partition, offsets[is_direct] - DIRECT_SOURCE):
            yield offset + DIRECT_SOURCE, record

    def close(self) -> None:
        """Give connections up."""
        self.plain.close()
        self.direct.close()


def op_origin(names: TopicNames, partition: int, source_offset: int) -> RecordOrigin:
    """Return the topic, partition and offset of an op, from the offset that the state stores."""
    if source_offset >= DIRECT_SOURCE:
        return RecordOrigin(names.direct_op, partition, source_offset - DIRECT_SOURCE)
    return RecordOrigin(names.op, partition, source_offset)
