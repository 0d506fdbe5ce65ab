"""A real Prometheus with our rules, in which a minute of waiting takes a second or less."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx
import pytest

from checkback.deploy.alerts import rule_document
from checkback.deploy.broker import free_ports

NEEDS_PROMETHEUS = pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="prometheus is missing; `make programs` fetches it from Debian's package",
)
WINDOW = re.compile(r"\[(\d+)m\]")


def quick_rules(minute_ms: int) -> str:
    """Return our rules with windows of seconds for minutes, and waits that are as short as asked.

    Args:
        minute_ms: how long a minute of `for` lasts.
    """
    document = rule_document()
    for rule in document["groups"][0]["rules"]:
        rule["expr"] = WINDOW.sub(r"[\1s]", rule["expr"])
        rule["for"] = f"{minute_ms * int(rule['for'].removesuffix('m'))}ms"
    return json.dumps(document)


class Prometheus:
    """A real Prometheus that reads the job's metrics with our rules."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, query: str) -> dict[str, float]:
        """Return the values of a query, by the value of its first label besides Prometheus' own."""
        given = urllib.parse.urlencode({"query": query})
        code, answer = fetch(f"{self.url}/api/v1/query?{given}")
        if code != 200:
            return {}  # it starts, or a busy machine let it wait for too long
        found = json.loads(answer)["data"]["result"]
        own = {"__name__", "instance", "job"}
        return {
            next((text for name, text in one["metric"].items() if name not in own), ""): float(
                one["value"][1]
            )
            for one in found
        }

    def last(self, name: str) -> dict[str, float]:
        """Return what a metric said last, also where the look after it did not come in time."""
        return self.ask(f"last_over_time({name}[15m])")

    def firing(self, where: str = "") -> set[str]:
        """Return the names of the alerts that fire now.

        Args:
            where: what their labels have to say, as PromQL.
        """
        return set(self.ask(f'ALERTS{{alertstate="firing",{where}}}'))

    def fired(self) -> set[str]:
        """Return the names of the alerts that fired at any time."""
        return set(self.ask('max by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))'))

    def get(self, name: str) -> float:
        """Return the one value that a metric had last, 0 where there is none."""
        return next(iter(self.last(name).values()), 0.0)


@contextmanager
def prometheus(
    folder: Path, targets: Sequence[str], minute_ms: int = 1_000
) -> Iterator[Prometheus]:
    config, rules = folder / "prometheus.yml", folder / "quick.rules.yml"
    rules.write_text(quick_rules(minute_ms), "utf-8")
    document = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "250ms"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {"job_name": "checkback", "static_configs": [{"targets": list(targets)}]}
        ],
    }
    config.write_text(json.dumps(document), "utf-8")
    (port,) = free_ports(1)
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(30)


@cache
def client() -> httpx.Client:
    """Return what asks: one of one's own for each look reads the certificates each time (27 ms).

    It keeps no connection: the next server at an address would not know it.
    """
    return httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))


def fetch(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
    try:
        answer = client().request(method, url, content=body)
    except httpx.TransportError as error:
        return 0, str(error)
    return answer.status_code, answer.text
