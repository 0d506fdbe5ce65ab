"""The available verbs of ``checkback bench``."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from checkback.bench.latency import LatencyBench, LatencyOptions
from checkback.bench.options import REPOSITORY, Verb, is_checkout
from checkback.bench.pending_backlog import PendingBench, PendingOptions
from checkback.bench.pipeline import PipelineBench, PipelineOptions
from checkback.bench.storm import StormBench, StormOptions

USUAL_VERBS: Final = (
    Verb("pipeline", PipelineOptions, PipelineBench),
    Verb("latency", LatencyOptions, LatencyBench),
    Verb("pending", PendingOptions, PendingBench),
    Verb("storm", StormOptions, StormBench),
)


def all_verbs() -> tuple[Verb, ...]:
    """Return the usual verbs, and in a checkout also those of the repository."""
    if not is_checkout():
        return USUAL_VERBS
    more: tuple[Verb, ...] = import_module(f"{REPOSITORY}.verbs").VERBS
    return USUAL_VERBS + more
