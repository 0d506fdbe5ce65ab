"""What tests of direct delivery play with: owners to be stopped, the pipeline's side, the audit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer
from tests.integration.client import direct_owner
from tests.integration.client.direct_owner import COMMIT, ROLLBACK, Answering, Database
from tests.integration.client.playing import Checkback, header, partitions_of

from checkback.client import TransactionMQProducer
from checkback.client.check_request import read_check_request
from checkback.protocol import properties as names
from checkback.protocol.connection import kafka_python_settings
from checkback.protocol.records import check_headers

Place = tuple[int, int]
WAIT_S: Final = 60.0
VERDICTS: Final = {"8": COMMIT, "12": ROLLBACK}


class Owner:
    """A process of its own that delivers directly."""

    def __init__(self, checkback: Checkback, folder: Path, real_topic: str, **options: Any) -> None:
        started = {
            "bootstrap_servers": checkback.bootstrap_servers,
            "prefix": checkback.prefix,
            "group": checkback.group,
            "folder": str(folder),
            "real_topic": real_topic,
            **options,
        }
        self._process = subprocess.Popen(
            [sys.executable, direct_owner.__file__, json.dumps(started)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        os.set_blocking(self._process.stdout.fileno(), False)
        self._half_a_line = ""
        self.is_dead = False

    def command(self, **command: Any) -> None:
        """Have it do something, and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"seed": 0, "sends": [], **command}) + "\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        """Return the next line that it has written whole, empty where there is none."""
        assert self._process.stdout is not None
        # What does not block may find a line while it is being written.
        self._half_a_line += self._process.stdout.readline()
        if not self._half_a_line.endswith("\n"):
            return ""
        line, self._half_a_line = self._half_a_line, ""
        return line

    def wait(self) -> str:
        """Wait until it is done, stopped or dead, and say which."""
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            if self._line() == "done\n":
                return "done"
            pid, status = os.waitpid(self._process.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return "stopped"
            if pid:
                self._process.returncode = -9
                self.is_dead = True
                return "dead"
            time.sleep(0.005)
        raise AssertionError("the owner neither finished nor stopped")

    def wait_for_commit(self) -> str:
        """Wait until the commit begins that the command asked to be told of; return its session."""
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            said = self._line().split()
            assert said != ["done"], "done without that commit"
            if said:
                return said[1]
            time.sleep(0.0005)
        raise AssertionError("no such commit began")

    def go_on(self) -> None:
        """Wake it up."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it by force."""
        if not self.is_dead:
            self._process.kill()
            self._process.wait(WAIT_S)
            self.is_dead = True

    def check(self, half: Any) -> None:
        """Have it answer a check itself."""
        headers = [(name, value.hex()) for name, value in asked_headers(half)]
        key = None if half.key is None else half.key.hex()
        self.command(check=[key, half.value.hex(), headers, int(time.time() * 1000)])


class Direct:
    """Owners, somebody else who answers, and what came of it."""

    def __init__(self, checkback: Checkback, folder: Path) -> None:
        self.checkback = checkback
        self.folder = folder
        self.database = Database(folder)
        self.real_topic = f"{checkback.prefix}real"
        self._create_real_topic()
        self.other: TransactionMQProducer = checkback.producer(Answering(self.database))
        self.owners: list[Owner] = []

    def _create_real_topic(self) -> None:
        admin: Any = KafkaAdminClient(**self.checkback.connection)
        admin.create_topics({self.real_topic: {"num_partitions": 2}}, wait_for_metadata=True)
        admin.close()

    def owner(self, **options: Any) -> Owner:
        """Start a process that delivers directly."""
        owner = Owner(self.checkback, self.folder, self.real_topic, **options)
        self.owners.append(owner)
        return owner

    def close(self) -> None:
        """End the other producer, then all owners.

        In this order: a member that dies in a rebalance holds up the other one's leave for 5 s.
        """
        self.other.shutdown()
        for owner in self.owners:
            owner.kill()

    def answer(self, half: Any) -> None:
        """Answer the check of a half in this process, which is not its owner."""
        request = read_check_request(
            half.key, half.value, asked_headers(half), int(time.time() * 1000)
        )
        self.other._checks._answers.answer(request)

    def halves(self) -> list[Any]:
        """Return all halves."""
        return read_committed(self.checkback.bootstrap_servers, self.checkback.names.half)

    def ops(self) -> dict[Place, list[str]]:
        """Return what the ops of each half say, in their order; what counts for nothing left out.

        Halves that were sent while no session was open are plain, and so are their ops. An op of a
        direct half in the group's own topic would be in the wrong place.
        """
        found: defaultdict[Place, list[str]] = defaultdict(list)
        servers, topics = self.checkback.bootstrap_servers, self.checkback.names
        for op in read_committed(servers, topics.direct_op):
            what = header(op, names.COMMIT_OR_ROLLBACK) or ""
            if what == "9":
                found[_place(op)].append("delivered")
            elif what in VERDICTS and header(op, names.DIRECT_CLOSED):
                found[_place(op)].append(VERDICTS[what])
        plain = {place_of(one) for one in self.halves() if header(one, names.DIRECT_ID) is None}
        for op in read_committed(servers, topics.op):
            what = header(op, names.COMMIT_OR_ROLLBACK) or ""
            if what in VERDICTS and _place(op) in plain:
                found[_place(op)].append(VERDICTS[what])
        return found

    def settle(self, halves: Iterable[Any]) -> None:
        """Give a verdict on all halves that have none, as checks do in the end.

        Nobody runs their local transactions any more: what is open is rolled back.
        """
        known = self.ops()
        for half in halves:
            if not known.get(place_of(half)):
                self.database.end(header(half, names.UNIQ_KEY) or "", ROLLBACK)
                self.answer(half)

    def settle_all(self) -> None:
        """Give verdicts until every half has one: while brokers come back, an answer may fail."""
        deadline_s = time.monotonic() + WAIT_S
        while True:
            known = self.ops()
            left = [half for half in self.halves() if not known.get(place_of(half))]
            if not left:
                return
            assert time.monotonic() < deadline_s, f"{len(left)} halves got no verdict"
            self.settle(left)

    def until_delivered(self, owner: Owner) -> None:
        """Have an owner send until a message of that goes directly: it has a session again."""
        before = list(self.ops().values()).count(["delivered"])
        deadline_s = time.monotonic() + WAIT_S
        while list(self.ops().values()).count(["delivered"]) == before:
            assert time.monotonic() < deadline_s, "the owner opened no other session"
            owner.command(sends=[(COMMIT, False)], brokers_die=True)
            assert owner.wait() == "done"

    def audit(self) -> Counter[str]:
        """See that each half is visible exactly as often as it must be; return what came of them.

        A pipeline would write a final where the first verdict is a commit.
        """
        ops = self.ops()
        directly = Counter(
            (
                int(header(final, names.TRAN_HALF_QUEUE_ID) or -1),
                int(header(final, names.TRAN_PREPARED_QUEUE_OFFSET) or -1),
            )
            for final in read_committed(self.checkback.bootstrap_servers, self.real_topic)
        )
        outcomes: Counter[str] = Counter()
        for half in self.halves():
            place = place_of(half)
            said = ops.get(place, [])
            case = (place, said, directly[place], header(half, names.DIRECT_ID))
            assert said, f"nobody gave a verdict: {case}"
            assert said.count("delivered") == directly[place], f"final and op differ: {case}"
            assert "delivered" not in said[1:], f"delivered after another verdict: {case}"
            visible = directly[place] + (said[0] == COMMIT)
            truth = self.database.outcome(header(half, names.UNIQ_KEY) or "")
            assert visible == (truth == COMMIT), f"{truth}, visible {visible} times: {case}"
            outcomes[said[0]] += 1
        assert set(directly) <= set(map(place_of, self.halves()))
        return outcomes


def place_of(half: Any) -> Place:
    """Return where a half is stored."""
    return half.partition, half.offset


def _place(op: Any) -> Place:
    return op.partition, int(op.value)


def asked_headers(half: Any) -> names.Headers:
    """Return the headers of a check request for a half."""
    return check_headers(half.headers, half.partition, half.offset, 1, 60_000)


def read_committed(bootstrap_servers: str, topic: str) -> list[Any]:
    """Return all committed records of a topic, partition by partition, in order.

    Raises:
        AssertionError: an open transaction held the reader up for a minute.
    """
    connection = kafka_python_settings(bootstrap_servers, {})
    consumer = KafkaConsumer(
        isolation_level="read_committed", auto_offset_reset="earliest", **connection
    )
    behind = KafkaConsumer(**connection)
    try:
        partitions = partitions_of(behind, topic)
        ends = behind.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        records: list[Any] = []
        deadline_s = time.monotonic() + WAIT_S
        while any((consumer.position(one) or 0) < end for one, end in ends.items()):
            assert time.monotonic() < deadline_s, f"readers of {topic} are held up"
            for some in consumer.poll(100).values():
                records.extend(some)
    finally:
        consumer.close()
        behind.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))
