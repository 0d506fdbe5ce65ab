"""The HTTP endpoint beside the job: /metrics, /healthz, /readyz and, from this machine, /loglevel.

`curl -X PUT -d DEBUG localhost:9404/loglevel/checkback` changes a log level at run time. Only
callers on the loopback address may do that, and no page of a browser: it would have to ask for PUT.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock, Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from checkback.metrics.health import Answer
from checkback.metrics.log_lines import LEVELS

LOG_LEVEL: Final = "/loglevel/"
LEVEL_BYTES_MAX: Final = 16
CONNECTIONS_MAX: Final = 32
SILENT_S_MAX: Final = 10
"""A client that says nothing for this long is left."""

Respond = Callable[..., Any]
Body = Iterable[bytes]
SetLevel = Callable[[str], None]


class _Handler(WSGIRequestHandler):
    timeout = SILENT_S_MAX

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its base's signature
        """Log no request: probes come every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each connection in a thread of its own, and has a bounded number of connections.

    A connection too many takes the place of the oldest: probes are answered at once, so the oldest
    is that of somebody who asks for nothing. Without a bound the driver would run out of threads
    and files, which it needs for Kafka and Spark.
    """

    daemon_threads = True
    # With the five of socketserver a probe beside many others is lost, and tried again a second
    # later.
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[socket.socket, None] = {}
        self._opening = Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        oldest = None
        with self._opening:
            self._open[request] = None
            if len(self._open) > CONNECTIONS_MAX:
                oldest = next(iter(self._open))
                del self._open[oldest]
        if oldest is not None:
            with suppress(OSError):  # gone already
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._opening:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: clients that hang up early would fill the log."""

    def server_bind(self) -> None:
        # HTTPServer would look the host's name up, which takes seconds where no DNS answers.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What is answered, as a WSGI application.

    Args:
        alive: tells whether the process does not hang.
        ready: tells whether it does its work.
    """

    registry: CollectorRegistry
    alive: Callable[[], Answer]
    ready: Callable[[], Answer]
    levels: Mapping[str, SetLevel]

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Body:
        """Answer one request."""
        path, method = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"]
        if path.startswith(LOG_LEVEL) and method == "PUT":
            return self._set_level(path.removeprefix(LOG_LEVEL), environ, respond)
        if method not in ("GET", "HEAD"):
            return _say(respond, "405 Method Not Allowed", "GET only")
        if path == "/metrics":
            answered: Body = make_wsgi_app(self.registry)(environ, respond)
            return answered
        if path == "/healthz":
            return _tell(respond, self.alive())
        if path == "/readyz":
            return _tell(respond, self.ready())
        return _say(
            respond, "404 Not Found", "/metrics, /healthz, /readyz, PUT /loglevel/checkback"
        )

    def _set_level(self, name: str, environ: dict[str, Any], respond: Respond) -> Body:
        if not _is_local(environ.get("REMOTE_ADDR", ""), environ.get("HTTP_HOST", "")):
            return _say(respond, "403 Forbidden", "from this machine only, by its loopback address")
        if name not in self.levels:
            return _say(respond, "404 Not Found", f"loggers: {', '.join(sorted(self.levels))}")
        length = environ.get("CONTENT_LENGTH") or "0"
        size = min(int(length), LEVEL_BYTES_MAX) if length.isdecimal() else 0
        level = environ["wsgi.input"].read(size).decode("ascii", "replace").strip().upper()
        if level not in LEVELS:
            return _say(respond, "400 Bad Request", f"levels: {', '.join(LEVELS)}")
        self.levels[name](level)
        return _say(respond, "200 OK", f"{name} logs {level}")


class MetricsServer:
    """The endpoint, answered by threads of its own.

    Raises:
        OSError: the port is taken, or the address is not this machine's.
    """

    def __init__(self, host: str, port: int, endpoint: Endpoint) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        kind = type("_ServerOfFamily", (_Server,), {"address_family": family})
        self._server: WSGIServer = kind((host, port), _Handler)
        self._server.set_app(endpoint)
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        self.url = f"http://{shown}:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _tell(respond: Respond, answer: Answer) -> Body:
    return _say(respond, "200 OK" if answer.is_well else "503 Service Unavailable", answer.says)


def _say(respond: Respond, status: str, text: str) -> Body:
    respond(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]


def _is_local(peer: str, host: str) -> bool:
    """Tell whether a caller on this machine asked for it by its address.

    A name other than localhost might be one that a page in a browser had pointed here.
    """
    name = host.rsplit(":", 1)[0].strip("[]")
    return is_loopback(peer) and is_loopback(name)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
