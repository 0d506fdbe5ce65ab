"""The examples run as their first lines say, and leave the right ops."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine, text
from tests.integration.client.playing import Checkback, eventually, header

from checkback.client import LocalTransactionState
from checkback.client.sessions.log_table import TransactionLog
from checkback.client.sessions.sqlalchemy import EngineDatabase
from checkback.deploy.broker import free_ports
from checkback.protocol import properties as names

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def environment(checkback: Checkback, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "CHECKBACK_BOOTSTRAP_SERVERS": checkback.bootstrap_servers,
        "CHECKBACK_TOPIC_PREFIX": checkback.prefix,
        "DATABASE_URL": f"sqlite:///{tmp_path / 'orders.db'}",
    }


def states(checkback: Checkback, least: int) -> Counter[str | None]:
    return Counter(header(op, names.COMMIT_OR_ROLLBACK) for op in checkback.ops(least))


def run(script: str, environment: dict[str, str]) -> str:
    command = [sys.executable, str(EXAMPLES / script)]
    return subprocess.run(
        command, env=environment, timeout=60, check=True, capture_output=True, text=True
    ).stdout


def test_plain_script(checkback: Checkback, environment: dict[str, str]) -> None:
    out = run("plain_script.py", environment)
    assert "o-1 COMMIT_MESSAGE" in out
    assert "o-2 ROLLBACK_MESSAGE" in out
    assert states(checkback, 2) == {"8": 1, "12": 1}


def test_outbox(checkback: Checkback, environment: dict[str, str]) -> None:
    run("outbox.py", environment)
    assert states(checkback, 3) == {"8": 3}
    with create_engine(environment["DATABASE_URL"]).connect() as connection:
        assert connection.execute(text("SELECT sum(amount) FROM orders")).scalar_one() == 60


def test_asyncio_worker(checkback: Checkback, environment: dict[str, str]) -> None:
    assert run("asyncio_worker.py", environment).count("COMMIT_MESSAGE") == 10
    assert states(checkback, 10) == {"8": 10}


def audit(checkback: Checkback, environment: dict[str, str], messages: int, least: int) -> None:
    """Ask the log of each half: each order has its messages, and nothing else was delivered."""
    engine = create_engine(environment["DATABASE_URL"].replace("+aiosqlite", ""))
    log = TransactionLog(EngineDatabase(engine))
    delivered = Counter(
        half.key.decode()
        for half in checkback.halves()
        if log.outcome(header(half, names.UNIQ_KEY) or "") is LocalTransactionState.COMMIT_MESSAGE
    )
    with engine.connect() as connection:
        orders = connection.execute(text("SELECT id FROM orders")).scalars().all()
    assert delivered == {f"order-{number}": messages for number in orders}
    assert len(orders) >= least


def test_orders_script_that_is_killed_in_the_middle(
    checkback: Checkback, environment: dict[str, str]
) -> None:
    command = [sys.executable, str(EXAMPLES / "orders_script.py"), *map(str, range(1, 2_000))]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        for _ in range(50):
            assert script.stdout.readline().startswith("booked")
        script.kill()
    run("orders_script.py", environment)
    audit(checkback, environment, messages=2, least=53)


def uvicorn(service: str) -> list[str]:
    return ["-m", "uvicorn", f"{service}:app", "--port={port}"]


@pytest.mark.parametrize(
    ("package", "driver", "program"),
    [
        ("fastapi", "sqlite", uvicorn("fastapi_service")),
        pytest.param(
            "aiosqlite",
            "sqlite+aiosqlite",
            uvicorn("fastapi_async_service"),
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "django",
            "sqlite",
            ["django_service.py", "runserver", "--noreload", "{port}"],
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "django",
            "sqlite",
            [
                *("-m", "gunicorn", "--preload", "--workers=2", "--bind=127.0.0.1:{port}"),
                "django_service:application",
            ],
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_service_that_is_killed_while_it_books(
    package: str,
    driver: str,
    program: list[str],
    checkback: Checkback,
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    pytest.importorskip(package)
    environment["DATABASE_URL"] = environment["DATABASE_URL"].replace("sqlite", driver, 1)
    if package == "django":
        environment["DATABASE_PATH"] = str(tmp_path / "orders.db")
        migrate = [sys.executable, "django_service.py", "migrate"]
        subprocess.run(migrate, cwd=EXAMPLES, env=environment, check=True, capture_output=True)
    port = free_ports(1)[0]
    command = [sys.executable, *(argument.format(port=port) for argument in program)]
    with (
        (tmp_path / "service.log").open("w") as out,
        subprocess.Popen(command, cwd=EXAMPLES, env=environment, stdout=out, stderr=out) as service,
        ThreadPoolExecutor(4) as callers,
    ):
        url = f"http://127.0.0.1:{port}/orders"
        eventually(lambda: booked(url))
        for number, done in enumerate(as_completed(callers.submit(booked, url) for _ in range(99))):
            done.result()
            if number == 20:
                service.kill()
    audit(checkback, environment, messages=1, least=2)


def booked(url: str) -> bool:
    """Book an order; tell whether the service said that it did."""
    try:
        return httpx.post(url, params={"amount": 1}).status_code == 201
    except httpx.TransportError:
        return False
