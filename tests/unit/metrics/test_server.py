"""The endpoint over real HTTP."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from checkback.metrics.health import Health
from checkback.metrics.instruments import Instruments
from checkback.metrics.server import CONNECTIONS_MAX, Endpoint, MetricsServer
from checkback.testing.waiting import wait_until


@dataclass
class Served:
    server: MetricsServer
    health: Health
    instruments: Instruments
    levels: list[tuple[str, str]] = field(default_factory=list)

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, host: str = ""
    ) -> tuple[int, str]:
        address = urlsplit(self.server.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        try:
            connection.request(method, path, body, {"Host": host} if host else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture(params=["127.0.0.1", "::1"], scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    health, instruments = Health(60.0, lambda: ""), Instruments()
    levels: list[tuple[str, str]] = []
    setters = {"checkback": lambda level: levels.append(("checkback", level))}
    try:
        server = MetricsServer(
            request.param, 0, Endpoint(instruments.registry, health.alive, health.ready, setters)
        )
    except OSError:
        pytest.skip(f"this machine has no {request.param}")
    yield Served(server, health, instruments, levels)
    server.close()


@pytest.fixture
def served(server: Served) -> Served:
    server.levels.clear()
    return server


def test_metrics_are_served(served: Served) -> None:
    served.instruments.add("checkback_refused_total", 3, reason="HALF_LOST")
    status, text = served.ask("/metrics")

    assert status == 200
    assert 'checkback_refused_total{reason="HALF_LOST"} 3.0' in text
    assert 'checkback_refused_total{reason="NOT_A_HALF"} 0.0' in text


def test_probes_are_answered(served: Served) -> None:
    assert served.ask("/healthz") == (200, "alive\n")
    assert served.ask("/readyz") == (503, "the job starts\n")
    served.health.started()
    assert served.ask("/readyz")[0] == 200


def test_clients_that_say_nothing_take_no_place_from_probes(served: Served) -> None:
    address = urlsplit(served.server.url)
    place = (str(address.hostname), address.port or 0)
    before = threading.active_count()
    with ExitStack() as opened:
        silent = [
            opened.enter_context(socket.create_connection(place, 10))
            for _ in range(3 * CONNECTIONS_MAX)
        ]

        assert served.ask("/healthz") == (200, "alive\n")
        assert silent[0].recv(1) == b""
        # The thread of a connection that was left ends once it sees that.
        wait_until(lambda: threading.active_count() <= before + CONNECTIONS_MAX, 60, "few threads")
        silent[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.0 200"


def test_a_log_level_is_set_by_put(served: Served) -> None:
    assert served.ask("/loglevel/checkback", "PUT", "debug")[0] == 200
    assert served.levels == [("checkback", "DEBUG")]


@pytest.mark.parametrize(
    ("path", "method", "body", "status"),
    [
        ("/loglevel/checkback", "PUT", "LOUD", 400),
        ("/loglevel/checkback", "PUT", "", 400),
        ("/loglevel/checkback", "PUT", "D" * 10_000, 400),
        ("/loglevel/other", "PUT", "DEBUG", 404),
        ("/loglevel/checkback", "GET", None, 404),
        ("/loglevel/checkback", "POST", "DEBUG", 405),
        ("/metrics", "DELETE", None, 405),
        ("/", "GET", None, 404),
    ],
)
def test_what_makes_no_sense_is_refused(
    served: Served, path: str, method: str, body: str | None, status: int
) -> None:
    assert served.ask(path, method, body)[0] == status
    assert served.levels == []


def test_a_name_that_points_here_may_not_set_levels(served: Served) -> None:
    """A page in a browser on this machine could have its own name point to the loopback address."""
    assert served.ask("/loglevel/checkback", "PUT", "DEBUG", "evil.example:80")[0] == 403
    assert served.levels == []


def test_another_machine_may_not_set_levels() -> None:
    said: list[str] = []
    health = Health(1.0, lambda: "")
    endpoint = Endpoint(
        Instruments().registry, health.alive, health.ready, {"checkback": said.append}
    )
    request = {
        "PATH_INFO": "/loglevel/checkback",
        "REQUEST_METHOD": "PUT",
        "REMOTE_ADDR": "10.0.0.7",
        "HTTP_HOST": "127.0.0.1:9464",
    }
    statuses: list[str] = []
    list(endpoint(request, lambda status, _: statuses.append(status)))

    assert statuses == ["403 Forbidden"]
    assert said == []
