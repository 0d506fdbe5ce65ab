"""Rules that are far too large, or wrong in far too many places."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkback.protocol.errors import ConfigurationError
from checkback.security.access_control import RULES_LENGTH_MAX, AccessControl


def test_an_error_names_the_first_ten_mistakes() -> None:
    with pytest.raises(ConfigurationError) as raised:
        AccessControl.parse("accounts:\n" + "- {}\n" * 500, "rules")

    assert "has 1000 mistakes" in raised.value.message
    assert raised.value.message.endswith(" And 990 more.")
    assert raised.value.message.count(": line ") + raised.value.message.count(". line ") == 10
    found = raised.value.fields["mistakes"]
    assert isinstance(found, list)
    assert len(found) == 1000


def test_rules_that_would_take_minutes_to_read_are_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text("accounts: []\n#" + "x" * RULES_LENGTH_MAX)

    with pytest.raises(ConfigurationError, match="more than 1000000 characters") as raised:
        AccessControl.from_file(file)

    assert raised.value.fields == {"source": str(file)}
    assert not AccessControl.parse(f"accounts: [] #{'x' * 999_000}", "rules").accounts
