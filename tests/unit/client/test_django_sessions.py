"""Messages in Django's transactions: all are delivered, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.producer_playing import Clients, kafka
from tests.unit.client.test_sessions import HASTY, ROLLBACK, ops

from checkback.client import Producer
from checkback.client.sessions.databases import database_of
from checkback.client.sessions.django import DjangoDatabase
from checkback.protocol.errors import ConfigurationError, SendError
from checkback.testing import FakeCheckService, Verdict
from checkback.testing.waiting import wait_until

__all__ = ["kafka"]
PROTOCOL = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text("utf-8")
django = pytest.importorskip("django")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Django's module of connections; Django can be set up once in a process."""
    name = str(tmp_path_factory.mktemp("django") / "orders.db")
    import_module("django.conf").settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": name,
                "OPTIONS": {"timeout": 0.2},
            }
        },
        INSTALLED_APPS=["checkback.client.django"],
        USE_TZ=True,
    )
    django.setup()
    call_command: Any = import_module("django.core.management").call_command
    call_command("migrate", verbosity=0)
    call_command("makemigrations", check=True, verbosity=0)
    module: Any = import_module("django.db")
    with module.connection.cursor() as cursor:
        cursor.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    return module


@pytest.fixture
def producer(db: Any, kafka: list[Clients]) -> Iterator[Producer]:
    made = Producer("g", bootstrap_servers="fake", database=db.connection, **HASTY)
    with db.connection.cursor() as cursor:
        cursor.execute("DELETE FROM orders")
        cursor.execute("DELETE FROM checkback_transaction")
    yield made
    made.close()


def test_the_migration_makes_the_table_of_the_format(db: Any) -> None:
    name = "checkback.client.django.migrations.0001_transaction_log"
    assert import_module(name).TABLE.strip() in PROTOCOL
    assert import_module(name).INDEX in PROTOCOL
    config = import_module("django.apps").apps.get_app_config("checkback")
    assert type(config).__module__ == "checkback.client.django.apps"
    assert column(db, "SELECT name FROM sqlite_master") >= {"checkback_transaction_written_at"}


def order(db: Any, number: int) -> None:
    with db.connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s)", [number])


def column(db: Any, statement: str) -> set[Any]:
    with db.connection.cursor() as cursor:
        cursor.execute(statement)
        return {row[0] for row in cursor.fetchall()}


def logged(db: Any) -> set[str]:
    return column(db, "SELECT transaction_id FROM checkback_transaction")


@pytest.mark.parametrize("kind", ["producer's", "plain"])
def test_savepoints_and_fates(kind: str, db: Any, producer: Producer, kafka: list[Clients]) -> None:
    atomic: Any = producer.atomic if kind == "producer's" else db.transaction.atomic
    sent: dict[str, Any] = {}
    with atomic():
        order(db, 1)
        sent["kept"] = producer.send("t", b"x")
        with suppress(RuntimeError), atomic():
            sent["taken back"] = producer.send("t", b"x")
            with db.transaction.atomic():
                sent["taken back with it"] = producer.send("t", b"x")
            raise RuntimeError
        with atomic():
            sent["kept in a savepoint"] = producer.send("t", b"x")
        assert "commit" not in ops(kafka).values()
    with suppress(RuntimeError), atomic():
        order(db, 2)
        sent["taken back by the transaction"] = producer.send("t", b"x")
        raise RuntimeError
    with atomic():
        sent["taken back without an error"] = producer.send("t", b"x")
        db.transaction.set_rollback(True)

    kept = {name for name in sent if "kept" in name}
    said = {name: ops(kafka).get(one.transaction_id) for name, one in sent.items()}
    assert {name for name, one in said.items() if one == "commit"} == kept
    assert logged(db) == {sent[name].transaction_id for name in kept}
    assert column(db, "SELECT id FROM orders") == {1}
    assert producer.log is not None
    assert producer.log.outcome(sent["taken back"].transaction_id) is ROLLBACK


@pytest.mark.parametrize("kind", ["producer's", "plain"])
def test_a_half_that_is_not_stored_rolls_the_block_back(
    kind: str, db: Any, producer: Producer, kafka: list[Clients]
) -> None:
    atomic: Any = producer.atomic if kind == "producer's" else db.transaction.atomic
    producer.open()
    kafka[0].halves[0].is_silent = True

    def place() -> None:
        with atomic():
            order(db, 1)
            producer.send("t", b"x")

    with pytest.raises(SendError):
        place()
    assert column(db, "SELECT id FROM orders") == set()
    assert "commit" not in ops(kafka).values()


@pytest.mark.parametrize("kind", ["producer's", "plain"])
def test_a_commit_whose_confirmation_was_lost_is_asked_back(
    kind: str, db: Any, producer: Producer, kafka: list[Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    atomic: Any = producer.atomic if kind == "producer's" else db.transaction.atomic
    commit = db.connection.commit

    def commit_and_lose() -> None:
        commit()
        raise db.OperationalError("server closed the connection")

    monkeypatch.setattr(db.connections["default"], "commit", commit_and_lose)
    sent: list[Any] = []
    with suppress(db.OperationalError), atomic():
        sent.append(producer.send("t", b"x"))
    wait_until(lambda: ops(kafka) != {})
    assert ops(kafka) == {sent[0].transaction_id: "unknown"}


def test_a_backend_of_another_library_is_djangos(db: Any) -> None:
    own = db.connections["default"]
    kind = type("Own", (type(own),), {"__module__": "another.backend"})

    assert isinstance(database_of(kind(own.settings_dict, "default")), DjangoDatabase)


def test_outside_a_transaction_a_message_is_refused(db: Any, producer: Producer) -> None:
    with pytest.raises(ConfigurationError, match="autocommit"):
        producer.send("t", b"x")
    with pytest.raises(ConfigurationError, match="Leave it out"), db.transaction.atomic():
        producer.send("t", b"x", session=db.connection)
    with pytest.raises(ConfigurationError, match="INSTALLED_APPS"):
        producer.create_table()
    with pytest.raises(ConfigurationError, match="with Django use"):
        producer.transaction(db.connection).__enter__()


def test_the_fake_check_service_takes_a_djangos_messages(db: Any, producer: Producer) -> None:
    service = FakeCheckService(producer)
    service.loses_ops = True
    with producer.atomic():
        producer.send("t", {"order": 1})
    assert service.transactions[0].ask() is Verdict.COMMIT
    assert isinstance(producer._database, DjangoDatabase)
