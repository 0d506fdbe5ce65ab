"""A checkpoint is rebuilt with access control on: what was refused stays refused, once."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.integration.rebuild.test_rebuild import rebuild
from tests.integration.running import Pipeline, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm
from tests.integration.tenants import ADMIN, ALICE, MALLORY, SECRETS, Stage, rules

SLOW_S = 240.0


@pytest.fixture
def stage(bootstrap_servers: str, unique: str, tmp_path: Path) -> Stage:
    """A deployment with access control; its pipeline is not started."""
    topics, file = Topics(bootstrap_servers, unique), tmp_path / "plain_acl.yml"
    file.write_text(rules(unique))
    settings = topics.settings(
        tmp_path / "checkpoint", acl_file=str(file), access_key=ADMIN, secret_key=SECRETS[ADMIN]
    )
    topics.create(settings, [f"{unique}alice", f"{unique}mallory"], [f"{unique}a", f"{unique}m"])
    return Stage(topics, Pipeline(settings, tmp_path), unique, file)


@pytest.mark.nightly  # tests/spark/test_rebuild_query.py
@pytest.mark.timeout(600)
def test_what_access_control_refused_is_refused_once_and_stays_so(
    stage: Stage, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    alice, mallory, settings = stage.signer(ALICE), stage.signer(MALLORY), stage.pipeline.settings
    unsigned = stage.half("unsigned", None)
    foreign = stage.half("foreign", mallory, group="m")
    paid, waiting = stage.half("paid", alice), stage.half("waiting", alice)
    stage.op(paid, "paid", alice)
    stage.op(waiting, "waiting", mallory)
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        wait_until(lambda: stage.bodies() == ["paid"], SLOW_S, "the first final")
        wait_until(lambda: len(stage.refused()) == 3, SLOW_S, "the refusals")
        assert pipeline.terminate() == 0

    # Nobody has read these yet. By the rules of today Mallory may write to Alice's topic: what was
    # refused by those before is not believed for that.
    stage.half("late and unsigned", None)
    stage.op(waiting, "waiting", None)
    stage.op(unsigned, "unsigned", alice)
    stage.op(foreign, "foreign", mallory, producer_group=f"{stage.prefix}m")
    stage.rules.write_text(
        rules(stage.prefix).replace(
            f"[{stage.prefix}mallory=PUB]", f"[{stage.prefix}mallory=PUB, {stage.prefix}alice=PUB]"
        )
    )
    shutil.rmtree(tmp_path / "checkpoint")
    with shared_jvm.lent() as jvm:
        code, told = rebuild(settings, tmp_path, "--yes", jvm=jvm)
    assert code == 0, told
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        stage.op(waiting, "waiting", alice)
        wait_until(
            lambda: sorted(stage.bodies()) == ["paid", "waiting"], SLOW_S, "the second final"
        )
        wait_until(lambda: len(stage.refused()) >= 5, SLOW_S, "the refusals of the late ones")
        assert pipeline.terminate() == 0
    assert told["counts"]["pending"] == 1
    assert sorted(stage.bodies()) == ["paid", "waiting"]
    assert Counter(stage.refused()) == {
        ("unsigned", "ACCESS_KEY_MISSING"): 1,
        ("foreign", "TOPIC_NOT_PERMITTED"): 1,
        ("waiting", "GROUP_NOT_PERMITTED"): 1,
        ("waiting", "ACCESS_KEY_MISSING"): 1,
        ("late and unsigned", "ACCESS_KEY_MISSING"): 1,
    }
