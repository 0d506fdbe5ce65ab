"""A changed file of rules is seen, a broken one is not taken: checkback.streaming.access_watch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checkback.protocol.errors import ConfigurationError
from checkback.streaming.access_watch import LOOK_S, SECRETS_LOOK_S, AccessWatch
from checkback.streaming.rule_source import FileRules

RULES = "accounts:\n- accessKey: service\n  secretKey: the-secret-of-service\n"


class Watched:
    """A watch over a file, with a clock that the test sets."""

    def __init__(self, folder: Path, text: str = RULES) -> None:
        self.file = folder / "plain_acl.yml"
        self.file.write_text(text)
        self.now_s = 100.0
        clock: Callable[[], float] = lambda: self.now_s  # noqa: E731
        self.watch = AccessWatch(FileRules(str(self.file)), clock)
        self.watch.read()

    def later(self, text: str | None = None, seconds: float = LOOK_S) -> bool:
        """Write the file, let time pass and look."""
        if text is not None:
            self.file.write_text(text)
        self.now_s += seconds
        return self.watch.has_changed()


def test_without_a_file_access_control_is_off() -> None:
    watch = AccessWatch(None)
    watch.read()

    assert (watch.table, watch.version, watch.has_changed()) == (None, "", False)


def test_a_changed_file_is_taken(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    before = watched.watch.version

    assert not watched.later()
    assert watched.later(RULES.replace("service", "another"))
    assert watched.watch.version != before
    assert watched.watch.table is not None
    assert list(watched.watch.table.accounts) == ["another"]
    assert not watched.later()


def test_a_change_that_is_taken_back_is_none(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.file.write_text("accounts: []")

    assert not watched.later(RULES)


@pytest.mark.parametrize("text", ["accounts: [", "accounts:\n- accessKey: x\n", None])
def test_a_broken_file_leaves_the_rules_in_force_and_is_told(
    tmp_path: Path, text: str | None
) -> None:
    watched = Watched(tmp_path)
    before = watched.watch.table
    if text is None:
        watched.file.unlink()

    assert not watched.later(text)
    assert watched.watch.table is before
    assert "plain_acl.yml" in watched.watch.problem

    watched.later(RULES)
    assert watched.watch.problem == ""


def test_a_secret_in_a_file_of_its_own_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the-first-secret")
    rules = "accounts:\n- accessKey: service\n  secretKey: {file: secret}\n"
    watched = Watched(tmp_path, rules)
    watched.later()

    (tmp_path / "secret").write_text("the-second-secret")

    assert watched.later(seconds=SECRETS_LOOK_S)


def test_a_job_does_not_start_with_broken_rules(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="secretKey"):
        Watched(tmp_path, "accounts:\n- accessKey: service\n")
