"""Live figures from the pipeline's metrics endpoint, in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Final
from urllib.error import URLError
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from checkback.protocol.errors import PrerequisiteError

TIMEOUT_S: Final = 2.0
ANSWER_BYTES_MAX: Final = 8_000_000

Samples = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]
"""By name, by labels: the value."""


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """One reading of the endpoint.

    Args:
        samples: every value that it had; a job that has not read its checkpoint yet serves NaN for
            what the state holds, and NaN is no value.
    """

    samples: Samples = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> LiveFigures:
        """Return the figures in a text of Prometheus' format.

        Raises:
            ValueError: it is something else.
        """
        samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                if math.isnan(one.value):
                    continue
                labels = tuple(sorted(one.labels.items()))
                samples.setdefault(one.name, {})[labels] = one.value
        return cls(samples)

    def value(self, name: str) -> float | None:
        """Return the sum of a metric over its labels, None if it is not there."""
        found = self.samples.get(name)
        return None if not found else sum(found.values())

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Return the values of a metric by one of its labels."""
        values: dict[str, float] = {}
        for labels, value in self.samples.get(name, {}).items():
            key = dict(labels).get(label, "")
            values[key] = values.get(key, 0.0) + value
        return values

    def mean(self, name: str) -> tuple[float, float] | None:
        """Return sum and count of a histogram or summary, None if it is not there."""
        total, count = self.value(f"{name}_sum"), self.value(f"{name}_count")
        return None if total is None or count is None else (total, count)


def read_figures(url: str) -> LiveFigures:
    """Read the endpoint.

    Raises:
        PrerequisiteError: nothing answers there, or something else than metrics.
    """
    try:
        return LiveFigures.parse(_answer(url))
    except (URLError, HTTPException, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise PrerequisiteError(
            f"No metrics came from {url}: {why}.",
            remedy="Check that the pipeline runs, and --metrics-url.",
            url=url,
        ) from error


def _answer(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("the address has to begin with http:// or https://")
    with urlopen(Request(url), timeout=TIMEOUT_S) as answer:  # noqa: S310 - checked above
        text: str = answer.read(ANSWER_BYTES_MAX).decode()
    return text
