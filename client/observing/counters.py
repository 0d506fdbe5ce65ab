"""What a producer counts, and the callback that an application gets for each event."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from enum import StrEnum

_log = logging.getLogger(__name__)


class ClientEvent(StrEnum):
    """What is counted. The values are the names under which metrics systems get them."""

    SENT = "sent"
    SEND_FAILED = "send_failed"
    SEND_IN_DOUBT = "send_in_doubt"
    DOUBT_SETTLED = "doubt_settled"
    SEND_RETRIED = "send_retried"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    UNKNOWN = "unknown"
    LISTENER_FAILED = "listener_failed"
    OP_FAILED = "op_failed"
    CHECK_RECEIVED = "check_received"
    CHECK_ANSWERED = "check_answered"
    CHECK_SKIPPED = "check_skipped"
    CHECK_UNREADABLE = "check_unreadable"
    DELAY_DROPPED = "delay_dropped"


class Counters:
    """Counts events, from any thread.

    Args:
        on_event: called with each event, in the thread that caused it; the producer logs what the
            callback raises. None for no call.
    """

    def __init__(self, on_event: Callable[[ClientEvent], None] | None = None) -> None:
        self._on_event = on_event
        self._counts = dict.fromkeys(ClientEvent, 0)
        self._lock = threading.Lock()

    def add(self, event: ClientEvent) -> None:
        """Count one event."""
        with self._lock:
            self._counts[event] += 1
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except (Exception, SystemExit):  # KeyboardInterrupt was meant for the application
            _log.exception("The metrics callback failed on %s", event.value)

    def snapshot(self) -> Mapping[ClientEvent, int]:
        """Return how often each event happened so far, zero for the others."""
        with self._lock:
            return dict(self._counts)
