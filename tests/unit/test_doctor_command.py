"""What ``checkback doctor`` writes for people."""

from __future__ import annotations

from checkback.commands.doctor import findings_text
from checkback.operations.doctor.judgements import Diagnosis, Result


def test_findings_fit_the_terminal_with_the_remedy_below() -> None:
    topic = "topic RMQ_SYS_TRANS_HALF_TOPIC"
    found = [
        Diagnosis("java", Result.OK, "17"),
        Diagnosis(topic, Result.FAILED, "missing " * 12, "Run `checkback topics create`."),
    ]

    lines = findings_text(found, 60).splitlines()

    assert lines[0] == "ok       java: 17"
    assert lines[1].startswith(f"failed   {topic}: missing")
    assert lines[-1] == "         Run `checkback topics create`."
    assert max(map(len, lines)) <= 60
