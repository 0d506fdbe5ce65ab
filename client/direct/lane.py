"""A lane: a queue of committed halves, and the thread that delivers them in groups.

Groups form by themselves: while one commits, the next gathers. Within a lane messages become
visible in the order in which they were queued.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Protocol

from checkback.client.callback_result import remark_of
from checkback.client.direct.direct_half import DirectHalf
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.direct.session import NotDelivered, Session
from checkback.client.polled_producer import in_background

_log = logging.getLogger(__name__)

GROUP_MAX: Final = 500
GROUP_BYTES_MAX: Final = 8_388_608
"""A larger group would take long to send, and consumers see nothing of it before all of it."""
IDLE_S: Final = 0.5
OPEN_S: Final = 5.0
PAUSE_FIRST_S: Final = 0.1
CLOSING: Final = "checkback-direct-close"
PAUSE_MAX_S: Final = 30.0
"""Pause between two tries to open a session; meanwhile halves go the checked way."""


class LaneOwner(Protocol):
    """What a lane needs of the rest of the client."""

    def new_session_id(self) -> str:
        """Return an id that no session has."""

    def open_session(self, session_id: str) -> Session:
        """Open a producer of that id, not initialised."""

    def delivered(self, group: list[DirectHalf]) -> None:
        """Take halves that consumers see now."""

    def fell_back(self, group: list[DirectHalf], lost: NotDelivered | None) -> None:
        """Take halves that go the checked way, and the reason if a transaction was begun."""

    def taken_off(self, half: DirectHalf) -> None:
        """Take a half that another thread closed while it waited."""

    def end_transaction(self, session_id: str) -> None:
        """Have the brokers end what a session of this process left open."""


class Lane:
    """Delivers the halves of one session after the other.

    Args:
        number: of the lane.
        own: takes the steps of each half.
        owner: the rest of the client.
    """

    def __init__(self, number: int, own: OwnHalves, owner: LaneOwner) -> None:
        self._number = number
        self._own = own
        self._owner = owner
        self._session: Session | None = None
        self._session_id = ""
        self._lock = threading.RLock()  # a signal handler may shut the producer down
        self._queue: queue.SimpleQueue[DirectHalf | None] = queue.SimpleQueue()
        self._opened = threading.Event()
        self._closing = False
        self._under_way = 0
        self._pause_s = PAUSE_FIRST_S
        self._open_at_s = 0.0
        self._told = ""
        self._thread = threading.Thread(
            target=self._run, name=f"checkback-direct-{number}", daemon=True
        )

    @property
    def session_id(self) -> str:
        """The session that new halves are bound to, empty while there is none."""
        return self._session_id

    def start(self) -> None:
        """Begin; the first session opens in the lane's thread."""
        self._thread.start()

    def wait_until_open(self, timeout_s: float) -> bool:
        """Wait for the first session; tell whether it is open."""
        return self._opened.wait(timeout_s)

    def waiting(self) -> int:
        """Return how many halves wait, the group under way left out."""
        return self._queue.qsize()

    def put(self, half: DirectHalf) -> bool:
        """Queue a half whose local transaction committed.

        False: somebody closed the half meanwhile, or its session is over; it has to go the checked
            way.
        """
        with self._lock:
            if half.session_id != self._session_id or not self._own.queue(half):
                return False
            self._queue.put(half)
            return True

    def close(self, timeout_s: float) -> int:
        """Deliver what waits, then stop; return how many halves could not be waited for.

        Halves that still wait go the checked way. A group whose transaction is under way counts
        among the returned halves; the pipeline sees how it ended.
        """
        self._closing = True
        self._queue.put(None)
        if self._thread.ident is not None:  # its start may have failed
            self._thread.join(timeout_s)
        if not self._thread.is_alive():
            return 0
        return self._under_way + self._drop_session("shut down")

    def _run(self) -> None:
        while not (self._closing and self._queue.empty()):
            try:
                self._turn()
            except BaseException:  # SystemExit of a callback, too: senders wait for this thread
                _log.exception("Direct delivery stumbled; its halves go the checked way")
                self._drop_session("an error of ours")
        session = self._session
        self._drop_session("shut down")
        if session is not None:
            session.close()

    def _turn(self) -> None:
        if self._session is None and time.monotonic() >= self._open_at_s and not self._closing:
            self._open()
        session = self._session
        wait_s = PAUSE_FIRST_S if session is None else IDLE_S
        try:
            first = self._queue.get(timeout=wait_s)
        except queue.Empty:
            return
        group = list(self._group(first))
        if not group:
            return
        if session is None:
            self._fall_back(group, None)
        else:
            self._under_way = len(group)
            self._deliver(session, group)
            self._under_way = 0

    def _group(self, first: DirectHalf | None) -> Iterator[DirectHalf]:
        """Return the waiting halves, without those that somebody closed to answer their check."""
        taken = size = 0
        half = first
        while True:
            if half is not None and self._own.take(half):
                yield half
                taken, size = taken + 1, size + half.size()
            elif half is not None:
                self._owner.taken_off(half)
            if taken >= GROUP_MAX or size >= GROUP_BYTES_MAX:
                return
            try:
                half = self._queue.get_nowait()
            except queue.Empty:
                return

    def _deliver(self, session: Session, group: list[DirectHalf]) -> None:
        try:
            session.deliver(group)
        except NotDelivered as lost:
            self._drop_session(str(lost))
            self._fall_back(group, lost)
            in_background(session.abandon, CLOSING)
            if not lost.is_ended:
                self._owner.end_transaction(session.session_id)
            return
        for half in group:
            self._own.end(half, delivered=True)
        self._owner.delivered(group)
        if session.is_spent:
            self._drop_session("a commit took long and may have been sent twice")
            in_background(session.close, CLOSING)

    def _fall_back(self, group: list[DirectHalf], lost: NotDelivered | None) -> None:
        for half in group:
            self._own.end(half, delivered=False)
        self._owner.fell_back(group, lost)

    def _drop_session(self, why: str) -> int:
        """Bind no more halves to the session, send those that wait the checked way."""
        with self._lock:
            dropped, self._session_id, self._session = self._session_id, "", None
            left = [half for half in self._taken_out() if self._own.close(half)]
        self._open_at_s = 0.0
        if dropped and not self._closing:
            _log.info("Direct session %s is over: %s", dropped, why)
        if left:
            self._owner.fell_back(left, None)
        return len(left)

    def _taken_out(self) -> Iterator[DirectHalf]:
        """Yield the waiting halves; a shutdown out of time calls this from its own thread."""
        with suppress(queue.Empty):
            while True:
                half = self._queue.get_nowait()
                if half is not None:
                    yield half

    def _open(self) -> None:
        session_id = self._owner.new_session_id()
        self._own.add_session(session_id)
        try:
            session = self._owner.open_session(session_id)
        except Exception as error:
            self._not_opened(remark_of(error))
            return
        try:
            session.initialise(OPEN_S)
        except NotDelivered as error:
            in_background(session.abandon, CLOSING)
            self._not_opened(str(error))
            return
        self._session = session
        with self._lock:
            self._session_id = session_id
        self._pause_s = PAUSE_FIRST_S
        self._told = ""
        self._opened.set()

    def _not_opened(self, said: str) -> None:
        if said != self._told:
            _log.warning("No direct session could be opened, messages go the checked way: %s", said)
            self._told = said
        self._open_at_s = time.monotonic() + self._pause_s
        self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)
