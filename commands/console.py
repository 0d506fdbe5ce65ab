"""``checkback console``: show and decide transactions in a browser."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from checkback.commands.shared.output import CommandOutput, output_option
from checkback.commands.shared.settings import settings_options
from checkback.metrics.log_lines import LOGGER, write_log_lines
from checkback.metrics.printable import printable
from checkback.metrics.server import is_loopback
from checkback.operations.transactions.timestamps import time_text
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError, PrerequisiteError

if TYPE_CHECKING:
    from checkback.console.access import AccessRules
    from checkback.console.audit import AuditEntry

TOKENS_VARIABLE: Final = "CHECKBACK_CONSOLE_TOKENS"
PROXY_SECRET_VARIABLE: Final = "CHECKBACK_CONSOLE_PROXY_SECRET"  # noqa: S105 - a name
END_S: Final = 2


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8_484, show_default=True)
@click.option(
    "--hostname",
    "hostnames",
    multiple=True,
    help="Name under which browsers reach it; can be repeated. Others are refused.",
)
@click.option(
    "--tokens",
    "tokens_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"File with one operator per line: name, token; or the same text in {TOKENS_VARIABLE}.",
)
@click.option(
    "--proxy-header", default="", help="Header in which a reverse proxy names the operator."
)
@click.option(
    "--proxy-secret",
    "proxy_secret_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the secret that the proxy sends as X-Checkback-Proxy-Secret; or the secret in"
    f" {PROXY_SECRET_VARIABLE}.",
)
@click.option(
    "--anybody-reads/--sign-in-to-read",
    default=None,
    help="Show pages to those who have not signed in.  [default: only on a loopback address]",
)
@click.option(
    "--bodies",
    type=click.Choice(["nobody", "operators", "everybody"]),
    default="operators",
    show_default=True,
    help="Who sees keys, properties and bodies.",
)
@click.option("--https", is_flag=True, help="Browsers reach it by https, through a proxy.")
@click.option(
    "--metrics-url",
    default="",
    envvar="CHECKBACK_METRICS_URL",
    help="The pipeline's metrics endpoint, for example http://localhost:9404/metrics. Default:"
    " where the settings or the pipeline itself say.",
)
@output_option
@settings_options
def command(
    settings: Settings,
    output: CommandOutput,
    host: str,
    port: int,
    hostnames: tuple[str, ...],
    metrics_url: str,
    *,
    https: bool,
    **rules: Any,
) -> None:
    """Serve web pages about the pipeline until Ctrl-C or SIGTERM; needs no Spark.

    Without tokens and without a proxy's header the pages are read only.
    """
    import uvicorn

    from checkback.console.access import Access
    from checkback.console.app import new_application
    from checkback.console.audit import Audit
    from checkback.console.context import Console
    from checkback.console.facts import KafkaFacts
    from checkback.console.overview import SnapshotReader, sampling

    chosen = access_rules(host, **rules)
    facts = KafkaFacts.open(settings)

    def tell(entry: AuditEntry) -> None:
        output.line(entry.as_data(), audit_text(entry))

    console = Console(facts, Access(chosen), Audit(tell), is_secure=https)
    sampler = sampling(SnapshotReader(facts, metrics_url), console.history)
    names = allowed_hosts(host, hostnames, chosen)
    write_log_lines(settings.log_format, settings.log_level, loggers=(LOGGER, "uvicorn"))
    server = uvicorn.Server(
        uvicorn.Config(
            new_application(console, sampler, names), host, port, log_config=None,
            # Who asks is the address of the connection; a header could say anything.
            access_log=False, proxy_headers=False, server_header=False,
            timeout_graceful_shutdown=END_S,
        )
    )  # fmt: skip
    _serve(server, output, host, chosen)


def _serve(server: Any, output: CommandOutput, host: str, chosen: AccessRules) -> None:
    """Run the server on a socket that is bound already, so that its port is known."""
    bound = _bound(host, server.config.port)
    port = bound.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    url, acts = f"http://{shown}:{port}", bool(chosen.tokens or chosen.proxy_header)
    kind = "operators may sign in" if acts else "read only"
    output.line(
        {"event": "started", "url": url, "port": port, "operators": acts},
        f"The console is at {url} ({kind}). Ctrl-C ends it.",
    )
    # At its end the server sends itself the signal again, for the handler that was set before.
    signal.signal(signal.SIGTERM, lambda *_: None)
    server.run(sockets=[bound])


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; the server's own way to one prints an error and exits.

    Raises:
        PrerequisiteError: the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise PrerequisiteError(
            f"The console can't listen on {host} at port {port}: {error.strerror or error}.",
            remedy="Name another --port (0 takes a free one), or an address of this machine "
            "with --host.",
        ) from error


def access_rules(
    host: str,
    *,
    tokens_file: Path | None,
    proxy_header: str,
    proxy_secret_file: Path | None,
    anybody_reads: bool | None,
    bodies: str,
) -> AccessRules:
    """Return what is needed to look and to act.

    Raises:
        ConfigurationError: a file is wrong, a proxy has no secret, or strangers on the network
            would read.
    """
    from checkback.console.access import AccessRules, parse_tokens, read_tokens

    tokens = {} if tokens_file is None else read_tokens(tokens_file)
    tokens |= parse_tokens(os.environ.get(TOKENS_VARIABLE, "").splitlines(), TOKENS_VARIABLE)
    reads = is_loopback(host) if anybody_reads is None else anybody_reads
    if not reads and not tokens and not proxy_header:
        raise ConfigurationError(
            f"The console on {host} would have no readers: it has no tokens and no proxy's header.",
            remedy="Give --tokens or --proxy-header; --anybody-reads shows it to the network.",
        )
    secret = _proxy_secret(proxy_secret_file) if proxy_header else ""
    return AccessRules(tokens, proxy_header, secret, reads, bodies)


def _proxy_secret(file: Path | None) -> str:
    from checkback.console.access import proxy_secret_digest, read_proxy_secret

    if file is not None:
        return read_proxy_secret(file)
    if PROXY_SECRET_VARIABLE in os.environ:
        return proxy_secret_digest(os.environ[PROXY_SECRET_VARIABLE], PROXY_SECRET_VARIABLE)
    raise ConfigurationError(
        "--proxy-header needs a secret that only the proxy knows: others could send the header.",
        remedy="Give --proxy-secret, and have the proxy send it as X-Checkback-Proxy-Secret.",
    )


def allowed_hosts(host: str, hostnames: tuple[str, ...], rules: AccessRules) -> list[str]:
    """Return the names that a request may be for.

    A page of another site can make its own name lead to this machine. Where anybody reads, the
    browser would show it what the console says; where a header signs in, it could send one.
    """
    if hostnames:
        return [*hostnames, "localhost", "127.0.0.1"]
    is_listed = rules.anybody_reads or rules.proxy_header or is_loopback(host)
    return ["localhost", "127.0.0.1", "[", host] if is_listed else ["*"]


def audit_text(entry: AuditEntry) -> str:
    """Return an entry of the audit as one line."""
    cells = (
        time_text(entry.time_ms), entry.operator or "-", entry.action, entry.choice, entry.target,
        entry.result, entry.says, entry.reason,
    )  # fmt: skip
    return printable("  ".join(filter(None, cells)))
