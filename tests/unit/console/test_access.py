"""Who may look, who may act."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkback.commands.console import access_rules, allowed_hosts
from checkback.console.access import (
    FAILURES_MAX,
    SESSION_S,
    Access,
    AccessRules,
    TooManyFailuresError,
    digest,
    parse_tokens,
    read_tokens,
)
from checkback.metrics.server import is_loopback
from checkback.protocol.errors import ConfigurationError

TOKEN = "a-token-of-more-than-16"  # noqa: S105 - of this test
RULES = AccessRules({digest(TOKEN): "kim"})
NO_RULES: dict[str, Any] = {
    "tokens_file": None, "proxy_header": "", "anybody_reads": None,
    "bodies": "operators", "proxy_secret_file": None,
}  # fmt: skip


def test_a_stranger_reads_but_neither_acts_nor_sees_bodies() -> None:
    visitor = Access(RULES).visitor("", [])

    assert visitor.may_read
    assert not visitor.may_act
    assert not visitor.sees_bodies
    assert not Access(AccessRules(anybody_reads=False)).visitor("", []).may_read


def test_a_token_begins_a_session_that_ends() -> None:
    now = [0.0]
    access = Access(RULES, lambda: now[0])
    assert access.sign_in("wrong") is None
    begun = access.sign_in(TOKEN)
    assert begun is not None
    session, name = begun

    visitor = access.visitor(session, [])
    assert (name, visitor.name, visitor.may_act, visitor.sees_bodies) == ("kim", "kim", True, True)
    assert access.is_own_form(visitor, visitor.forgery_token)
    assert not access.is_own_form(visitor, "")
    assert not access.is_own_form(access.visitor("", []), "")

    now[0] = SESSION_S + 1.0
    assert not access.visitor(session, []).may_act
    session, _ = access.sign_in(TOKEN) or ("", "")
    access.sign_out(session)
    assert not access.visitor(session, []).may_act


def test_two_sessions_have_forms_of_their_own() -> None:
    access = Access(RULES)
    first, second = (access.visitor((access.sign_in(TOKEN) or ("", ""))[0], []) for _ in "12")

    assert not access.is_own_form(first, second.forgery_token)


def test_guessing_is_slowed_down() -> None:
    now = [0.0]
    access = Access(RULES, lambda: now[0])
    for _ in range(FAILURES_MAX):
        assert access.sign_in("wrong") is None

    with pytest.raises(TooManyFailuresError):
        access.sign_in(TOKEN)
    now[0] = 61.0
    assert access.sign_in(TOKEN) is not None


@pytest.mark.parametrize(
    ("names", "is_believed"),
    [(["kim"], True), ([], False), (["kim", "root"], False), (["k\x00im"], False)],
)
def test_a_proxys_header_is_believed_beside_its_secret_alone(
    names: list[str], *, is_believed: bool
) -> None:
    rules = AccessRules(proxy_header="X-User", proxy_secret=digest(TOKEN))

    assert Access(rules).visitor("", names, [TOKEN]).may_act is is_believed
    assert not Access(RULES).visitor("", names, [TOKEN]).may_act, "no header was agreed on"
    for secrets in ([], [""], ["wr\u00f6ng"], [TOKEN, TOKEN]):
        assert not Access(rules).visitor("", names, secrets).may_act


def test_a_proxys_header_needs_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every browser on the proxy's machine connects from its address, too."""
    monkeypatch.delenv("CHECKBACK_CONSOLE_PROXY_SECRET", raising=False)
    given = {**NO_RULES, "proxy_header": "X-User"}
    with pytest.raises(ConfigurationError, match="needs a secret"):
        access_rules("127.0.0.1", **given)
    file = tmp_path / "secret"
    file.write_text(f"{TOKEN}\n")
    rules = access_rules("127.0.0.1", **{**given, "proxy_secret_file": file})
    assert rules.proxy_secret == digest(TOKEN)
    monkeypatch.setenv("CHECKBACK_CONSOLE_PROXY_SECRET", TOKEN)
    assert access_rules("127.0.0.1", **given) == rules
    file.write_text("short")
    with pytest.raises(ConfigurationError, match="at least 16") as caught:
        access_rules("127.0.0.1", **{**given, "proxy_secret_file": file})
    assert "short" not in str(caught.value)


def test_bodies_are_for_whom_the_rules_say() -> None:
    def sees(bodies: str) -> tuple[bool, bool]:
        access = Access(AccessRules({digest(TOKEN): "kim"}, bodies=bodies))
        session, _ = access.sign_in(TOKEN) or ("", "")
        return access.visitor("", []).sees_bodies, access.visitor(session, []).sees_bodies

    assert {one: sees(one) for one in ("nobody", "operators", "everybody")} == {
        "nobody": (False, False), "operators": (False, True), "everybody": (True, True),
    }  # fmt: skip


def test_the_file_of_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# operators\n\nkim {TOKEN}\n")

    assert read_tokens(file) == {digest(TOKEN): "kim"}
    with pytest.raises(ConfigurationError, match=r"can't be read: No such file or directory[.]"):
        read_tokens(tmp_path / "none")
    for line in ("kim", "kim short", f"kim {TOKEN} {TOKEN}"):
        with pytest.raises(ConfigurationError, match="Line 1 of") as caught:
            parse_tokens([line], "test")
        assert TOKEN not in str(caught.value), "an error shows no secret"


def test_a_console_on_the_network_needs_a_way_to_sign_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHECKBACK_CONSOLE_TOKENS", raising=False)
    assert access_rules("127.0.0.1", **NO_RULES).anybody_reads
    with pytest.raises(ConfigurationError, match="no tokens"):
        access_rules("0.0.0.0", **NO_RULES)  # noqa: S104 - that is the point
    assert access_rules("0.0.0.0", **{**NO_RULES, "anybody_reads": True}).anybody_reads  # noqa: S104
    monkeypatch.setenv("CHECKBACK_CONSOLE_TOKENS", f"kim {TOKEN}")
    rules = access_rules("0.0.0.0", **NO_RULES)  # noqa: S104
    assert (rules.tokens, rules.anybody_reads) == ({digest(TOKEN): "kim"}, False)


def test_where_a_header_signs_in_only_known_names_lead_to_the_console() -> None:
    by_proxy = AccessRules(proxy_header="X-User", anybody_reads=False)

    assert "*" not in allowed_hosts("0.0.0.0", (), by_proxy)  # noqa: S104 - that is the point
    assert "*" not in allowed_hosts("127.0.0.1", (), AccessRules(anybody_reads=False))


def test_where_anybody_reads_only_known_names_lead_to_the_console() -> None:
    assert "*" not in allowed_hosts("127.0.0.1", (), RULES)
    assert allowed_hosts("0.0.0.0", (), AccessRules(anybody_reads=False)) == ["*"]  # noqa: S104
    assert allowed_hosts("0.0.0.0", ("ops.example",), RULES)[0] == "ops.example"  # noqa: S104
    assert [is_loopback(one) for one in ("localhost", "::1", "10.0.0.1", "ops")] == [
        True, True, False, False,
    ]  # fmt: skip
