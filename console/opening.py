"""Puts a console together: from settings to what the pages use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkback.console.access import Access, AccessRules
from checkback.console.actions import all_actions
from checkback.console.audit import Audit, AuditEntry
from checkback.console.history import History
from checkback.console.kafka_facts import KafkaFacts
from checkback.console.pending_view import PendingView
from checkback.console.serving import Console
from checkback.console.snapshot import SnapshotReader
from checkback.operations.timestamps import now_ms
from checkback.protocol.configuration import Settings


@dataclass(frozen=True, slots=True)
class Sources:
    """Where everything that is shown comes from.

    Args:
        pending: what is pending, by the checkpoint.
        facts: asks Kafka.
        snapshots: reads snapshots.
    """

    pending: PendingView
    facts: KafkaFacts
    snapshots: SnapshotReader


def open_sources(
    settings: Settings, metrics_url: str, clock_ms: Callable[[], int] = now_ms
) -> Sources:
    """Return the sources; nothing is read yet.

    Args:
        settings: the pipeline's settings.
        metrics_url: the pipeline's metrics endpoint, "" for the one that it announces.
        clock_ms: a clock.

    Raises:
        ConfigurationError, KafkaException: an address or a setting of Kafka's that no broker has to
            be asked about. Later it would only be one more source that does not answer.
    """
    pending = PendingView(settings)
    facts = KafkaFacts(settings, pending, clock_ms)
    if settings.bootstrap_servers:
        facts.admin()
    return Sources(pending, facts, SnapshotReader(settings, pending, metrics_url, clock_ms))


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
        sources.pending,
        History(),
        all_actions(sources.facts),
        Audit(tell),
        sources.facts.now_ms,
        is_secure,
    )
