"""What a checkpoint is bound to; a start refuses one that belongs to something else.

Offsets and page numbers in a checkpoint are valid only for the topics, cluster and sizes that it
was made with. A recreated topic keeps its name but starts at offset 0 again; its topic id differs.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

from checkback.checkpoints.files import NOT_AS_WRITTEN, damaged_file
from checkback.protocol.errors import CheckpointError

FILE: Final = "identity.json"
FORMAT: Final = 1

REMEDIES: Final = {
    "format": "Use the version of Checkback that wrote it, or `checkback checkpoint rebuild`.",
    "application_id": "Set application_id to the checkpoint's, or choose another checkpoint.",
    "cluster_id": "Set bootstrap_servers to the cluster that the checkpoint was made with.",
    "page_size": "A checkpoint's page_size can't change: set it back, or leave it out.",
    "state_partitions": "Set state_partitions to the checkpoint's, or leave it out; `checkback "
    "checkpoint repartition` changes the checkpoint.",
    "order": "A checkpoint's order can't change: set it back, leave it out, or run `checkback "
    "checkpoint rebuild --from-topics`.",
    "half_topic_id": "The half topic was recreated: see `checkback docs recovering`.",
    "op_topic_id": "The op topic was recreated. Run `checkback checkpoint rebuild`: the job then "
    "asks about every half that waits.",
    "settled_topic_id": "The settled topic was recreated: see `checkback docs recovering`.",
}


@dataclass(frozen=True, slots=True)
class CheckpointIdentity:
    """The cluster, topics and settings that a checkpoint is bound to."""

    format: int
    application_id: str
    cluster_id: str
    page_size: int
    state_partitions: int
    half_topic_id: str
    op_topic_id: str
    settled_topic_id: str
    half_partitions: int
    """The number when the checkpoint was made; its page keys depend on it."""
    order: str
    """Whether finals of one key keep their order; its page keys depend on it."""

    def to_json(self) -> str:
        """Return the identity as JSON text."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> CheckpointIdentity:
        """Parse an identity from JSON text.

        Raises:
            CheckpointError: the text is not an identity.
        """
        try:
            raw = json.loads(text)
            known = {one.name for one in fields(cls)}
            return cls(**{name: value for name, value in raw.items() if name in known})
        except NOT_AS_WRITTEN as error:
            raise damaged_file(FILE, error) from error

    def require_same(self, now: CheckpointIdentity) -> None:
        """Refuse a checkpoint that was made with something else.

        Raises:
            CheckpointError: the two differ, or a later version wrote the checkpoint. Names the
                first difference.
        """
        # Kafka can add partitions to a topic.
        now = replace(now, half_partitions=self.half_partitions)
        for one in fields(self):
            had, has = getattr(self, one.name), getattr(now, one.name)
            if had != has:
                raise CheckpointError(
                    f"The checkpoint was made with {one.name} {had!r}, this job has {has!r}.",
                    remedy=REMEDIES[one.name],
                    name=one.name,
                    checkpoint=had,
                    now=has,
                )
