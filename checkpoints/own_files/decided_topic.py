"""decided.json: Kafka's id of the decided topic, and the spans of ops that a rebuild found."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from checkback.checkpoints.files import NOT_AS_WRITTEN, ReadableCheckpoint, damaged_file
from checkback.checkpoints.own_files.relay_terms import RelayTerms, Spans

FILE: Final = "decided.json"


@dataclass(frozen=True, slots=True)
class KnownDecidedTopic:
    """What a checkpoint has known of the decided topic since its creation.

    Args:
        topic_id: Kafka's id of the topic.
        spans: the spans of ops that relays had taken when the checkpoint was rebuilt.
    """

    topic_id: str
    spans: Spans = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the JSON document of the file."""
        spans = {at: RelayTerms(found).to_data() for at, found in self.spans.items()}
        return json.dumps({"topic_id": self.topic_id, "spans": spans})


def read_known_decided_topic(store: ReadableCheckpoint) -> KnownDecidedTopic | None:
    """Return what a checkpoint knows of the decided topic, None if it never read one.

    Raises:
        CheckpointError: the file can't be read.
    """
    text = store.read_own(FILE)
    if text is None:
        return None
    try:
        document = json.loads(text)
        terms = {int(at): RelayTerms.from_data(data) for at, data in document["spans"].items()}
        spans = {at: term.spans for at, term in terms.items()}
        return KnownDecidedTopic(str(document["topic_id"]), spans)
    except NOT_AS_WRITTEN as error:
        raise damaged_file(FILE, error) from error
