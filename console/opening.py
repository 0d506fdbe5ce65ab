"""Puts a console together: from settings to what the pages use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from checkback.console.access import Access, AccessRules
from checkback.console.actions import all_actions
from checkback.console.audit import Audit, AuditEntry
from checkback.console.history import History
from checkback.console.kafka_facts import KafkaFacts
from checkback.console.ledger_view import LedgerView
from checkback.console.serving import Console
from checkback.console.snapshot import SnapshotReader
from checkback.operations.timestamps import now_ms
from checkback.protocol.configuration import Settings

EVERY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - nothing is bound to them here
"""A pipeline that listens there can be asked on loopback."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where everything that is shown comes from.

    Args:
        ledger: what is pending, None where no ledger is set.
        facts: asks Kafka.
        snapshots: reads snapshots.
    """

    ledger: LedgerView | None
    facts: KafkaFacts
    snapshots: SnapshotReader


def open_sources(
    settings: Settings, metrics_url: str, clock_ms: Callable[[], int] = now_ms
) -> Sources:
    """Return the sources; nothing is read yet.

    Args:
        settings: the pipeline's settings.
        metrics_url: the pipeline's metrics endpoint, "" for that of the settings.
        clock_ms: a clock.

    Raises:
        ConfigurationError, KafkaException: an address or a setting of Kafka's that no broker has to
            be asked about. Later it would only be one more source that does not answer.
    """
    metrics_url = metrics_url or metrics_url_of(settings)
    ledger = LedgerView(settings.ledger) if settings.ledger else None
    facts = KafkaFacts(settings, ledger, clock_ms)
    if settings.bootstrap_servers:
        facts.admin()
    return Sources(ledger, facts, SnapshotReader(settings, ledger, metrics_url, clock_ms))


def metrics_url_of(settings: Settings) -> str:
    """Return where a pipeline of these settings on this machine has its metrics; "" for nowhere."""
    if not settings.metrics_port:
        return ""
    host = settings.metrics_host
    if host in EVERY_ADDRESS:
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.metrics_port}/metrics"


def new_console(
    settings: Settings,
    sources: Sources,
    rules: AccessRules,
    tell: Callable[[AuditEntry], None],
    *,
    is_secure: bool = False,
) -> Console:
    """Return the console.

    Args:
        settings: the pipeline's settings.
        sources: where what it shows comes from.
        rules: what is needed to look and to act.
        tell: takes every entry of the audit.
        is_secure: whether browsers reach it by https.
    """
    return Console(
        settings,
        Access(rules),
        sources.facts,
        sources.ledger,
        History(),
        all_actions(sources.facts),
        Audit(tell),
        sources.facts.now_ms,
        is_secure,
    )
