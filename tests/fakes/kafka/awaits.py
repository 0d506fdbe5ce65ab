"""Where a caller can die, wait, or be told something else than what happened.

Every call of a client asks here before and after its effect. The base class lets everything
succeed at once; a simulation puts its own in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from tests.fakes.kafka.clock import Clock


class SimulatedCrash(BaseException):
    """The process that made the call is dead: no handler of its own may go on."""


class Fault(Enum):
    """What goes wrong with one call."""

    REFUSED = auto()
    """Nothing was done, and the caller hears of an error that passes."""
    LOST = auto()
    """It was done, and the answer is lost."""
    HANGS = auto()
    """Nothing was done, and the call does not come back, or not before its timeout."""
    LATE = auto()
    """Of a commit: its request is under way. The caller gives up, and it is done after that."""
    TWICE = auto()
    """Of a commit: it was done by a second request, and the first one is still under way."""


@dataclass(slots=True)
class Awaits:
    """Nothing goes wrong, and time passes only for those who wait.

    Args:
        clock: what waiting moves.
    """

    clock: Clock

    def before(self, call: str) -> Fault | None:
        """Be told of a call whose effect has not taken place; return what goes wrong with it."""
        del call
        return None

    def after(self, call: str) -> None:
        """Be told of a call whose effect has taken place."""

    def wait(
        self, is_so: Callable[[], bool], until_ms: float, next_event_ms: Callable[[], float]
    ) -> bool:
        """Wait until something is so, or until then; tell whether it is.

        Args:
            is_so: asked again whenever something may have changed.
            until_ms: when to give up.
            next_event_ms: when the cluster will next do something by itself.
        """
        while not is_so():
            if self.clock.now_ms >= until_ms:
                return False
            self.clock.advance_to(min(until_ms, next_event_ms()))
        return True

    def sends_already(self) -> bool:
        """Tell whether a producer's own thread sends now what is queued."""
        return False

    def fetched(self, most: int) -> int:
        """Return how many of the records that are there a fetch brings."""
        return most

    def request_delay_ms(self) -> float:
        """Return how long a request that is held up takes to arrive."""
        return 1_000.0

    def marker_delay_ms(self) -> float:
        """Return how long it takes to write a transaction's markers after its end is decided."""
        return 0.0
