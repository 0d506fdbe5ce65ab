"""The collector of the driver's JVM stops the job for no longer than a consumer may notice.

``PAUSES_S`` in the environment gives another length than three minutes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest
from bench.runs.probe import visibility
from bench.runs.query import Query
from bench.runs.trial import BenchSetting
from bench.setting import RUN_SETTINGS

from checkback.deploy.settings import load_settings
from checkback.streaming.spark.jvm_options import java_options

PAUSES_S: Final = float(os.environ.get("PAUSES_S", "180"))
PER_S: Final = 150.0
WARM_UP_S: Final = 60.0
"""Until then the driver's own classes and plans move to the old half."""
PAUSE_MS_MAX: Final = 200.0
OLD_MIB_A_MINUTE_MAX: Final = 10.0
PAUSE: Final = re.compile(r"\[([\d.]+)s\].*\) Pause .*? ([\d.]+)ms$", re.MULTILINE)
OLD: Final = re.compile(r"\[([\d.]+)s\].*ParOldGen: \d+K\(\d+K\)->(\d+)K", re.MULTILINE)


@pytest.mark.nightly
@pytest.mark.timeout(PAUSES_S + 300)
def test_no_collection_stops_a_job_for_long(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    """Its old half filled by 65 MB a minute, and was collected in 0.8 s every eight minutes."""
    given = {"bootstrap_servers": bootstrap_servers, "topic_prefix": unique}
    settings = load_settings(None, {}, {**RUN_SETTINGS, **given})
    log = tmp_path / "gc.log"
    options = f"{java_options('2g')} -Xlog:gc*:file={log}:uptime:filecount=0"
    trial = BenchSetting(settings, tmp_path, 7, 1_024).trial(
        "pauses", spark={**settings.spark, "driver.extraJavaOptions": options}
    )
    with Query(trial.create(), "job") as query:
        query.wait_for_batch()
        visibility(query, PER_S, PAUSES_S)
        query.stop()
    trial.delete()

    said = log.read_text()
    found = [(float(at_s), float(took_ms)) for at_s, took_ms in PAUSE.findall(said)]
    pauses_ms = {at_s: took_ms for at_s, took_ms in found if at_s > WARM_UP_S}
    old = [(float(at_s), int(kib) / 1_024) for at_s, kib in OLD.findall(said)]
    (from_s, from_mib), (to_s, to_mib) = old[len(old) // 2], old[-1]
    print(f"{len(pauses_ms)} pauses, the longest {max(pauses_ms.values())} ms; old {old[-1]}")
    assert "Pause Full" not in said
    assert {at_s: ms for at_s, ms in pauses_ms.items() if ms > PAUSE_MS_MAX} == {}
    assert (to_mib - from_mib) / ((to_s - from_s) / 60) < OLD_MIB_A_MINUTE_MAX
