"""Fences the session of a dead or silent process before another one answers for it.

A fence is an InitProducerId on the session's transactional id. Once it succeeded, every transaction
of that session is decided, and no other can commit. librdkafka has no call of that name:
`init_transactions` of a producer with that id is one, and tries until the brokers have ended what
was open.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from checkback.client.counters import ClientEvent, Counters
from checkback.client.send_errors import cause_of
from checkback.protocol.direct import is_direct_id_of

_log = logging.getLogger(__name__)

REMEMBERED_MAX: Final = 10_000
"""A session that was forgotten is fenced once more, which changes nothing."""


class Fences:
    """Fences sessions of one producer group, each once. Threads may share it.

    Args:
        open_producer: opens a producer of a transactional id.
        topic_prefix: of the group's Checkback.
        producer_group: whose sessions may be fenced.
        counters: fences of other processes' sessions are counted.
    """

    def __init__(
        self,
        open_producer: Callable[[str], Any],
        topic_prefix: str,
        producer_group: str,
        counters: Counters,
    ) -> None:
        self._open_producer = open_producer
        self._topic_prefix = topic_prefix
        self._producer_group = producer_group
        self._counters = counters
        self._fenced: dict[str, None] = {}
        self._turns: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def may_fence(self, session_id: str) -> bool:
        """Tell whether that is the id of a session of this group.

        A half says itself which session it belongs to. A forged half must not make this process
        fence another group's session, or a producer that has nothing to do with Checkback.
        """
        return is_direct_id_of(session_id, self._topic_prefix, self._producer_group)

    def fence(self, session_id: str, timeout_s: float) -> bool:
        """Make sure that no transaction of another process's session can commit any more.

        Args:
            session_id: one that may be fenced.
            timeout_s: how long the brokers may take.

        Returns:
            Whether it is certain. If not, try again; until then no verdict may be given.
        """
        with self._turn(session_id):
            if session_id in self._fenced:
                return True
            if not self._fence(session_id, timeout_s):
                return False
            self._remember(session_id)
        self._counters.add(ClientEvent.FENCED)
        _log.info("Fenced the direct session %s", session_id)
        return True

    def end_own(self, session_id: str, timeout_s: float) -> None:
        """End what a session of this process left open, so that readers need not wait for it.

        This only saves time: without it the brokers end the transaction when it is too old.
        """
        self._fence(session_id, timeout_s)

    def _turn(self, session_id: str) -> threading.Lock:
        with self._lock:
            if len(self._turns) > REMEMBERED_MAX:
                # Whoever holds one of these at worst fences beside another, which is harmless.
                self._turns.clear()
            return self._turns.setdefault(session_id, threading.Lock())

    def _remember(self, session_id: str) -> None:
        with self._lock:
            self._fenced[session_id] = None
            while len(self._fenced) > REMEMBERED_MAX:
                del self._fenced[next(iter(self._fenced))]

    def _fence(self, session_id: str, timeout_s: float) -> bool:
        try:
            producer = self._open_producer(session_id)
            producer.init_transactions(timeout_s)
        except:  # noqa: E722 - librdkafka's Python face raises what is no exception
            said = cause_of(sys.exc_info()[1]).str()
            _log.warning("The direct session %s is not fenced yet: %s", session_id, said)
            return False
        producer.close()
        return True
