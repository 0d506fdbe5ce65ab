"""The table of metrics, and that everything made of it is as the table says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from checkback.client.observing.counters import ClientEvent
from checkback.deploy.alerts import rule_document
from checkback.metrics.instruments import COUNTED, Instruments
from checkback.metrics.page import page_text
from checkback.metrics.table import (
    CLIENT_EVENTS,
    FINISH_BUCKETS_S,
    PIPELINE,
    RECORD_KINDS,
    RELAY,
    TABLE,
    Kind,
)
from checkback.protocol.refusals import VERDICT_REASONS
from checkback.state import Counter
from checkback.state.formats.outcome import FINISH_BOUNDS_MS

ROOT = Path(__file__).parents[3]
NAMES = {metric.name for metric in TABLE}
SUFFIX = re.compile(r"_(bucket|sum|count)$")
ALERTS = {rule["alert"]: rule for rule in rule_document()["groups"][0]["rules"]}
VERDICT_NAMES = {one.name for one in VERDICT_REASONS}


def names_in(expression: str) -> set[str]:
    return {SUFFIX.sub("", name) for name in re.findall(r"checkback_\w+", expression)}


def test_the_page_is_not_stale() -> None:
    page = (ROOT / "docs" / "operating" / "metrics.md").read_text("utf-8")

    assert page == page_text(), "run python -m checkback.metrics"


def test_each_name_is_there_once_and_says_its_kind() -> None:
    assert len(NAMES) == len(TABLE)
    for metric in TABLE:
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM), metric.name


def test_values_of_labels_are_those_of_the_code() -> None:
    assert set(CLIENT_EVENTS) == {event.value for event in ClientEvent}
    assert set(RECORD_KINDS) <= {counter.name.lower() for counter in Counter}
    assert [bound * 1_000 for bound in FINISH_BUCKETS_S] == list(FINISH_BOUNDS_MS)


def test_the_endpoint_shows_every_metric_of_the_pipeline_with_its_help() -> None:
    text = generate_latest(Instruments().registry).decode()
    shown = {family.name: family for family in text_string_to_metric_families(text)}

    for metric in PIPELINE:
        family = shown[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind.value, metric.help)


def test_the_endpoint_shows_nothing_that_is_not_in_the_table() -> None:
    """Each counter had a second series of when it was made, which no page named."""
    instruments = Instruments()
    instruments.add("checkback_refused_total", reason="NOT_A_HALF")
    text = generate_latest(instruments.registry).decode()
    shown = {
        SUFFIX.sub("", one.name)
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }

    assert shown - NAMES == set()


def test_the_page_has_every_metric_with_its_labels() -> None:
    page = page_text()

    assert all(f"| `{metric.name}` | {metric.kind} | {metric.unit} |" in page for metric in TABLE)
    assert all(f"- `{one.name}` of `{m.name}`" in page for m in TABLE for one in m.labels)


def test_the_dashboard_shows_every_metric_of_the_pipeline_and_of_a_relay() -> None:
    shown = names_in((ROOT / "deploy" / "grafana" / "checkback.json").read_text("utf-8"))

    assert shown == {metric.name for metric in (*PIPELINE, *RELAY)}


def test_alerts_speak_of_metrics_that_exist() -> None:
    for name, alert in ALERTS.items():
        assert names_in(alert["expr"]) <= NAMES, name


def test_the_alert_of_refused_messages_knows_every_refusal_with_a_verdict() -> None:
    [named] = re.findall(r'reason=~"([A-Z_|]+)"', ALERTS["CheckbackMessagesRefused"]["expr"])

    assert set(named.split("|")) == VERDICT_NAMES


@pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)
def test_every_alert_has_a_section_with_what_to_look_at_and_what_to_do(
    alert: dict[str, Any],
) -> None:
    text = (ROOT / "docs" / "operating" / "alerts.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))

    assert sections.keys() == ALERTS.keys()
    section = sections[alert["alert"]]
    assert section.strip().startswith(alert["labels"]["severity"].capitalize() + ".")
    assert "**Look at**" in section
    assert "**Do:**" in section


def test_the_runbooks_name_reasons_that_exist() -> None:
    text = (ROOT / "docs" / "operating" / "alerts.md").read_text("utf-8")
    reasons = {
        value
        for metric in TABLE
        for label in metric.labels
        if label.name == "reason"
        for value in label.values
    }

    others = {"CHECK_IMMUNITY_TIME_IN_SECONDS", "RMQ_SYS_TRANS_DECIDED_TOPIC"}
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", text)) - others
    assert named <= reasons


def test_the_runbook_says_of_every_reason_of_its_alert_what_to_do() -> None:
    text = (ROOT / "docs" / "operating" / "alerts.md").read_text("utf-8")
    section = text.split("## CheckbackMessagesRefused\n", 1)[1].split("\n## ", 1)[0]
    to_do = section.split("**Do:**", 1)[1]

    assert {name for name in VERDICT_NAMES if f"`{name}`" not in to_do} == set()


def test_a_histogram_takes_counts_by_bucket() -> None:
    fill = Instruments()
    counts = [0] * (len(FINISH_BUCKETS_S) + 1)
    counts[1], counts[-1] = 3, 1
    fill.add_counts(COUNTED, counts, 100.5)
    fill.add_counts(COUNTED, counts, 1.0)
    value = fill.registry.get_sample_value

    assert value(f"{COUNTED}_bucket", {"le": "0.5"}) == 0
    assert value(f"{COUNTED}_bucket", {"le": "1.0"}) == 6
    assert value(f"{COUNTED}_bucket", {"le": "86400.0"}) == 6
    assert value(f"{COUNTED}_bucket", {"le": "+Inf"}) == 8
    assert value(f"{COUNTED}_count") == 8
    assert value(f"{COUNTED}_sum") == 101.5


def test_a_watched_gauge_is_looked_up_when_somebody_asks() -> None:
    fill, ages = Instruments(), iter([1.0, 2.0])
    fill.watch("checkback_oldest_pending_age_seconds", lambda: next(ages))

    asked = [fill.registry.get_sample_value("checkback_oldest_pending_age_seconds") for _ in "ab"]
    assert asked == [1.0, 2.0]
