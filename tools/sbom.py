"""Adds the locked jars to the SBOM that cyclonedx-py made of the Python packages.

    python -m tools.sbom dist/checkback.cdx.json

`make release` does so, in the environment of the tools that it needs.
"""
# pyright: reportMissingImports=false
# The tools of a release are in an environment of their own.

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from checkback.deploy.jars import Conf, LockedJar, locked_jars

NEEDED_FOR: Final[Mapping[Conf, str]] = {
    "spark": "the pipeline",
    "s3": "a checkpoint on S3",
    "delta": "reading the ledger with Spark",
    "kafka": "the broker of tests and the demo",
}
"""What Checkback fetches for its users, and what for; the others are for its own tests."""


def jars_to_list(jars: Iterable[LockedJar]) -> dict[LockedJar, list[Conf]]:
    """Return the jars that users get, in the lock's order, and what for; each once."""
    found: dict[tuple[str, ...], tuple[LockedJar, list[Conf]]] = {}
    for one in jars:
        if one.conf in NEEDED_FOR:
            found.setdefault(one[3:], (one, []))[1].append(one.conf)
    return dict(found.values())


def with_jars(sbom: str, jars: Iterable[LockedJar]) -> str:
    """Return an SBOM with jars in it.

    Raises:
        ValueError: what came out does not fit CycloneDX's schema.
    """
    from cyclonedx.model.bom import Bom
    from cyclonedx.output.json import BY_SCHEMA_VERSION
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    before = json.loads(sbom)
    version = SchemaVersion.from_version(before["specVersion"])
    bom: Any = Bom.from_json(before)
    found = [_component(jar, confs) for jar, confs in jars_to_list(jars).items()]
    bom.components.update(found)
    bom.register_dependency(bom.metadata.component, found)
    after = json.loads(BY_SCHEMA_VERSION[version](bom).output_as_string())
    # cyclonedx-py left these out, so that two runs make the same.
    if "serialNumber" not in before:
        after.pop("serialNumber", None)
    if "timestamp" not in before["metadata"]:
        after["metadata"].pop("timestamp", None)
    text = json.dumps(after, indent=2) + "\n"
    wrong = JsonStrictValidator(version).validate_str(text)
    if wrong is not None:
        raise ValueError(f"The SBOM does not fit CycloneDX's schema: {wrong}")
    return text


def _component(jar: LockedJar, confs: Iterable[Conf]) -> Any:
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component, ComponentScope
    from packageurl import PackageURL

    purl = PackageURL("maven", jar.group, jar.artifact, jar.version)
    scope = ComponentScope.REQUIRED if "spark" in confs else ComponentScope.OPTIONAL
    return Component(
        name=jar.artifact,
        group=jar.group,
        version=jar.version,
        purl=purl,
        bom_ref=str(purl),
        scope=scope,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=jar.sha256)],
        properties=[Property(name="checkback:needed_for", value=NEEDED_FOR[one]) for one in confs],
    )


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_jars(file.read_text("utf-8"), locked_jars()), "utf-8")
