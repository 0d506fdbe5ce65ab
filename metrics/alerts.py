"""The alerts: what wakes people, and the page that says what to do then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from checkback.protocol.refusals import VERDICT_REASONS, RefusedReason

RUNBOOK: Final = "`checkback docs alerts`, section {section}"
"""Where to read on without knowing an address of the documents: the package brings them."""
VERDICT_NAMES: Final = "|".join(one.name for one in RefusedReason if one in VERDICT_REASONS)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Args:
        name: its name, and the heading of its section in docs/operating/alerts.md.
        expression: PromQL; it fires for each series that comes out.
        lasting: how long it must hold.
        severity: page wakes somebody, ticket waits for the day.
        summary: one sentence, with Prometheus' templates.
    """

    name: str
    expression: str
    lasting: str
    severity: Literal["page", "ticket"]
    summary: str


ALERTS: Final = (
    Alert(
        "CheckbackDown",
        'up{job="checkback"} == 0 or absent(up{job="checkback"})',
        "2m",
        "page",
        "The pipeline's metrics can't be read: the job is down.",
    ),
    Alert(
        "CheckbackNotReady",
        "checkback_ready == 0",
        "5m",
        "page",
        "The job runs and writes no batches, reads nothing, or can't reach the brokers.",
    ),
    Alert(
        "CheckbackOldestPending",
        "checkback_oldest_pending_age_seconds > 0.5 * checkback_pending_bound_seconds",
        "1m",
        "page",
        "A half message is pending for {{ $value | humanizeDuration }}; half of its checks are"
        " used up.",
    ),
    Alert(
        "CheckbackNoLiveMember",
        "checkback_groups_without_members > 0",
        "5m",
        "page",
        "Nobody answers the checks of {{ $value }} producer groups.",
    ),
    Alert(
        "CheckbackMessagesRefused",
        f'increase(checkback_refused_total{{reason=~"{VERDICT_NAMES}"}}[15m]) > 0',
        "0m",
        "page",
        "Committed messages do not reach their topic: {{ $labels.reason }}.",
    ),
    Alert(
        "CheckbackDeliveredRefused",
        "increase(checkback_delivered_refused_total[15m]) > 0",
        "0m",
        "page",
        "A delivered message had another verdict: it may be there twice.",
    ),
    Alert(
        "CheckbackRefusedRate",
        "sum without (reason) (rate(checkback_refused_total[5m]))"
        " > 0.01 * sum without (kind) (rate(checkback_records_read_total[5m]))",
        "5m",
        "ticket",
        "More than one in a hundred records is refused.",
    ),
    Alert(
        "CheckbackLag",
        "sum without (topic) (checkback_lag_records)"
        " > 300 * sum without (kind) (rate(checkback_records_read_total[5m]))",
        "10m",
        "ticket",
        "{{ $value | humanize }} records wait, more than the pipeline reads in five minutes.",
    ),
    Alert(
        "CheckbackUnread",
        "checkback_unread_still_seconds > 120",
        "0m",
        "page",
        "Records wait on the {{ $labels.topic }} topic, and none was read for"
        " {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "CheckbackPartitionStalled",
        "checkback_stall_seconds > 60",
        "0m",
        "page",
        "A Kafka transaction that producer {{ $labels.producer_id }} left open has held up"
        " partition {{ $labels.partition }} of the {{ $labels.topic }} topic for"
        " {{ $value | humanizeDuration }}. End that producer, or abort its transaction:"
        " `checkback doctor` prints the command.",
    ),
    Alert(
        "CheckbackDiscarded",
        "increase(checkback_discarded_total[15m]) > 0",
        "0m",
        "ticket",
        "Half messages were given up: {{ $labels.reason }}.",
    ),
    Alert(
        "CheckbackAccessRulesBroken",
        "checkback_access_rules_broken > 0",
        "1m",
        "ticket",
        "The file of access rules has mistakes; the rules before it stay in force.",
    ),
    Alert(
        "CheckbackSlowSink",
        "rate(checkback_native_fallbacks_total[10m]) > 0.5 * rate(checkback_batches_total[10m])",
        "30m",
        "ticket",
        "The sink works without its compiled part, which takes twice the processor time.",
    ),
)


def rule_document(runbooks: str = "") -> dict[str, Any]:
    """Return the rules as Prometheus reads them."""
    return {"groups": [{"name": "checkback", "rules": [_rule(one, runbooks) for one in ALERTS]}]}


def rule_text(runbooks: str = "") -> str:
    """Return the file of the rules."""
    import yaml  # only who makes the file needs it

    return yaml.safe_dump(rule_document(runbooks), sort_keys=False, width=1_000)


def _rule(alert: Alert, runbooks: str) -> dict[str, Any]:
    # A link goes from a pager or a chat: only a whole address leads anywhere from there.
    link = {"runbook_url": f"{runbooks}#{alert.name.lower()}"} if runbooks else {}
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "runbook": RUNBOOK.format(section=alert.name),
            **link,
        },
    }
