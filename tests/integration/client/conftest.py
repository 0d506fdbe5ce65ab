"""A Checkback of each test's own on the run's broker, and database servers of the tests' own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from tests.integration.client.playing import Checkback, Scripted, eventually

from checkback.deploy.broker import free_ports


@pytest.fixture
def checkback(bootstrap_servers: str, unique: str) -> Iterator[Checkback]:
    made = Checkback(bootstrap_servers, unique)
    made.create_topics()
    yield made
    for producer in made.started:
        producer.shutdown()


@pytest.fixture
def listener() -> Scripted:
    return Scripted()


def not_root() -> str | None:
    """Return the account for a database server: as root it refuses to run."""
    return "nobody" if os.getuid() == 0 else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Run a PostgreSQL of the tests' own; its programs refuse to run as root."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not on the PATH")
    account = not_root()
    folder = Path(tempfile.mkdtemp(prefix="checkback-postgres-"))
    if account is not None:
        shutil.chown(folder, account)
    data, port = str(folder / "data"), free_ports(1)[0]

    def run(*command: str) -> None:
        subprocess.run(command, user=account, cwd=folder, check=True, capture_output=True)

    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
    run("initdb", "-D", data, "-U", "checkback", "-A", "trust", "-N")
    run("pg_ctl", "-D", data, "-l", str(folder / "log"), "-w", "-o", options, "start")
    try:
        yield f"postgresql+psycopg://checkback@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[str]:
    """Run a MariaDB of the tests' own."""
    programs = ("mariadbd", "mariadb-install-db", "my_print_defaults")
    if missing := [one for one in programs if shutil.which(one) is None]:
        pytest.skip(f"MariaDB's {', '.join(missing)} is not on the PATH")
    pytest.importorskip("pymysql")
    account = not_root()
    folder = Path(tempfile.mkdtemp(prefix="checkback-mariadb-"))
    if account is not None:
        shutil.chown(folder, account)
    data, port = folder / "data", free_ports(1)[0]
    made = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db"]
    made += ["--auth-root-authentication-method=normal"]
    subprocess.run(made, user=account, cwd=folder, check=True, capture_output=True)
    server = subprocess.Popen(
        [
            "mariadbd",
            "--no-defaults",
            f"--datadir={data}",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={folder / 'socket'}",
            "--innodb-flush-log-at-trx-commit=0",
        ],
        user=account,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"mysql+pymysql://root@127.0.0.1:{port}/orders"
    try:
        eventually(lambda: _answers(f"mysql+pymysql://root@127.0.0.1:{port}/mysql"))
        yield url
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(url: str) -> bool:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text("CREATE DATABASE IF NOT EXISTS orders"))
    except OperationalError:
        return False
    finally:
        engine.dispose()
    return True
