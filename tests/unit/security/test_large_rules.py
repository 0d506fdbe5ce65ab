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


def rules_with_aliases(accounts: int) -> str:
    """Return some 80,000 characters in which each account has 5,000 permissions."""
    named = ",".join(f"t{number}=PUB" for number in range(5_000))
    first = (
        f"accounts:\n- {{accessKey: service-0, secretKey: secret-0, topicPerms: &t [{named}]}}\n"
    )
    return first + "".join(
        f"- {{accessKey: service-{number}, secretKey: secret-{number}, topicPerms: *t}}\n"
        for number in range(1, accounts)
    )


def test_what_aliases_stand_for_counts() -> None:
    """A small text said more than the memory holds: 80,000 characters took 13 s and 2.5 million
    permissions."""
    with pytest.raises(ConfigurationError, match="line 101: There are more than 500000 values"):
        AccessControl.parse(rules_with_aliases(500), "rules")

    doubled = "".join(f"- &a{number} [{f'*a{number - 1},' * 10}]\n" for number in range(1, 20))
    with pytest.raises(ConfigurationError, match="line 7: There are more than 500000 values"):
        AccessControl.parse("- &a0 [x]\n" + doubled, "rules")


def test_aliases_that_stand_for_little_are_taken() -> None:
    rules = AccessControl.parse(rules_with_aliases(3), "rules")

    assert [len(one.topic_permissions) for one in rules.accounts.values()] == [5_000] * 3
