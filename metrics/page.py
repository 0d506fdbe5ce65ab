"""The page docs/operating/metrics.md, made of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from checkback.metrics.table import PIPELINE, RELAY, TABLE, Metric

HEAD: Final = (
    "# Metrics\n\n"
    "`metrics_port` makes the driver serve them at `/metrics`; [monitoring.md](monitoring.md) says"
    " how. `python -m checkback.metrics` makes this page from the table in `metrics/table.py`."
    " `deploy/grafana/checkback.json` is a dashboard with a panel for each metric of the pipeline;"
    " [alerts.md](alerts.md) says what to do about each alert of"
    " `deploy/prometheus/checkback.rules.yml`.\n\n"
    "Counters begin at 0 with every start of the job, which Prometheus' `rate` and `increase` allow"
    " for. Gauges of what the state holds are `NaN` until a start has read the checkpoint, the lag"
    " until it has run a batch. No label"
    " holds a key, an id or the name of one of your topics.\n"
)
OF_PIPELINE: Final = "The pipeline"
OF_RELAY: Final = "A relay"
RELAY_HEAD: Final = """
`checkback relay` has an endpoint of its own, with its own `metrics_port`.
"""
OF_CLIENT: Final = "An application's producer"
CLIENT_HEAD: Final = """
`checkback.client.prometheus.expose(producer)` puts them into prometheus-client's registry.
"""


def page_text() -> str:
    """Return the whole page."""
    client = [metric for metric in TABLE if metric.of_client]
    parts = [HEAD, f"## {OF_PIPELINE}\n", *_table(PIPELINE), f"## {OF_RELAY}", RELAY_HEAD]
    parts += [*_table(RELAY), f"## {OF_CLIENT}", CLIENT_HEAD]
    parts += [*_table(client), "## Labels\n", *_label_lines()]
    return "\n".join(parts) + "\n"


def _table(metrics: Sequence[Metric]) -> Iterator[str]:
    yield "| metric | kind | unit | labels | what it is |"
    yield "|---|---|---|---|---|"
    for metric in metrics:
        labels = ", ".join(f"`{label.name}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |"
    yield ""


def _label_lines() -> Iterator[str]:
    for metric in TABLE:
        for label in metric.labels:
            values = ", ".join(f"`{value}`" for value in label.values) or label.bound
            yield f"- `{label.name}` of `{metric.name}`: {values}."
