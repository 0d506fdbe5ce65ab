"""The examples run as their first lines say, and leave the right ops."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
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
    engine = create_engine(environment["DATABASE_URL"])
    log = TransactionLog(EngineDatabase(engine))
    delivered = Counter(
        half.key.decode()
        for half in checkback.halves()
        if log.outcome(header(half, names.UNIQ_KEY) or "") is LocalTransactionState.COMMIT_MESSAGE
    )
    with engine.connect() as connection:
        orders = connection.execute(text("SELECT id FROM orders")).scalars().all()
    assert len(orders) >= 53
    assert delivered == {f"order-{number}": 2 for number in orders}


def test_django_service_that_is_killed_in_the_middle(
    checkback: Checkback, environment: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("django")
    environment["DATABASE_PATH"] = str(tmp_path / "orders.db")
    script = [sys.executable, str(EXAMPLES / "django_service.py")]
    subprocess.run([*script, "migrate"], env=environment, check=True, capture_output=True)
    port = free_ports(1)[0]
    given = ["runserver", "--noreload", f"127.0.0.1:{port}"]
    with subprocess.Popen([*script, *given], env=environment, stderr=subprocess.DEVNULL) as service:
        url = f"http://127.0.0.1:{port}/orders"
        eventually(lambda: _answers(url), 30)
        for _ in range(3):
            assert httpx.post(url, params={"amount": 5}).status_code == 201
        service.kill()
    engine = create_engine(environment["DATABASE_URL"])
    log = TransactionLog(EngineDatabase(engine))
    with engine.connect() as connection:
        booked = connection.execute(text("SELECT count(*) FROM orders")).scalar_one()
    outcomes = [
        log.outcome(header(half, names.UNIQ_KEY) or "") for half in checkback.halves(booked)
    ]
    assert outcomes == [LocalTransactionState.COMMIT_MESSAGE] * booked
    assert booked >= 3


def _answers(url: str) -> bool:
    try:
        return httpx.post(url, params={"amount": 1}).status_code == 201
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("module", ["fastapi_service", "fastapi_async_service"])
def test_fastapi_service(
    module: str, checkback: Checkback, environment: dict[str, str], tmp_path: Path
) -> None:
    if "async" in module:
        pytest.importorskip("aiosqlite")
        environment["DATABASE_URL"] = environment["DATABASE_URL"].replace(":", "+aiosqlite:", 1)
    log = tmp_path / "service.log"
    command = [sys.executable, "-m", "uvicorn", f"{module}:app", "--port", "0"]
    with log.open("w") as out:
        service = subprocess.Popen(
            command, cwd=EXAMPLES, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        address = eventually(lambda: _address(log), 30)
        answers = [httpx.post(f"{address}/orders", params={"amount": 5}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [201] * 3
    finally:
        service.terminate()
        service.wait(20)
    ids = {answer.json()["transaction_id"] for answer in answers}
    assert ids == {header(op, names.UNIQ_KEY) for op in checkback.ops(3)}


def _address(log: Path) -> str | None:
    marker = "running on "
    for line in log.read_text().splitlines():
        if marker in line:
            return line.split(marker)[1].split()[0]
    return None
