"""java/ is of the same version as the package, and small."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from checkback import __version__

JAVA = Path(__file__).parents[2] / "java"
POM = "{http://maven.apache.org/POM/4.0.0}"
LINES_MAX = 2_500
PARENT, *MODULES = [JAVA / "pom.xml", *sorted(JAVA.glob("*/pom.xml"))]


def pom(path: Path) -> ET.Element:
    return ET.parse(path).getroot()  # noqa: S314 - a file of this repository


def test_each_module_is_built_and_of_the_package_s_version() -> None:
    parent = pom(PARENT)
    modules = {one.text for one in parent.iter(f"{POM}module")}

    assert modules == {one.parent.name for one in MODULES}
    assert parent.findtext(f"{POM}version") == __version__
    for module in MODULES:
        assert pom(module).findtext(f"{POM}parent/{POM}version") == __version__


def test_at_run_time_the_client_needs_kafka_s_alone() -> None:
    client = pom(JAVA / "client" / "pom.xml")
    scopes = {
        one.findtext(f"{POM}artifactId"): one.findtext(f"{POM}scope", "compile")
        for one in client.iter(f"{POM}dependency")
    }

    assert [name for name, scope in scopes.items() if scope == "compile"] == ["kafka-clients"]


def test_the_client_stays_small() -> None:
    sources = (JAVA / "client" / "src" / "main").rglob("*.java")
    code = [
        line
        for source in sources
        for line in re.sub(r"/\*.*?\*/|//.*", "", source.read_text("utf-8"), flags=re.DOTALL).split(
            "\n"
        )
        if line.strip()
    ]

    assert len(code) <= LINES_MAX, len(code)
