"""README.md's client example runs as it stands, on a real broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from checkback.deploy.demo.evidence import read_topic
from checkback.deploy.topics import create_topics
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import kafka_python_settings

README = Path(__file__).parents[2] / "README.md"
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_client_example_sends_a_half_and_commits_it(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    settings = Settings(bootstrap_servers=bootstrap_servers, half_partitions=1)
    create_topics(settings)
    (example,) = re.findall(
        r"^```python\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    script = example.replace("localhost:9092", bootstrap_servers).replace(
        '"order-service"', f'"{unique}group"'
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    state, transaction_id = ran.stdout.split()
    connection = kafka_python_settings(bootstrap_servers, {})
    (half,) = (
        record
        for record in read_topic(connection, settings.topics.half)
        if names.text_value(record.headers, names.UNIQ_KEY) == transaction_id
    )
    (op,) = (
        record
        for record in read_topic(connection, settings.topics.op)
        if record.key == transaction_id.encode()
    )

    assert state == "COMMIT_MESSAGE"
    assert (half.value, half.key) == (b"42 EUR", b"order-1")
    assert (op.partition, int(op.value)) == (half.partition, half.offset)
    assert names.text_value(op.headers, names.COMMIT_OR_ROLLBACK) == "8"
