"""docs/operating/checkpoints.md names every file that Checkback keeps in a checkpoint."""

from __future__ import annotations

import re
from pathlib import Path

from checkback.checkpoints.own_files import batch_terms, decided_topic, identity, running
from checkback.operations.rebuild import rebuild
from checkback.streaming.source import kafka_source
from checkback.streaming.start import topic_claim as claim

DOCUMENT = Path(__file__).parents[2] / "docs" / "operating" / "checkpoints.md"
FILES = {module.FILE for module in (claim, decided_topic, identity, kafka_source, rebuild, running)}
NUMBERED = {f"{batch_terms.FOLDER}/N.json"}


def test_the_table_has_every_file_of_ours() -> None:
    told = re.findall(r"^\| `checkback/([^`]+)` \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)

    assert sorted(told) == sorted(FILES | NUMBERED)
