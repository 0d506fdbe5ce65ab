"""Each option of the bench is declared once; command line and document are built from that."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from checkback.bench import options, verbs
from checkback.bench.latency import LatencyOptions
from checkback.bench.options import CommonOptions, Verb, with_smoke
from checkback.bench.pipeline import PipelineOptions
from checkback.bench.repository.verbs import VERBS
from checkback.commands.bench_options import verb_command
from checkback.protocol.errors import UsageError

BODIES = next(one for one in VERBS if one.name == "bodies")


def called(verb: Verb, *arguments: str) -> tuple[CommonOptions, Any]:
    """Return the options with which a verb runs."""
    found: list[tuple[CommonOptions, Any]] = []
    command = verb_command(verb, lambda _, common, own, __: found.append((common, own)))
    ran = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return found[0]


def test_a_verb_gets_defaults_and_what_was_given(tmp_path: Path) -> None:
    common, own = called(
        verbs.USUAL_VERBS[1], "--rate", "7", "--setting", "a=1", "--setting", "b=2",
        "--data-dir", str(tmp_path),
    )  # fmt: skip

    assert common == CommonOptions(setting=("a=1", "b=2"), data_dir=tmp_path)
    assert own == LatencyOptions(rate=7)


def test_a_smoke_run_is_short_whatever_was_given() -> None:
    _, own = called(verbs.USUAL_VERBS[1], "--smoke", "--rate", "7")

    assert asdict(own) == {
        "rate": 50, "seconds": 4, "idle_seconds": 4, "quiet_seconds": 5, "warm_up_seconds": 3,
        "runs": 1,
    }  # fmt: skip


def test_a_quiet_part_has_time_for_a_single_commit() -> None:
    """With two seconds none was sent, and the run ended: "0 of 0 did not become visible"."""
    command = verb_command(verbs.USUAL_VERBS[1], lambda *_: None)

    told = CliRunner().invoke(command, ["--quiet-seconds", "4"])

    assert told.exit_code == click.UsageError.exit_code


def test_a_comparison_is_kept_in_a_smoke_run() -> None:
    chosen = PipelineOptions(compare="stateless")

    assert with_smoke(chosen).comparisons == ["stateless"]
    assert with_smoke(chosen).loaded_transactions == 4_000


def test_a_verb_may_have_another_size_of_messages() -> None:
    assert called(BODIES)[0].body_bytes == 1_048_576
    assert called(BODIES, "--body-bytes", "5")[0].body_bytes == 5
    assert called(verbs.USUAL_VERBS[0])[0].body_bytes == 1_024


def test_a_number_out_of_bounds_is_refused() -> None:
    command = verb_command(BODIES, lambda *_: None)
    told = CliRunner().invoke(command, ["--transactions", "39"])

    assert told.exit_code == click.UsageError.exit_code
    assert "39 is not in the range" in told.output


def test_the_installed_package_has_no_comparison_that_only_a_checkout_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(options, "REPOSITORY", "checkback.bench.nowhere")

    assert [one.name for one in verbs.all_verbs()] == ["pipeline", "latency", "pending", "storm"]
    command = verb_command(verbs.USUAL_VERBS[0], lambda *_: None)
    assert "picture" not in [one.name for one in command.params]
    with pytest.raises(UsageError, match="kafka-streams"):
        PipelineOptions(compare="kafka-streams")
