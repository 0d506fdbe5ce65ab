"""A client program under test: JSON lines on its standard streams, one process at a time.

docs/writing-a-client.md has the protocol.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkback.testing.conformance.report import FailedError, NotSupportedError, require

ANSWER_TIMEOUT_S: Final = 60.0
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedSend:
    """A message that the program is to send in a transaction.

    Args:
        topic: the real topic.
        body: the message's body; None for a tombstone.
        key: the record's key; None leaves it to the first of ``keys``.
        keys: RocketMQ's KEYS.
        tags: RocketMQ's TAGS.
        properties: names and values, in order.
        queue_id: partition of the real topic.
    """

    topic: str
    body: bytes | None
    key: bytes | None = None
    keys: str = ""
    tags: str = ""
    properties: Sequence[tuple[str, bytes]] = ()
    queue_id: int | None = None

    def as_line(self) -> Line:
        """Return the fields of its JSON line."""
        return {
            "topic": self.topic,
            "body": coded(self.body),
            "key": coded(self.key),
            "keys": self.keys,
            "tags": self.tags,
            "properties": [[name, coded(value)] for name, value in self.properties],
            "queue_id": self.queue_id,
        }

    @property
    def record_key(self) -> bytes | None:
        """The key of the half and of the final."""
        if self.key is not None:
            return self.key
        return self.keys.split(" ")[0].encode() or None


def coded(data: bytes | None) -> str | None:
    """Return bytes as Base64, None as None."""
    return None if data is None else base64.b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    """Return the bytes of a Base64 text, None for None."""
    return None if text is None else base64.b64decode(text)


@dataclass(frozen=True, slots=True)
class Sent:
    """The program's report of a send.

    Args:
        transaction_id: UNIQ_KEY of the half.
        partition: of the half topic.
        offset: of the half there.
        state: "commit", "rollback" or "unknown".
    """

    transaction_id: str
    partition: int
    offset: int
    state: str


class SendFailedError(Exception):
    """The program says that a send failed.

    Args:
        kind: "invalid", "missing", "refused", "not_stored" or "in_doubt".
        text: the client's own words.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class DiedError(Exception):
    """The process ended before it answered."""


@dataclass
class Program:
    """One process of a client program.

    Args:
        command: the command line.
        log: file for its standard error.
        answer: called in a thread of its own with this program and each question of its listener;
            it returns the state, None where the process was killed instead.
        environment: more variables of the process.
    """

    command: Sequence[str]
    log: Path
    answer: Callable[[Program, Line], str | None]
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(self.command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        self._numbers = itertools.count(1)
        self._has_ended = False
        self._waiting: dict[int, Future[Line]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def start(self, **options: object) -> None:
        """Make and start the producer.

        Raises:
            SendFailedError: the client refused.
            NotSupportedError: it lacks an option.
            DiedError, FailedError: the process ended, or does not answer.
        """
        self._call("start", options)

    def send(self, order: PlannedSend) -> Sent:
        """Send a message in a transaction and wait for the result.

        Raises:
            SendFailedError, NotSupportedError, DiedError, FailedError: as for `start`.
        """
        done = self._call("send", order.as_line())
        return Sent(done["transaction_id"], done["partition"], done["offset"], done["state"])

    def shutdown(self) -> int:
        """Shut the producer down; return how many sends and answers it says it left."""
        left: int = self._call("shutdown", {})["left"]
        return left

    def kill(self) -> None:
        """Send SIGKILL to the process and to all that it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def end(self) -> None:
        """Kill the process, and wait for its end."""
        self.kill()
        self._process.wait()
        self._reader.join(ANSWER_TIMEOUT_S)

    def _call(self, do: str, fields: Mapping[str, object]) -> Line:
        number = next(self._numbers)
        future: Future[Line] = Future()
        self._waiting[number] = future
        self._write({"do": do, "id": number, **fields})
        if self._has_ended:  # the dying process has taken the command and never answers it
            raise self._died()
        try:
            answer = future.result(ANSWER_TIMEOUT_S)
        except FutureTimeoutError:
            raise FailedError(
                f"the program does not answer {do!r} within {ANSWER_TIMEOUT_S:g} s"
            ) from None
        failed = answer.get("failed")
        if failed == "unsupported":
            raise NotSupportedError(answer.get("text", do))
        if failed is not None:
            raise SendFailedError(failed, answer.get("text", ""))
        return answer

    def _write(self, line: Line) -> None:
        stdin = self._process.stdin
        try:
            with self._lock:
                if stdin is not None:
                    stdin.write(json.dumps(line).encode() + b"\n")
                    stdin.flush()
        except OSError as error:
            raise self._died() from error

    def _read(self) -> None:
        stdout = self._process.stdout
        if stdout is not None:
            for raw in stdout:
                if raw.startswith(b"{") and raw.endswith(b"}\n"):
                    self._take(json.loads(raw))
        self._has_ended = True
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(self._died())

    def _died(self) -> DiedError:
        return DiedError(f"the program ended before it answered; its errors: {self.log}")

    def _take(self, line: Line) -> None:
        if "ask" in line:
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()
            return
        future = self._waiting.pop(line["id"], None)
        require(future is not None, f"the program answers what was not asked: {line}")
        if future is not None:
            future.set_result(line)

    def _answer(self, line: Line) -> None:
        state = self.answer(self, line)
        if state is not None:
            try:
                self._write({"do": "answer", "id": line["id"], "state": state})
            except DiedError:
                return
