"""The machine and the versions, recorded with every result."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from checkback.deploy.jars import jar_paths
from checkback.deploy.java import find_java, java_version

PACKAGES: Final = (
    "checkback", "pyspark", "deltalake", "confluent-kafka", "kafka-python", "pyarrow", "numpy",
    "pandas",
)  # fmt: skip


def machine_facts() -> dict[str, object]:
    """Return facts about the machine and its load; unknown facts are left out."""
    memory = _first(Path("/proc/meminfo"), r"MemTotal:\s+(\d+) kB")
    facts: dict[str, object] = {
        "cores": os.cpu_count(),
        "cpu": _first(Path("/proc/cpuinfo"), r"model name\s*: (.+)"),
        "memory_mib": int(memory) // 1_024 if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "load_average": [round(one, 2) for one in os.getloadavg()],
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def versions() -> dict[str, str]:
    """Return the versions of the software; the embedded broker's is that of its jar."""
    found = {"python": platform.python_version(), "java": str(java_version(find_java()))}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    for jar in jar_paths("kafka"):
        if match := re.fullmatch(r"kafka_2\.\d+-(.+)\.jar", jar.name):
            found["kafka broker"] = match[1]
    return found


def _first(file: Path, pattern: str) -> str | None:
    try:
        found = re.search(pattern, file.read_text("utf-8"))
    except OSError:
        return None
    return found[1].strip() if found else None
