"""Runs tests with other versions of Kafka, Java and Python, and writes down what came out.

    python -m tools.versions [PART[=VERSION] ...]

A part is kafka, java or python; without any, all are run. `make versions` does so, and so does the
nightly workflow. The results are in docs/compatibility.json, the same as a table in
docs/compatibility.md. What is not run keeps its row.

An interpreter is looked for on the PATH (python3.12), a Java in JAVA_HOME_<version>_X64, which
GitHub's runners have, and below /usr/lib/jvm.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from xml.etree import ElementTree as ET

from checkback.deploy.jars import BROKER_VERSION, Conf, locked_jars
from checkback.streaming.spark.jars import jars_folder

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "docs" / "compatibility.json"
PAGE: Final = ROOT / "docs" / "compatibility.md"
ENVIRONMENTS: Final = ROOT / "build" / "versions"
HEAD: Final = "| with | on | passed | left out | when |\n|---|---|---|---|---|\n"

FEATURES_HEAD: Final = (
    "| Kafka | transaction protocol 2 | share groups | features agreed on by its brokers |\n"
    "|---|---|---|---|\n"
)

BROKERS: Final[Mapping[str, Conf]] = {
    "3.9": "kafka-3.9", "4.0": "kafka-4.0", "4.2": "kafka", "4.4": "kafka-4.4",
}  # fmt: skip
JAVAS: Final = ("17", "21", "25")
KAFKA: Final = "kafka_2.13"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")

_I: Final = "tests/integration"
ON_THREE_BROKERS: Final = (
    f"{_I}/test_broker_version.py", f"{_I}/test_pipeline.py", "tests/crash/test_crash_points.py",
)  # fmt: skip
ON_ONE_BROKER: Final = (
    *ON_THREE_BROKERS, f"{_I}/relay/test_relay.py", f"{_I}/test_sink.py",
    f"{_I}/test_other_clients.py",
)  # fmt: skip
OF_THE_PIPELINE: Final = (
    "tests/spark/test_spark_internals.py", "tests/spark/test_decode.py", f"{_I}/test_pipeline.py",
    f"{_I}/test_sink.py",
)  # fmt: skip
OF_THE_CLIENT: Final = ("tests/unit/client",)


@dataclass(frozen=True)
class VersionResult:
    """What came of a version's tests.

    Args:
        part: Kafka, Java or Python.
        version: in full.
        ran: what the tests ran on, or what of Checkback they are of.
        when: the day, in UTC.
        passed: how many did.
        failed: which did not.
        left_out: what was skipped and why, or why all of it was.
        features: of the brokers, with their levels.
    """

    part: str
    version: str
    ran: str
    when: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    features: dict[str, str] = field(default_factory=dict)

    @property
    def row(self) -> str:
        """Its line of the table."""
        failed = f", **{len(self.failed)} failed**" if self.failed else ""
        passed = f"{self.passed}{failed}" if self.passed or self.failed else "not run"
        left_out = "; ".join(self.left_out) or "nothing"
        return f"| {self.part} {self.version} | {self.ran} | {passed} | {left_out} | {self.when} |"


@dataclass(frozen=True)
class Plan:
    """Tests to run with one version.

    Args:
        python: runs them; None where there is no such version.
    """

    part: str
    version: str
    ran: str
    tests: tuple[str, ...]
    python: Path | None = Path(sys.executable)
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def run(self) -> VersionResult:
        """Run the tests; say what came of them."""
        today = datetime.now(UTC).date().isoformat()
        if self.python is None:
            why = [f"no {self.part} {self.version} was found"]
            return VersionResult(self.part, self.version, self.ran, today, left_out=why)
        with TemporaryDirectory(prefix="checkback-versions-") as folder:
            report = Path(folder) / "report.xml"
            command: list[str | Path] = [
                self.python, "-m", "pytest", "-q", "-m", "not nightly or versions",
                f"--junitxml={report}", *self.options, *self.tests,
            ]  # fmt: skip
            ran = subprocess.run(
                command, cwd=ROOT, env={**os.environ, **self.environment}, check=False
            )
            if not report.exists():
                raise SystemExit(f"pytest ended with {ran.returncode} and no report")
            return outcome_of(self, today, report.read_text("utf-8"))


def outcome_of(plan: Plan, when: str, report: str) -> VersionResult:
    """Return what a report of pytest says."""
    made = VersionResult(plan.part, plan.version, plan.ran, when)
    passed = 0
    left_out: dict[str, None] = {}
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - pytest's own
        made.features.update(
            {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}
        )
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            made.failed.append(f"{case.attrib['classname']}::{case.attrib['name']}")
        elif skipped is not None:
            # A file that is skipped as a whole has its reason in the text alone, behind its path.
            whole = (skipped.text or "").partition("Skipped: ")[2].rstrip("'\")\n")
            left_out[whole or skipped.attrib["message"]] = None
        else:
            passed += 1
    return VersionResult(**{**asdict(made), "passed": passed, "left_out": list(left_out)})


def plans(wanted: Iterable[str]) -> Iterator[Plan]:
    """Yield what is to be run for these parts; for all, if there are none."""
    chosen = list(wanted) or ["kafka", "java", "python"]

    def is_wanted(part: str, version: str) -> bool:
        return part in chosen or f"{part}={version}" in chosen

    for version, conf in BROKERS.items():
        if is_wanted("kafka", version):
            yield from _on_brokers(version, conf)
    for version in JAVAS:
        if is_wanted("java", version):
            yield _on_java(version)
    for version in PYTHONS:
        if is_wanted("python", version):
            yield from _on_python(version)


def _on_brokers(version: str, conf: Conf) -> Iterator[Plan]:
    [full] = [one.version for one in locked_jars() if one.conf == conf and one.artifact == KAFKA]
    environment = {BROKER_VERSION: "" if conf == "kafka" else version}
    yield Plan("Kafka", full, "one broker", ON_ONE_BROKER, environment=environment)
    options = ("--brokers=3",)
    yield Plan(
        "Kafka", full, "three brokers", ON_THREE_BROKERS, environment=environment, options=options
    )


def _on_java(version: str) -> Plan:
    home = os.environ.get(f"JAVA_HOME_{version}_X64") or next(
        (str(one) for one in sorted(Path("/usr/lib/jvm").glob(f"*-{version}-*"))), None
    )
    ran = "pipeline and broker"
    if home is None:
        return Plan("Java", version, ran, (), python=None)
    found = re.search(r'version "([^"]+)"', _said(f"{home}/bin/java", "-version"))
    full = found[1] if found else version
    return Plan("Java", full, ran, OF_THE_PIPELINE, environment={"JAVA_HOME": home})


def _on_python(version: str) -> Iterator[Plan]:
    python = _environment_of(version)
    full = version if python is None else _said(python, "--version").removeprefix("Python ")
    environment = {"CHECKBACK_JARS": str(jars_folder())}
    for ran, tests in (("client", OF_THE_CLIENT), ("pipeline", OF_THE_PIPELINE)):
        yield Plan("Python", full, ran, tests, python, environment)


def _environment_of(version: str) -> Path | None:
    """Return the Python of an environment with Checkback and the locked packages, or None."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    found = shutil.which(f"python{version}")
    if found is None:
        return None
    folder = ENVIRONMENTS / f"python-{version}"
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        subprocess.run([found, "-m", "venv", "--clear", folder], check=True)
        pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--require-hashes"]
        subprocess.run([*pip, "--requirement", "requirements/build.txt"], cwd=ROOT, check=True)
        locked = ["--no-build-isolation", "--requirement", "requirements/development.txt"]
        subprocess.run([*pip, *locked], cwd=ROOT, check=True)
        (folder / ".ready").touch()
    own = ["--quiet", "--no-deps", "--no-build-isolation", "--force-reinstall", "."]
    subprocess.run([python, "-m", "pip", "install", *own], cwd=ROOT, check=True)
    return python


def _said(program: Path | str, argument: str) -> str:
    ran = subprocess.run([program, argument], capture_output=True, text=True, check=True)
    return (ran.stdout + ran.stderr).strip()


def read_results() -> list[VersionResult]:
    """Return what was written down."""
    return [VersionResult(**one) for one in json.loads(RESULTS.read_text("utf-8"))]


def tables(outcomes: Iterable[VersionResult]) -> str:
    """Return the page's tables: what came of each, and what each version of Kafka has."""
    found = list(outcomes)
    rows = "".join(f"{one.row}\n" for one in found)
    levels = {one.version: one.features for one in found if one.features}
    return HEAD + rows + "\n" + FEATURES_HEAD + "".join(starmap(_features_row, levels.items()))


def _features_row(version: str, levels: Mapping[str, str]) -> str:
    def has(feature: str, level: int) -> str:
        return "yes" if int(levels.get(feature, 0)) >= level else "no"

    listed = ", ".join(f"`{name}` {level}" for name, level in levels.items())
    has_both = f"{has('transaction.version', 2)} | {has('share.version', 1)}"
    return f"| {version} | {has_both} | {listed} |\n"


def write_down(made: VersionResult) -> None:
    """Put an outcome in the place of the last one of its kind, in file and page."""
    before = read_results()

    def kind(one: VersionResult) -> tuple[str, tuple[str, ...], str]:
        return one.part, tuple(one.version.split(".")[: 1 + (one.part != "Java")]), one.ran

    kept = {kind(one): one for one in before} | {kind(made): made}
    RESULTS.write_text(json.dumps([asdict(one) for one in kept.values()], indent=1) + "\n", "utf-8")
    page = PAGE.read_text("utf-8")
    PAGE.write_text(page.replace(tables(before), tables(kept.values())), "utf-8")


def main() -> int:
    """Run what the arguments name; return 1 where a test failed."""
    failed = False
    for plan in plans(sys.argv[1:]):
        print(f"{plan.part} {plan.version}: {plan.ran}", flush=True)
        made = plan.run()
        write_down(made)
        failed = failed or bool(made.failed)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
