"""Spark's own log follows `log_format`."""

from __future__ import annotations

from checkback.protocol.configuration import Settings
from checkback.streaming.spark.session import JSON_LOG, LOG_CONFIGURATION, session_settings

DRIVER, EXECUTOR = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"


def test_json_lines_are_asked_of_driver_and_executors() -> None:
    chosen = session_settings(Settings(log_format="json"), [])

    assert f"-D{LOG_CONFIGURATION}={JSON_LOG}" in chosen[DRIVER]
    assert f"-D{LOG_CONFIGURATION}={JSON_LOG}" in chosen[EXECUTOR]


def test_text_is_left_to_spark() -> None:
    chosen = session_settings(Settings(), [])

    assert LOG_CONFIGURATION not in chosen[DRIVER] + chosen[EXECUTOR]


def test_a_log_configuration_of_the_users_own_stays() -> None:
    own = f"-D{LOG_CONFIGURATION}=/etc/log4j2.properties"
    chosen = session_settings(Settings(log_format="json", spark={EXECUTOR: own}), [])

    assert chosen[EXECUTOR] == own
