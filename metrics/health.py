"""Tells whether the pipeline is alive and ready, from what the job reports and from a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, Thread
from time import monotonic
from typing import Final, NamedTuple

from checkback.protocol.durations import duration_text

BEAT_S_MAX: Final = 120.0
"""Older than this, the driver hangs: its loop turns every 0.2 s, and waits for brokers for less."""
BATCH_AGE_S_LEAST: Final = 60.0
TRIGGERS: Final = 10
"""A batch is late after this number of trigger intervals, but not before BATCH_AGE_S_LEAST."""
REACHED_S: Final = 5.0
"""How long an answer of the brokers is believed: probes may come every second."""


class Answer(NamedTuple):
    """The answer to a probe: whether all is well, and one sentence."""

    is_well: bool
    says: str


def batch_age_s_max(trigger_interval_ms: int) -> float:
    """Return the age of the last batch from which the pipeline does not count as ready."""
    return max(BATCH_AGE_S_LEAST, TRIGGERS * trigger_interval_ms / 1_000)


@dataclass(slots=True)
class Health:
    """What is known of the running job; one thread tells, others ask.

    Args:
        age_s_max: the last batch may be this old.
        reach: asks the brokers; returns why they can't be reached, "" if they can.
    """

    age_s_max: float
    reach: Callable[[], str]
    now_s: Callable[[], float] = monotonic
    _state: str = "starts"
    _beat_s: float | None = None
    _batch_s: float = 0.0
    _has_written: bool = False
    _still_s: float = 0.0
    _waiting: str = ""
    _batch_thread: Thread | None = None
    _reached: tuple[float, str] | None = None
    _asking: Lock = field(default_factory=Lock)

    def started(self) -> None:
        """Note that the query runs."""
        self._state = "runs"
        self._batch_s = self._beat_s = self.now_s()
        self._has_written = False

    def beat(self) -> None:
        """Note that the driver's loop turns."""
        self._beat_s = self.now_s()

    def batch_begun(self, thread: Thread) -> None:
        """Note which thread is at work on a batch."""
        self._batch_thread = thread

    def batch_over(self) -> None:
        """Note that Spark has its answer to the batch: its thread may end now."""
        self._batch_thread = None

    def batch_written(self) -> None:
        """Note that a batch was written."""
        self._batch_s, self._has_written = self.now_s(), True

    def batch_age_s(self) -> float | None:
        """Return the age of the last batch, None before the first since the query started."""
        return self.now_s() - self._batch_s if self._has_written else None

    def looked(self, still_s: float, waiting: str) -> None:
        """Take what a look at the topics found unread."""
        self._still_s, self._waiting = still_s, waiting

    def ending(self) -> None:
        """Note that the job is about to end; a wait from now on is no hang."""
        self._state, self._beat_s = "ends", None

    def alive(self) -> Answer:
        """Tell whether the driver's loop and the thread of a batch still run."""
        if self._beat_s is not None and self.now_s() - self._beat_s > BEAT_S_MAX:
            age_s = self.now_s() - self._beat_s
            return Answer(False, f"the driver's loop has not turned for {_span(age_s)}")
        thread = self._batch_thread
        if thread is not None and not thread.is_alive():
            return Answer(False, "the thread that writes batches has ended amid a batch")
        return Answer(True, "alive")

    def ready(self) -> Answer:
        """Tell whether the pipeline does its work."""
        if self._state != "runs":
            return Answer(False, f"the job {self._state}")
        age_s = self.now_s() - self._batch_s
        if age_s > self.age_s_max:
            return Answer(False, f"{self._age_text(age_s)}, more than {_span(self.age_s_max)}")
        unreached = self._unreached()
        if unreached:
            return Answer(False, f"the brokers can't be reached: {unreached}")
        if self._still_s > self.age_s_max:
            return Answer(False, f"nothing was read for {_span(self._still_s)}: {self._waiting}")
        waiting = f"; {self._waiting}" if self._waiting else ""
        return Answer(True, f"ready; {self._age_text(age_s)}{waiting}")

    def _age_text(self, age_s: float) -> str:
        if self._has_written:
            return f"the last batch is {_span(age_s)} old"
        return f"no batch was written since the query started {_span(age_s)} ago"

    def _unreached(self) -> str:
        with self._asking:
            if self._reached is None or self.now_s() - self._reached[0] > REACHED_S:
                says = self.reach()
                self._reached = self.now_s(), says
            return self._reached[1]


def _span(seconds: float) -> str:
    return duration_text(round(seconds) * 1_000)
