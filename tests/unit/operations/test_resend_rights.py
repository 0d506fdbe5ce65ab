"""Where access is controlled, only an admin account sends refused finals again.

The pipeline never sees these finals, so the tool asks the rules itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.operations.records import NAMES, half, record

from checkback.commands import refused
from checkback.commands.shared.app import execute
from checkback.console.actions import ActionRequest, Resend
from checkback.console.facts import KafkaFacts
from checkback.console.pending_view import PendingView
from checkback.operations.operator_account import require_admin
from checkback.operations.parked import noted_transaction
from checkback.operations.parked import resend as resending
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.protocol.refusals import RecordOrigin, RecordParts, RefusedReason, refused_parts
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic

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
BROKERS = "127.0.0.1:1"
WISH = ActionRequest("0:0", "resend", "the topic is there now", "ann")
ADMINS = [("operators", SECRETS["new"]), ("operators", SECRETS["old"])]
OTHERS = [
    ("", "", "access_key is not set"),
    ("nobodys", SECRETS["new"], "no account has this access_key"),
    ("operators", SECRETS["orders"], "secret_key is none of this account's"),
    ("operators", SECRETS["new"][:-1], "secret_key is none of this account's"),
    ("orders-service", SECRETS["orders"], "this account is no admin"),
]


class Stored:
    """What librdkafka tells of a record that the brokers have."""

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 9


class Brokers:
    """One refused record, a half topic that has lost its half, and what was done to them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def open_producer(self, *_: Any) -> Brokers:
        self.done.append("fenced")
        return self

    def begin_transaction(self) -> None:
        """Nothing is remembered of it."""

    def produce(
        self, *, topic: str, on_delivery: Callable[..., None] | None = None, **_: Any
    ) -> None:
        self.done.append(topic)
        if on_delivery is not None:
            on_delivery(None, Stored())

    def flush(self, _: float) -> None:
        """All is delivered already."""

    def commit_transaction(self, _: float) -> None:
        self.done.append("committed")

    def scan(self, _: str) -> list[FoundRecord]:
        given = half("u", at=Position(1, 7))
        parts = refused_parts(
            RecordParts(given.key, given.value, given.headers),
            RefusedReason.REAL_TOPIC_MISSING,
            RecordOrigin(NAMES.half, 1, 7),
            "orders",
        )
        return [record(NAMES.refused, parts.headers, value=parts.value)]

    def ends(self, _: list[str]) -> list[Any]:
        return []

    def find(self, _: str) -> KnownTopic:
        return KnownTopic(1, 1_000_000)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    found = Brokers()

    @contextmanager
    def scanner(*_: Any) -> Iterator[Brokers]:
        yield found

    monkeypatch.setattr(noted_transaction, "open_producer", found.open_producer)
    for name in ("TopicDirectory", "RecordReader"):
        monkeypatch.setattr(resending, name, lambda *_: found)
    monkeypatch.setattr(refused, "open_scanner", scanner)
    monkeypatch.setattr(KafkaFacts, "scanner", scanner)
    return found


@pytest.fixture
def rules(tmp_path: Path) -> str:
    for name, secret in SECRETS.items():
        (tmp_path / name).write_text(secret, "utf-8")
    file = tmp_path / "plain_acl.yml"
    file.write_text(RULES, "utf-8")
    return str(file)


def settings(rules: str = "", access_key: str = "", secret_key: str = "") -> Settings:
    return Settings(
        bootstrap_servers=BROKERS, topic_prefix=NAMES.prefix,
        acl_file=rules, access_key=access_key, secret_key=secret_key,
    )  # fmt: skip


def facts(given: Settings) -> KafkaFacts:
    return KafkaFacts(given, PendingView(given), lambda: 0)


def resend(given: Settings, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    names = ("bootstrap_servers", "topic_prefix", "acl_file", "access_key", "secret_key")
    for name in names:
        monkeypatch.setenv(f"CHECKBACK_{name.upper()}", getattr(given, name))
    return execute(refused.command, ["resend", "--all", "--why", "mended", *more])


SENT = ["fenced", "orders", NAMES.refused, "committed"]


@pytest.mark.parametrize("certain", [(), ("--yes",)])
@pytest.mark.parametrize(("access_key", "secret_key", "says"), OTHERS)
def test_the_command_refuses_everybody_but_admins(
    brokers: Brokers, rules: str, access_key: str, secret_key: str, says: str,
    certain: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    code = resend(settings(rules, access_key, secret_key), monkeypatch, *certain)

    assert (code, brokers.done) == (ConfigurationError.exit_code, [])
    told = capsys.readouterr()
    assert told.out == ""
    assert says in told.err
    assert not any(secret in told.err for secret in SECRETS.values())


@pytest.mark.parametrize(("access_key", "secret_key", "says"), OTHERS)
def test_the_console_refuses_everybody_but_admins(
    brokers: Brokers, rules: str, access_key: str, secret_key: str, says: str
) -> None:
    action = Resend(facts(settings(rules, access_key, secret_key)))

    for act in (action.preview, action.perform):
        with pytest.raises(ConfigurationError, match=says):
            cast("Callable[[ActionRequest], object]", act)(WISH)
    assert brokers.done == []


@pytest.mark.parametrize(("access_key", "secret_key"), ADMINS)
def test_an_admin_sends(
    brokers: Brokers, rules: str, access_key: str, secret_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(rules, access_key, secret_key)

    assert resend(given, monkeypatch) == 0
    assert brokers.done == []
    assert resend(given, monkeypatch, "--yes") == 0
    assert brokers.done == SENT

    action = Resend(facts(given))
    action.preview(WISH)
    assert "orders:0:9" in action.perform(WISH).says
    assert brokers.done == SENT * 2


@pytest.mark.parametrize(("access_key", "secret_key"), [("", ""), ("nobodys", "any-secret")])
def test_nobody_is_asked_for_an_account_where_access_control_is_off(
    brokers: Brokers, access_key: str, secret_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings("", access_key, secret_key)

    assert resend(given, monkeypatch, "--yes") == 0
    Resend(facts(given)).perform(WISH)

    assert brokers.done == SENT * 2


def test_nothing_is_sent_by_rules_that_cannot_be_read(brokers: Brokers, tmp_path: Path) -> None:
    given = settings(str(tmp_path / "none.yml"), *ADMINS[0])

    with pytest.raises(ConfigurationError, match="can't be read"):
        require_admin(given)
    with pytest.raises(ConfigurationError, match="can't be read"):
        Resend(facts(given)).perform(WISH)
    assert brokers.done == []
