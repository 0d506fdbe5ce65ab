"""Computes the number of cores and of state partitions from the settings."""

from __future__ import annotations

import os

from checkback.protocol.configuration import Settings, local_master


def state_partitions(settings: Settings) -> int:
    """Return the number of state partitions: the setting, else the cores of a local master."""
    return settings.state_partitions_on(os.cpu_count() or 1)


def executor_cores(settings: Settings) -> int | None:
    """Return how many cores an executor has; None where only the executor's host can tell."""
    local = local_master(settings.master)
    if local is not None:
        return local.threads
    chosen = {spark_key(key): value for key, value in settings.spark.items()}
    if "spark.executor.cores" in chosen:
        return int(chosen["spark.executor.cores"])
    # Spark's own default there; a standalone cluster gives an executor all cores of its worker.
    return 1 if settings.master.startswith(("yarn", "k8s")) else None


def spark_key(key: str) -> str:
    """Return a key of the `spark.*` settings in full."""
    return key if key.startswith("spark.") else f"spark.{key}"
