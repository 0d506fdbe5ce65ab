"""docs/compatibility.md shows what was run with other versions, as the file of results has it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from tools import versions
from tools.versions import BROKERS, JAVAS, PYTHONS, Plan, VersionResult, outcome_of, tables

PLAN: Final = Plan("Kafka", "9.1.2", "one broker", ())
REPORT: Final = """<testsuites><testsuite>
<testcase classname="a" name="passes">
<properties><property name="x.version" value="2"/></properties></testcase>
<testcase classname="a" name="fails"><failure message="no"/></testcase>
<testcase classname="a" name="skips"><skipped message="has none"/></testcase>
<testcase classname="a" name="skips too"><skipped message="has none">/a.py:3: has
</skipped></testcase>
<testcase classname="" name="a"><skipped message="collection skipped">('/a.py', 3, "Skipped: no b")
</skipped></testcase>
</testsuite></testsuites>"""


def test_the_page_has_the_results_of_the_file() -> None:
    assert tables(versions.read_results()) in versions.PAGE.read_text("utf-8")


def test_every_version_that_is_tried_has_a_row() -> None:
    found = {f"{one.part} {one.version}." for one in versions.read_results()}
    wanted = [("Kafka", BROKERS), ("Java", JAVAS), ("Python", PYTHONS)]

    for part, names in wanted:
        for name in names:
            assert any(one.startswith(f"{part} {name}.") for one in found), (part, name)


def test_a_report_becomes_an_outcome_with_what_failed_and_what_was_left_out() -> None:
    made = outcome_of(PLAN, "2026-01-02", REPORT)

    assert made.row == (
        "| Kafka 9.1.2 | one broker | 1, **1 failed** | has none; no b | 2026-01-02 |"
    )
    assert made.failed == ["a::fails"]
    assert made.features == {"x.version": "2"}


def test_an_outcome_replaces_the_last_of_its_kind_in_file_and_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(versions, "PAGE", tmp_path / "page.md")
    versions.RESULTS.write_text("[]\n")
    versions.PAGE.write_text(f"before\n{tables([])}after\n")
    older = VersionResult("Kafka", "9.1.1", "one broker", "2026-01-01", 3)
    other = VersionResult("Kafka", "9.0.9", "one broker", "2026-01-01", 3)
    newer = outcome_of(PLAN, "2026-01-02", REPORT)

    for one in (older, other, newer):
        versions.write_down(one)

    assert versions.read_results() == [newer, other]
    assert versions.PAGE.read_text() == f"before\n{tables([newer, other])}after\n"


def test_what_is_not_there_is_written_down_as_not_run() -> None:
    made = Plan("Python", "9.9", "client", (), python=None).run()

    assert "| not run | no Python 9.9 was found |" in made.row
