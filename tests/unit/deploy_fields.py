"""The fields of custom kinds that our manifests may use, by hand from the operators' schemas.

The Prometheus operator's v1, kustomize's v1beta1. A field that is not here fails; add it
after a look into its own definition.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Final

TEXT: Final = {"type": "string"}
TEXTS: Final = {"type": "array", "items": TEXT}
TEXT_BY_NAME: Final = {"type": "object", "additionalProperties": TEXT}


@cache
def vendored_schema(name: str) -> dict[str, Any]:
    """Return a schema that check-jsonschema brings along."""
    folder = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    return dict(json.loads((folder / f"{name}.json").read_text("utf-8")))


def closed(*required: str, **fields: Any) -> dict[str, Any]:
    """Return the schema of an object that has no other fields."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


def kind(version: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a kind."""
    return closed(
        "apiVersion", "kind", "metadata", "spec",
        apiVersion={"const": version}, kind={"const": name}, spec=spec,
        metadata=closed("name", name=TEXT, labels=TEXT_BY_NAME),
    )  # fmt: skip


POD_MONITOR: Final = closed(
    "selector", "podMetricsEndpoints",
    jobLabel=TEXT,
    selector=closed(matchLabels=TEXT_BY_NAME),
    podMetricsEndpoints={
        "type": "array", "items": closed("port", port=TEXT, path=TEXT, interval=TEXT),
    },
)  # fmt: skip

KUSTOMIZATION: Final = closed(
    "apiVersion", "kind", "resources",
    apiVersion=TEXT, kind=TEXT, resources=TEXTS,
    labels={"type": "array", "items": closed("pairs", pairs=TEXT_BY_NAME)},
    configMapGenerator={"type": "array", "items": closed("name", "files", name=TEXT, files=TEXTS)},
    generatorOptions=closed(disableNameSuffixHash={"type": "boolean"}),
)  # fmt: skip

KINDS: Final[dict[str, dict[str, Any]]] = {
    "monitoring.coreos.com/v1 PodMonitor": kind(
        "monitoring.coreos.com/v1", "PodMonitor", POD_MONITOR
    ),
    "kustomize.config.k8s.io/v1beta1 Kustomization": KUSTOMIZATION,
}
