"""The current time, and points in time as people read them."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the current time in milliseconds since 1970."""
    return int(time.time() * 1_000)


def time_text(time_ms: int) -> str:
    """Return milliseconds since 1970 as a date and time in UTC."""
    whole_s = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_ms // 1_000))
    return f"{whole_s}.{time_ms % 1_000:03}Z"
