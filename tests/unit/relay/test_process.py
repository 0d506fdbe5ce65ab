"""What a relay's process refuses, when other rules hold, and how it answers probes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from checkback.commands.shared.app import NOUNS, LazyGroup
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.relay.process import RelayHealth, RuleWatch, require_relay
from checkback.sinks.kafka.read.rule_source import LOOK_S, FileRules

RULES = "accounts:\n- accessKey: orders-service\n  secretKey: '12345678'\n  defaultGroupPerm: {}\n"


def test_without_the_setting_the_command_ends_with_2() -> None:
    given = ["relay", "--bootstrap-servers", "127.0.0.1:1"]
    told = CliRunner().invoke(LazyGroup(NOUNS), given)

    assert isinstance(told.exception, ConfigurationError)
    assert told.exception.exit_code == 2
    assert "relay = true" in told.exception.remedy


def test_a_relay_needs_brokers() -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        require_relay(Settings(relay=True))


def test_rules_that_are_being_written_count_when_two_looks_found_the_same(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(RULES.format("PUB"))
    watch = RuleWatch(FileRules(str(file)), lambda _: None)
    first = watch.rules.version
    assert not watch.has_changed(100.0)
    file.write_text(RULES.format("SUB"))
    assert not watch.has_changed(100.0 + LOOK_S / 2)  # not yet time to look
    assert not watch.has_changed(100.0 + LOOK_S)
    assert watch.has_changed(100.0 + 2 * LOOK_S)
    assert watch.rules.version != first
    file.write_text("accounts: 7")
    assert not watch.has_changed(100.0 + 3 * LOOK_S)
    file.write_text(RULES.format("SUB"))
    assert not any(watch.has_changed(100.0 + at * LOOK_S) for at in (4, 5))


def test_probes_learn_whether_the_loop_turns_and_partitions_are_served() -> None:
    now_s = [10.0]
    health = RelayHealth(lambda: now_s[0])
    assert (health.alive().is_well, health.ready().is_well) == (True, False)
    health.turned(is_ready=True)
    assert health.ready().is_well
    now_s[0] += 31.0
    health.turned(is_ready=False)
    assert (health.alive().is_well, health.ready().is_well) == (True, False)
    now_s[0] += 31.0
    assert not health.alive().is_well
