"""The fields of custom kinds that our manifests may use, by hand from the operators' schemas.

Kubeflow's Spark operator 2.5.0-rc.0, Apache's Spark operator 1.1.0-SNAPSHOT (v1 is its stored
version), the Prometheus operator's v1, kustomize's v1beta1. A field that is not here fails; add it
after a look into the operator's own definition.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Final

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}
TEXTS: Final = {"type": "array", "items": TEXT}
TEXT_BY_NAME: Final = {"type": "object", "additionalProperties": TEXT}
ANY_OBJECT: Final = {"type": "object"}
ANY_LIST: Final = {"type": "array", "items": ANY_OBJECT}
RESTARTS: Final = {"enum": ["Always", "Never", "OnFailure"]}


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


POD: Final = {
    "cores": NUMBER, "coreLimit": TEXT, "memory": TEXT, "memoryOverhead": TEXT,
    "labels": TEXT_BY_NAME, "env": ANY_LIST, "configMaps": ANY_LIST, "ports": ANY_LIST,
    "volumeMounts": ANY_LIST, "podSecurityContext": ANY_OBJECT, "securityContext": ANY_OBJECT,
    "serviceAccount": TEXT, "terminationGracePeriodSeconds": NUMBER,
}  # fmt: skip

KUBEFLOW: Final = closed(
    "driver", "executor", "mainApplicationFile", "sparkVersion", "type",
    type={"enum": ["Java", "Python", "Scala", "R"]}, mode={"enum": ["cluster", "client"]},
    sparkVersion=TEXT, image=TEXT, imagePullPolicy=TEXT, mainApplicationFile=TEXT,
    arguments=TEXTS, sparkConf=TEXT_BY_NAME, volumes=ANY_LIST,
    restartPolicy=closed(
        type=RESTARTS, onFailureRetries=NUMBER, onFailureRetryInterval=NUMBER,
        onSubmissionFailureRetries=NUMBER, onSubmissionFailureRetryInterval=NUMBER,
    ),
    driver=closed(**POD), executor=closed(**POD, instances=NUMBER),
)  # fmt: skip

APACHE: Final = closed(
    "runtimeVersions",
    mainClass=TEXT, pyFiles=TEXT, driverArgs=TEXTS, sparkConf=TEXT_BY_NAME,
    deploymentMode={"enum": ["ClientMode", "ClusterMode"]},
    runtimeVersions=closed("sparkVersion", sparkVersion=TEXT),
    applicationTolerations=closed(
        restartConfig=closed(
            restartPolicy={"enum": [*RESTARTS["enum"], "OnInfrastructureFailure"]},
            maxRestartAttempts=NUMBER, restartBackoffMillis=NUMBER,
            restartCounterResetMillis=NUMBER,
        ),
        applicationTimeoutConfig=closed(forceTerminationGracePeriodMillis=NUMBER),
        resourceRetainPolicy=RESTARTS,
        instanceConfig=closed(initExecutors=NUMBER, minExecutors=NUMBER, maxExecutors=NUMBER),
    ),
    driverSpec=closed("podTemplateSpec", podTemplateSpec=ANY_OBJECT),
    executorSpec=closed("podTemplateSpec", podTemplateSpec=ANY_OBJECT),
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
    "sparkoperator.k8s.io/v1beta2 SparkApplication": kind(
        "sparkoperator.k8s.io/v1beta2", "SparkApplication", KUBEFLOW
    ),
    "spark.apache.org/v1 SparkApplication": kind("spark.apache.org/v1", "SparkApplication", APACHE),
    "monitoring.coreos.com/v1 PodMonitor": kind(
        "monitoring.coreos.com/v1", "PodMonitor", POD_MONITOR
    ),
    "kustomize.config.k8s.io/v1beta1 Kustomization": KUSTOMIZATION,
}
