"""Access control is switched on beside direct delivery: what was committed is not given up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.direct_sessions import GROUP, DirectSession
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

RULES = "accounts:\n- {accessKey: administrators, secretKey: secret-of-admins, admin: true}\n"


@pytest.mark.nightly  # tests/unit/test_switching_on.py holds the rule, without four starts
def test_access_control_is_not_switched_on_over_what_producers_may_still_deliver(
    bootstrap_servers: str, unique: str, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """Started anyway, it refused the delivered op and the commit, and discarded both halves."""
    topics = Topics(bootstrap_servers, unique)
    names, real = topics.names, f"{topics.prefix}orders"
    rules = tmp_path / "plain_acl.yml"
    rules.write_text(RULES)
    settings = topics.settings(tmp_path / "checkpoint", check_interval_ms=3_000, check_max=1_000)
    guarded = replace(settings, acl_file=str(rules), check_interval_ms=1_000, check_max=1)
    topics.create(settings, [real], [GROUP])
    session = DirectSession(topics)
    delivered, said = (session.half(body, real, at) for at, body in enumerate([b"paid", b"said"]))

    with shared_jvm.pipeline(settings, tmp_path) as job:
        job.wait_for("started")
        topics.send_op(topics.send_half(b"plain", real), "plain", COMMIT)
        wait_until(lambda: topics.bodies(real) == ["plain"], what="that all halves were read")
        assert job.terminate() == 0
    session.deliver(delivered)
    session.say(said, COMMIT)

    with shared_jvm.pipeline(guarded, tmp_path) as job:
        assert job.wait(120) == 4
        told = job.errors()
    assert "2 direct halves" in told
    assert "(the first at 0:0, 1:0)" in told
    with shared_jvm.pipeline(settings, tmp_path) as job:
        wait_until(lambda: topics.bodies(real) == ["paid", "plain", "said"], what="the commit")
        wait_until(lambda: not pending(job), what="that nothing is pending")
        assert job.terminate() == 0
    with shared_jvm.pipeline(guarded, tmp_path) as job:
        assert job.wait_for("started")["access_control"] == "on"
        assert job.terminate() == 0

    assert topics.bodies(real) == ["paid", "plain", "said"]
    assert topics.bodies(names.discarded) == topics.reasons() == []


def pending(job: Pipeline) -> int:
    """Return how many transactions are pending by the job's next progress line."""
    return int(job.wait_for("progress")["pending"])
