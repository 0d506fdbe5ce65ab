"""Messages in transactions of plain drivers and of Django, on real servers of databases."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from tests.integration.client.playing import Checkback

from checkback.client import LocalTransactionState, Producer, SentMessage
from checkback.client.sessions.sqlalchemy import create_log_table, log_table
from checkback.protocol.errors import ConfigurationError

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE


@pytest.fixture(params=["postgres", pytest.param("mariadb", marks=pytest.mark.nightly)])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def test_messages_in_the_transaction_of_a_driver_s_connection(
    checkback: Checkback, url: str, unique: str
) -> None:
    place = make_url(url)
    driver: Any = import_module(place.get_driver_name())
    login = {"host": place.host, "port": place.port, "user": place.username}
    name = "dbname" if place.get_driver_name() == "psycopg" else "database"
    connect = partial(driver.connect, **login, **{name: place.database})
    table = f"{unique}log".replace("-", "_")
    engine = create_engine(url)
    create_log_table(log_table(table), engine)
    engine.dispose()
    producer = Producer(
        checkback.group,
        bootstrap_servers=checkback.bootstrap_servers,
        topic_prefix=checkback.prefix,
        database=connect,
        table_name=table,
    )
    sent: list[SentMessage] = []

    def order(connection: Any, number: int) -> None:
        with producer.transaction(connection) as transaction:
            connection.cursor().execute("INSERT INTO driver_orders VALUES (%s)", (number,))
            sent.extend(producer.send("paid", {"n": n}, session=transaction) for n in range(3))
            connection.cursor().execute("INSERT INTO driver_orders VALUES (%s)", (number + 1,))

    with producer, closing(connect()) as connection:
        connection.cursor().execute("CREATE TABLE driver_orders (id INTEGER PRIMARY KEY)")
        connection.commit()
        order(connection, 1)
        with pytest.raises(driver.IntegrityError):
            order(connection, 0)
        with suppress(ZeroDivisionError), producer.transaction(connection) as transaction:
            sent.append(producer.send("paid", b"x", session=transaction))
            raise ZeroDivisionError
        order(connection, 3)

        log = producer.log
        assert log is not None
        ended = [COMMIT] * 3 + [ROLLBACK] * 4 + [COMMIT] * 3
        assert [log.outcome(one.transaction_id) for one in sent] == ended
        verdicts = checkback.verdicts(len(sent))
        right = ["8"] * 3 + ["12"] * 4 + ["8"] * 3
        assert [verdicts[one.transaction_id] for one in sent] == right

    with (
        closing(connect(autocommit=True)) as connection,
        pytest.raises(ConfigurationError, match="autocommit"),
        producer.transaction(connection),
    ):
        pass


DJANGO = """
import sys
from contextlib import suppress
import django
from django.conf import settings

servers, prefix, engine, host, port, user, database = sys.argv[1:]
if engine == "mysql":
    import pymysql
    pymysql.install_as_MySQLdb()
place = {"HOST": host, "PORT": port, "USER": user, "NAME": database}
settings.configure(
    DATABASES={"default": {"ENGINE": f"django.db.backends.{engine}", **place}},
    INSTALLED_APPS=["checkback.client.django"],
    USE_TZ=True,
)
django.setup()
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from checkback.client import Producer

call_command("migrate", verbosity=0)
producer = Producer(
    prefix + "orders", bootstrap_servers=servers, topic_prefix=prefix, database=connection
)


def order(number):
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO django_orders VALUES (%s)", [number])


def send(body):
    return producer.send("paid", {"n": body})


with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE django_orders (id INTEGER PRIMARY KEY)")
committed, rolled_back = [], []
with producer.atomic():
    order(1)
    committed += [send(1), send(1)]
    with suppress(IntegrityError), transaction.atomic():
        rolled_back.append(send(2))
        order(1)
    with producer.atomic():
        committed.append(send(3))
with suppress(IntegrityError), producer.atomic():
    rolled_back.append(send(4))
    order(1)
with transaction.atomic():
    order(5)
    committed.append(send(5))
with suppress(IntegrityError), transaction.atomic():
    rolled_back.append(send(6))
    order(1)
outcomes = [producer.log.outcome(one.transaction_id).name for one in committed + rolled_back]
assert outcomes == ["COMMIT_MESSAGE"] * 4 + ["ROLLBACK_MESSAGE"] * 3, outcomes
left = producer.close()
assert left == 0, left
print(*(one.transaction_id for one in committed))
"""


def test_messages_in_django_s_transactions(checkback: Checkback, url: str) -> None:
    pytest.importorskip("django")
    place = make_url(url)
    engine = "mysql" if place.get_backend_name() == "mysql" else "postgresql"
    where = [place.host, str(place.port), place.username, place.database]
    command = [sys.executable, "-c", DJANGO, checkback.bootstrap_servers, checkback.prefix, engine]
    ended = subprocess.run(
        [*command, *map(str, where)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    committed = set(ended.stdout.split())
    verdicts = checkback.verdicts(7)
    assert {one for one, verdict in verdicts.items() if verdict == "8"} == committed
    # Where Django dropped a message's callback, a check settles it: no op, or "unknown".
    assert {verdict for verdict in verdicts.values() if verdict != "8"} <= {"0", "12"}
