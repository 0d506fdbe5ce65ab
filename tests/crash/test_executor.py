"""An executor of a standalone cluster dies; another one takes on its work."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.crash.cases import Case
from tests.crash.run import CrashRun, crash_environment
from tests.integration.cluster import CLUSTER_SPARK, make_bare_python, standalone_cluster

from checkback.deploy.broker import EmbeddedBroker

CASES = [
    Case("executor-mid-produce", "mid-produce", ("executor",), 0, records=2),
    Case("executor-committed", "committed", ("executor",), 1),
]

# The same time limit as for the other crashes. Seven JVMs for two moments; tests/integration's
# test_cluster.py kills an executor at no moment in particular.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def run(
    mortal_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CrashRun]:
    folder = tmp_path_factory.mktemp("executor")
    python = make_bare_python(folder / "bare")
    environment = crash_environment(folder / "control")
    with standalone_cluster(folder, python, environment) as master:
        run = CrashRun(
            mortal_broker,
            folder,
            "executor-",
            changes={"master": master, "spark": CLUSTER_SPARK},
            environment={"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable},
        )
        with run:
            yield run


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_executor_that_dies_is_replaced(run: CrashRun, case: Case) -> None:
    print(run.crash(case))


def test_after_that_every_committed_half_is_final_once(run: CrashRun) -> None:
    run.finish()
