"""The checked way beside direct delivery: topics of its own, and a pipeline that delivers.

The pipeline runs after all that is measured without it: it would take a core from them. Its topics
are others, so that it does not begin with what the runs before have left.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkback.bench.client import create_real_topic
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.testing.pipeline_process import PipelineProcess


@contextmanager
def running_pipeline(bootstrap_servers: str, topic_prefix: str) -> Iterator[None]:
    """Run a pipeline for the block, on topics that are created if they are missing.

    Args:
        bootstrap_servers: Kafka brokers.
        topic_prefix: of its topics and of the real topic.

    Raises:
        BrokerError: Kafka can't be reached, or refused.
        OperationalError: the pipeline did not start.
    """
    with tempfile.TemporaryDirectory(prefix="checkback-bench-checked-") as folder:
        settings = Settings(
            bootstrap_servers=bootstrap_servers,
            topic_prefix=topic_prefix,
            application_id=f"{topic_prefix}checkback",
            checkpoint=str(Path(folder) / "checkpoint"),
        )
        create_topics(settings)
        create_real_topic(bootstrap_servers, topic_prefix, settings.half_partitions)
        with PipelineProcess(settings, Path(folder)) as pipeline:
            pipeline.wait_for("started")
            yield
            pipeline.terminate()
