"""The Grafana dashboard, made from the table: one panel per metric of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from checkback.metrics.table import Kind, Metric, metric_of

SCHEMA_VERSION: Final = 39
COLUMNS: Final = 24
PANEL_WIDTH: Final = 8
PANEL_HEIGHT: Final = 8
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
OWN: Final = '{job=~"$job"}'
QUANTILES: Final = (0.5, 0.99)
OPTIONS: Final = {
    "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
    # All reasons or topics at once, the largest first.
    "tooltip": {"mode": "multi", "sort": "desc"},
}
UNITS: Final = {"seconds": "s", "bytes": "bytes"}
"""Grafana's names for units; other units are plain numbers."""

ROWS: Final[dict[str, dict[str, str]]] = {
    "Does it work": {
        "checkback_ready": "Ready",
        "checkback_oldest_pending_age_seconds": "Oldest pending half",
        "checkback_groups_without_members": "Groups without a live member",
        "checkback_refused_total": "Refused",
        "checkback_lag_records": "Lag",
        "checkback_oldest_unread_age_seconds": "Oldest unread record",
        "checkback_unread_still_seconds": "Nothing read for",
        "checkback_stalled_partitions": "Partitions that stand still",
        "checkback_stall_seconds": "Longest stall",
        "checkback_short_topics": "Topics without enough replicas",
        "checkback_discarded_total": "Discarded",
        "checkback_access_rules_broken": "Access rules broken",
    },
    "Transactions": {
        "checkback_half_messages": "Pending",
        "checkback_commit_messages_total": "Commits",
        "checkback_rollback_messages_total": "Rollbacks",
        "checkback_final_messages_total": "Final messages",
        "checkback_finish_message_latency": "From half to verdict",
        "checkback_checks_total": "Check requests",
        "checkback_check_backlog": "Checks that wait for their turn",
        "checkback_pending_bound_seconds": "Age at which checks are used up",
        "checkback_records_read_total": "Records read",
    },
    "Delivered before the pipeline": {
        "checkback_delivered_messages_total": "Delivered before the pipeline",
        "checkback_delivered_refused_total": "Delivered against another verdict",
    },
    "Batches and state": {
        "checkback_batch_stage_seconds": "Stages of the last batch",
        "checkback_batch_write_seconds": "Time of a batch",
        "checkback_batches_total": "Batches",
        "checkback_last_batch_timestamp_seconds": "Time since the last batch",
        "checkback_state_rows": "Rows of the state",
        "checkback_state_bytes": "Size of the state",
        "checkback_native_fallbacks_total": "Batches without the compiled sink",
        "checkback_build_info": "Version",
    },
}
"""Titles of the panels by metric, in rows."""


def dashboard_document() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "checkback",
        "title": "Checkback",
        "tags": ["checkback", "kafka"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    yield {
        "name": "job",
        "label": "Job",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": "label_values(checkback_build_info, job)", "refId": "job"},
        "includeAll": True,
        "multi": True,
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 1, 0
    for title, metrics in ROWS.items():
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        row = {"type": "row", "title": title, "collapsed": False, "panels": []}
        yield {"id": number, **row, "gridPos": place}
        number, y = number + 1, y + 1
        for index, (name, panel_title) in enumerate(metrics.items()):
            x = index * PANEL_WIDTH % COLUMNS
            place = {"h": PANEL_HEIGHT, "w": PANEL_WIDTH, "x": x, "y": y}
            yield {"id": number, **_panel(metric_of(name), panel_title), "gridPos": place}
            number += 1
            if x + PANEL_WIDTH == COLUMNS or index == len(metrics) - 1:
                y += PANEL_HEIGHT


def _panel(metric: Metric, title: str) -> dict[str, Any]:
    is_rate = metric.kind is Kind.COUNTER
    return {
        "type": "timeseries",
        "title": f"{title} per second" if is_rate else title,
        "description": metric.help,
        "datasource": SOURCE,
        "fieldConfig": {
            "defaults": {"unit": _unit(metric), "min": 0},
            "overrides": [],
        },
        "options": OPTIONS,
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(_queries(metric))
        ],
    }


def _queries(metric: Metric) -> Iterator[tuple[str, str]]:
    legend = " ".join(f"{{{{{label.name}}}}}" for label in metric.labels) or "{{instance}}"
    by = ", ".join(["instance", *(label.name for label in metric.labels)])
    if metric.kind is Kind.HISTOGRAM:
        buckets = _rate(f"{metric.name}_bucket")
        for quantile in QUANTILES:
            expression = f"histogram_quantile({quantile}, sum by (instance, le) ({buckets}))"
            yield expression, f"{quantile:.0%}"
    elif metric.kind is Kind.COUNTER:
        expression = f"sum by ({by}) ({_rate(metric.name)})"
        # Most of the reasons never happen.
        yield (f"{expression} > 0" if metric.labels else expression), legend
    elif metric.name.endswith("_timestamp_seconds"):
        yield f"time() - {metric.name}{OWN}", legend
    else:
        yield f"{metric.name}{OWN}", legend


def _rate(series: str) -> str:
    return f"rate({series}{OWN}[$__rate_interval])"


def _unit(metric: Metric) -> str:
    if metric.kind is Kind.COUNTER:
        return "ops"
    return UNITS.get(metric.unit.removesuffix(" since 1970"), "short")
