"""The option that names the pipeline's metrics endpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def metrics_url_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--metrics-url``."""
    return click.option(
        "--metrics-url",
        default="",
        envvar="CHECKBACK_METRICS_URL",
        help="The pipeline's metrics endpoint, for example http://localhost:9404/metrics. Default:"
        " where the settings metrics_host and metrics_port say.",
    )(function)
