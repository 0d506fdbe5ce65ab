"""What a relay's process refuses, and how it answers probes."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from checkback.commands.shared.app import NOUNS, LazyGroup
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.relay.process import RelayHealth, require_relay


def test_without_the_setting_the_command_ends_with_2() -> None:
    given = ["relay", "--bootstrap-servers", "127.0.0.1:1"]
    told = CliRunner().invoke(LazyGroup(NOUNS), given)

    assert isinstance(told.exception, ConfigurationError)
    assert told.exception.exit_code == 2
    assert "relay = true" in told.exception.remedy


def test_a_relay_needs_brokers() -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        require_relay(Settings(relay=True))


def test_probes_learn_whether_the_loop_turns_and_partitions_are_served() -> None:
    now_s = [10.0]
    health = RelayHealth(lambda: now_s[0])
    assert (health.alive().is_well, health.ready().is_well) == (True, False)
    health.turned(is_ready=True)
    assert health.ready().is_well
    now_s[0] += 31.0
    health.turned(is_ready=False)
    assert (health.alive().is_well, health.ready().is_well) == (True, False)
    now_s[0] += 61.0
    assert not health.alive().is_well
