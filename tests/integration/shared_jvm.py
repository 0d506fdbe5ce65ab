"""A JVM in which the pipelines of many tests run, one after the other.

A start of a pipeline costs 10 s of processor time in a JVM of its own, and 3 to 4 in one in which
another has run. Each is a process of its own all the same: its JVM is there already, as under
spark-submit. Tests that kill their pipeline, or look at its JVM, use `Pipeline` instead.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.integration.running import QUICK_SPARK, Pipeline

from checkback.deploy.jars import pipeline_jars
from checkback.protocol.configuration import Settings
from checkback.streaming.spark.class_archive import JAVA_OPTIONS, with_archive
from checkback.streaming.spark.driver_jvm import launched_jvm
from checkback.streaming.spark.session import DEFAULTS

END_TIMEOUT_S: Final = 30.0


class SharedJvm:
    """Starts with the first pipeline; ends when a pipeline left something in it.

    Args:
        log: file for the JVM's output.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self._gateway: Any = None
        self._is_lent = False

    @contextmanager
    def pipeline(self, settings: Settings, folder: Path) -> Iterator[Pipeline]:
        """Give a pipeline for the block, started; a second one at the same time is refused."""
        with self.lent() as environment:
            pipeline = Pipeline(settings, folder, environment)
            try:
                with pipeline:
                    yield pipeline
                    if pipeline.is_alive:
                        pipeline.terminate()
            finally:
                if pipeline.wait() < 0:  # nobody stops the query of a driver that was killed
                    self._gateway.proc.kill()
                    self.end()

    @contextmanager
    def lent(self) -> Iterator[dict[str, str]]:
        """Give what has to be in the environment of the process that uses the JVM in the block."""
        assert not self._is_lent, "a JVM holds one Spark at a time"
        self._is_lent = True
        try:
            yield self._environment()
        finally:
            self._is_lent = False

    def end(self) -> None:
        """End the JVM; the next pipeline starts another one."""
        gateway, self._gateway = self._gateway, None
        if gateway is None:
            return
        gateway.shutdown()
        gateway.proc.stdin.close()
        try:
            gateway.proc.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()

    def _environment(self) -> dict[str, str]:
        """Return what spark-submit tells a driver of the JVM."""
        if self._gateway is None or self._gateway.proc.poll() is not None:
            self._gateway = self._launched()
        known = self._gateway.gateway_parameters
        return {"PYSPARK_GATEWAY_PORT": str(known.port), "PYSPARK_GATEWAY_SECRET": known.auth_token}

    def _launched(self) -> Any:
        jars = ",".join(map(str, pipeline_jars(Settings())))
        java_options = with_archive(QUICK_SPARK[JAVA_OPTIONS])
        conf = {**DEFAULTS, **QUICK_SPARK, JAVA_OPTIONS: java_options, "spark.jars": jars}
        return launched_jvm(conf, self.log)
