"""The real command line refuses a wrong address or Kafka setting in one sentence."""

from __future__ import annotations

import json

import pytest
from tests.programs import checkback

NOBODY = "127.0.0.1:1"
CONFIGURATION_WRONG = 2


@pytest.mark.parametrize(
    ("command", "servers", "more", "says"),
    [
        ("doctor", "localhost:banana", "", "localhost:banana"),
        ("topics create", ":::", "", "[IPv6 address]:port"),
        ("topics create", "localhost:65536", "--output json", "1 to 65535"),
        ("refused list", "localhost:0", "--output=json", "bootstrap_servers"),
        ("doctor", NOBODY, "--set kafka.group.idd=x", "group.idd"),
        ("topics create", NOBODY, "--set kafka.group.idd=x", "group.idd"),
        ("topics create", NOBODY, "--set kafka.acks=some", "acks"),
        ("doctor", NOBODY, "--output json --set kafka.auto.offset.reset=latest", "auto.offset"),
        ("run --checkpoint x", NOBODY, "--kafka retries=0 --output json", "kafka.retries"),
        ("doctor", NOBODY, "--output json --set kafka.message.timeout.ms=100000",
         '"key": "kafka.message.timeout.ms"'),
        ("run --checkpoint x", NOBODY, "--output json --kafka max.poll.interval.ms=1",
         '"key": "kafka.max.poll.interval.ms"'),
        ("doctor", NOBODY, "--output json --set kafka.batch.size=0", "kafka.batch.size"),
        ("console --port 0", ":::", "", "[IPv6 address]:port"),
        ("console --port 0", NOBODY, "--set kafka.group.idd=x", "group.idd"),
        ("console --port 0", "localhost:0", "", "1 to 65535"),
    ],
)  # fmt: skip
def test_the_user_reads_one_sentence(command: str, servers: str, more: str, says: str) -> None:
    ran = checkback(*command.split(), "--bootstrap-servers", servers, *more.split())

    assert "Traceback" not in ran.stderr
    [line] = ran.stderr.splitlines()
    assert ran.returncode == CONFIGURATION_WRONG
    assert says in line
    if "json" in more:
        assert json.loads(line)["error"]["exit_code"] == CONFIGURATION_WRONG
