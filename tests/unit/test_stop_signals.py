"""Signals as the wish to stop."""

from __future__ import annotations

import os
import signal

import pytest

from checkback.streaming.batch.stop import stop_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_an_end_inside_the_block_only(number: signal.Signals) -> None:
    before, asked = signal.getsignal(number), list[str]()
    with stop_signals(lambda: asked.append("stop")):
        os.kill(os.getpid(), number)

    assert asked == ["stop"]
    assert signal.getsignal(number) is before
