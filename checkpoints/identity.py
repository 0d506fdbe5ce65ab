"""Whose checkpoint it is: refused at start when it belongs to something else.

Offsets and page numbers in a checkpoint mean something only for the topics, cluster and sizes they
were made with. A recreated topic keeps its name and starts at offset 0 again: its topic id tells.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

from checkback.protocol.errors import CheckpointError
from checkback.streaming.page_keys import PageKeys

FILE: Final = "identity.json"
FORMAT: Final = 2
WITHOUT_TURNS: Final = 1
"""The format of before, whose pages are keyed by their half partition; it is read."""

REMEDIES: Final = {
    "format": "Use the version of Checkback that wrote it, or `checkback checkpoint rebuild`.",
    "application_id": "Set application_id to the checkpoint's, or choose another checkpoint.",
    "cluster_id": "Point bootstrap_servers at the cluster the checkpoint was made with.",
    "page_size": "page_size is fixed for a checkpoint's life: set it back, or leave it out.",
    "state_partitions": "Set state_partitions to the checkpoint's, or leave it out; `checkback "
    "checkpoint repartition` changes the checkpoint.",
    "half_topic_id": "The half topic was recreated: see docs/operating/recovering.md.",
    "op_topic_id": "The op topic was recreated: see docs/operating/recovering.md.",
    "settled_topic_id": "The settled topic was recreated: see docs/operating/recovering.md.",
}


@dataclass(frozen=True, slots=True)
class CheckpointIdentity:
    """What a checkpoint is bound to."""

    format: int
    application_id: str
    cluster_id: str
    page_size: int
    state_partitions: int
    half_topic_id: str
    op_topic_id: str
    settled_topic_id: str
    half_partitions: int | None = None
    """When it was made; None in format 1."""

    @property
    def page_keys(self) -> PageKeys:
        """How its pages are keyed."""
        return PageKeys(self.half_partitions)

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> CheckpointIdentity:
        """Read it.

        Raises:
            CheckpointError: it is no identity.
        """
        try:
            raw = json.loads(text)
            if raw["format"] == WITHOUT_TURNS:
                raw["half_partitions"] = None
            return cls(**{one.name: raw[one.name] for one in fields(cls)})
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"The checkpoint's {FILE} can't be read: {error}.",
                remedy="Run `checkback checkpoint rebuild`; see docs/operating/recovering.md.",
            ) from error

    def require_same(self, now: CheckpointIdentity) -> None:
        """Refuse to go on with a checkpoint of something else.

        Raises:
            CheckpointError: names the first difference, and what to do; or its format is a later
                one.
        """
        if self.format == WITHOUT_TURNS:
            now = replace(now, format=self.format)
        # Kafka can add partitions to a topic.
        now = replace(now, half_partitions=self.half_partitions)
        for one in fields(self):
            had, has = getattr(self, one.name), getattr(now, one.name)
            if had != has:
                raise CheckpointError(
                    f"The checkpoint was made with {one.name} {had!r}, this is {has!r}.",
                    remedy=REMEDIES[one.name],
                    name=one.name,
                    checkpoint=had,
                    now=has,
                )
