"""Parts for tests of the whole pipeline: those of `checkback.testing`, and the command."""

from __future__ import annotations

import sys
from pathlib import Path

from checkback.testing import PipelineProcess as Pipeline
from checkback.testing import Topics, wait_until
from checkback.testing.pipeline_process import QUICK_JVM, QUICK_SPARK
from checkback.testing.topics import COMMIT, ROLLBACK, UNKNOWN

COMMAND = str(Path(sys.executable).parent / "checkback")

__all__ = [
    "COMMAND", "COMMIT", "QUICK_JVM", "QUICK_SPARK", "ROLLBACK", "UNKNOWN", "Pipeline", "Topics",
    "wait_until",
]  # fmt: skip
