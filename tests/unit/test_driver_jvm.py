"""What is said when the driver's JVM does not start."""

from __future__ import annotations

import os

import pytest

from checkback.streaming.spark.driver_jvm import _did_not_start


def test_a_user_without_a_name_is_named_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number: Spark's trace spoke of a folder `?/.ivy2`."""
    assert "/etc/passwd" not in _did_not_start(None).remedy
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_123)

    assert "4000000123 has no line in /etc/passwd" in _did_not_start(None).remedy
