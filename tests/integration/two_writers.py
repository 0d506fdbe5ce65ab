"""Two drivers that plan the same batch at the same moment."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError


def refused_second(manager: Any, plan: Any) -> Any:
    """Write a plan twice at once; return the stream of the second writer, who has to be refused.

    Args:
        manager: Spark's CheckpointFileManager.
        plan: the Hadoop path; it has "ours" afterwards.
    """
    ours, theirs = (manager.createAtomic(plan, False) for _ in range(2))
    for stream, text in ((ours, b"ours"), (theirs, b"theirs")):
        stream.write(bytearray(text))
    ours.close()
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        theirs.close()
    return theirs
