"""Where access is controlled, only an admin account sends refused finals again.

The pipeline never sees these finals, so the tool asks the rules itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkback.commands import refused
from checkback.commands.shared.app import execute
from checkback.console.actions import ActionRequest, Resend
from checkback.console.facts import KafkaFacts
from checkback.console.pending_view import PendingView
from checkback.operations.operator_account import require_admin
from checkback.operations.parked import noted_transaction
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, ConfigurationError

RULES = """
accounts:
- accessKey: operators
  secretKey: [{file: new}, {file: old}]
  signatureAlgorithm: HmacSHA1
  admin: true
- accessKey: orders-service
  secretKey: {file: orders}
  defaultTopicPerm: PUB
  defaultGroupPerm: PUB|SUB
  whiteRemoteAddress: "*"
"""
SECRETS = {"new": "the-new-secret", "old": "the-old-secret", "orders": "secret-of-orders"}
WISH = ActionRequest("0:0", "resend", "the topic is there now", "ann")
ADMINS = [("operators", SECRETS["new"]), ("operators", SECRETS["old"])]
OTHERS = [
    ("", "", "access_key is not set"),
    ("nobodys", SECRETS["new"], "no account has this access_key"),
    ("operators", SECRETS["orders"], "secret_key is none of this account's"),
    ("operators", SECRETS["new"][:-1], "secret_key is none of this account's"),
    ("orders-service", SECRETS["orders"], "this account is no admin"),
]


@pytest.fixture
def rules(tmp_path: Path) -> str:
    for name, secret in SECRETS.items():
        (tmp_path / name).write_text(secret, "utf-8")
    file = tmp_path / "plain_acl.yml"
    file.write_text(RULES, "utf-8")
    return str(file)


def settings(rules: str = "", access_key: str = "", secret_key: str = "") -> Settings:
    return Settings(
        bootstrap_servers="127.0.0.1:1",
        acl_file=rules,
        access_key=access_key,
        secret_key=secret_key,
    )


@pytest.mark.parametrize(("access_key", "secret_key", "says"), OTHERS)
def test_everybody_but_admins_is_refused(
    rules: str, access_key: str, secret_key: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says) as told:
        require_admin(settings(rules, access_key, secret_key))

    assert not any(secret in f"{told.value} {told.value.remedy}" for secret in SECRETS.values())


def test_admins_are_let_through_and_everybody_where_access_control_is_off(rules: str) -> None:
    for admin in ADMINS:
        require_admin(settings(rules, *admin))
    for anybody in (("", ""), ("nobodys", "any-secret")):
        require_admin(settings("", *anybody))


def test_nothing_is_sent_by_rules_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be read"):
        require_admin(settings(str(tmp_path / "none.yml"), *ADMINS[0]))


def touch(*_: object) -> Any:
    raise BrokerError("touched")


def command(given: Settings, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    for name in ("bootstrap_servers", "acl_file", "access_key", "secret_key"):
        monkeypatch.setenv(f"CHECKBACK_{name.upper()}", getattr(given, name))
    return execute(refused.command, ["resend", "--all", "--why", "mended", *more])


def test_command_and_console_ask_for_an_admin_before_they_touch_a_broker(
    rules: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for owner, name in ((refused, "open_scanner"), (KafkaFacts, "scanner")):
        monkeypatch.setattr(owner, name, lambda *_: nullcontext(SimpleNamespace(scan=touch)))
    monkeypatch.setattr(noted_transaction, "open_producer", touch)
    access_key, secret_key, says = OTHERS[-1]
    other, admin = settings(rules, access_key, secret_key), settings(rules, *ADMINS[0])

    assert command(other, monkeypatch, "--yes") == ConfigurationError.exit_code
    assert says in capsys.readouterr().err
    assert command(admin, monkeypatch, "--yes") == BrokerError.exit_code
    assert "touched" in capsys.readouterr().err
    for given, error in ((other, ConfigurationError), (admin, BrokerError)):
        action = Resend(KafkaFacts(given, PendingView(given), lambda: 0))
        acts: tuple[Callable[[ActionRequest], object], ...] = (action.preview, action.perform)
        for act in acts:
            with pytest.raises(error):
                act(WISH)
