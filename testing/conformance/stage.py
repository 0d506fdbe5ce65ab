"""A deployment that a client is judged against: topics, perhaps a pipeline, and client programs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import Message as KafkaMessage

from checkback.protocol import properties as names
from checkback.protocol.properties import Headers
from checkback.protocol.record_size import HEADERS_MAX
from checkback.testing.conformance.book import Book, Script
from checkback.testing.conformance.program import PlannedSend, Program, Sent
from checkback.testing.conformance.report import FailedError, require
from checkback.testing.pipeline_process import RUN, PipelineProcess
from checkback.testing.topics import Topics
from checkback.testing.waiting import wait_until

RELAYED: Final = "relayed"
RELAY: Final = (*RUN[:-1], "relay")
HALF_PARTITIONS: Final = 3
CHECK_INTERVAL_MS: Final = 2_000
TIMES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "transaction_timeout_ms": 1_500,
        "check_interval_ms": CHECK_INTERVAL_MS,
        # Killed processes keep their share of the checks until their sessions end, perhaps one
        # after the other: no half may be discarded meanwhile.
        "check_max": 100,
        "trigger_interval_ms": 200,
    }
)
SECRETS: Final = MappingProxyType({"HmacSHA256": "12345678-256", "HmacSHA1": "12345678-1"})
BORN_HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 90.0


def account(algorithm: str) -> str:
    """Return the access key of the account with that algorithm."""
    return f"conformance-{algorithm}"


def rules() -> str:
    """Return rules of access control with an account for each algorithm."""
    accounts = (
        f"- accessKey: {account(algorithm)}\n  secretKey: {secret}\n"
        f"  signatureAlgorithm: {algorithm}\n"
        "  defaultTopicPerm: PUB\n  defaultGroupPerm: PUB|SUB\n"
        for algorithm, secret in SECRETS.items()
    )
    return "accounts:\n" + "".join(accounts)


@dataclass
class Stage:
    """The topics, programs and book that a case works with.

    Args:
        name: the stage's name in the report.
        topics: Checkback's topics under the stage's prefix.
        command: the command line of the client under test.
        companion: the command line of another client, which joins the same groups.
        folder: for logs.
        is_guarded: whether the pipeline has access control.
        kills: how many processes `kills_lose_and_double_nothing` kills.
        transactions: how many transactions it sends.
    """

    name: str
    topics: Topics
    command: Sequence[str]
    companion: Sequence[str]
    folder: Path
    is_guarded: bool
    kills: int = 0
    transactions: int = 0
    book: Book = field(default_factory=Book)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def unique(self, what: str) -> str:
        """Return a name that no other case has."""
        return f"{what}-{self.name}-{next(self._numbers)}"

    def real_topic(self) -> str:
        """Create a real topic with two partitions; return its name."""
        name = self.unique("real")
        self.topics.create(real=[name])
        return name

    @contextmanager
    def started(
        self, group: str, command: Sequence[str] = (), algorithm: str = "HmacSHA256", **options: Any
    ) -> Iterator[Program]:
        """Start a program of a group inside the block; then end the program.

        Args:
            group: producer group.
            command: the command line; default: that of the client under test.
            algorithm: of the signatures, where there is access control.
            options: more fields of the start.
        """
        program = self.program(command)
        try:
            program.start(**self.options(group, algorithm), **options)
            yield program
        finally:
            program.end()

    def program(self, command: Sequence[str] = ()) -> Program:
        """Return a new process; its producer is not started yet."""
        log = self.folder / f"{self.unique('program')}.err"
        return Program(command or self.command, log, self.book.answer)

    def options(self, group: str, algorithm: str = "HmacSHA256") -> dict[str, object]:
        """Return the fields of a start."""
        options: dict[str, object] = {
            "group": group,
            "bootstrap_servers": self.topics.bootstrap_servers,
            "topic_prefix": self.topics.prefix,
        }
        if self.is_guarded:
            options |= {
                "access_key": account(algorithm),
                "secret_key": SECRETS[algorithm],
                "signature_algorithm": algorithm,
                "born_host": BORN_HOST,
            }
        return options

    def send(self, program: Program, order: PlannedSend, script: Script | None = None) -> Sent:
        """Have a program send an order with that script."""
        self.book.plan(order, script or Script())
        return program.send(order)

    def half(self, sent: Sent) -> KafkaMessage:
        """Return the half of a send.

        Raises:
            FailedError: there is none at that place.
        """
        for record in self.topics.read(self.topics.names.half):
            if (record.partition(), record.offset()) == (sent.partition, sent.offset):
                return record
        raise FailedError(f"no half at {sent.partition}/{sent.offset}, as the client reported it")

    def ops(self, transaction_id: str, *, of_checks: bool = False) -> list[KafkaMessage]:
        """Return the ops of a transaction, from checks or from the send itself."""
        wanted = b"true" if of_checks else b"false"
        return [
            record
            for record in self.topics.read(self.topics.names.op)
            if record.key() == transaction_id.encode()
            and names.first_value(headers_of(record), names.FROM_TRANSACTION_CHECK) == wanted
        ]

    def finals(self, topic: str) -> dict[str, list[KafkaMessage]]:
        """Return the finals on a real topic by transaction id."""
        found: dict[str, list[KafkaMessage]] = {}
        for record in self.topics.read(topic):
            transaction_id = names.text_value(headers_of(record), names.UNIQ_KEY) or ""
            found.setdefault(transaction_id, []).append(record)
        return found


def headers_of(record: KafkaMessage) -> Headers:
    """Return a record's headers, a null value as empty."""
    found = record.headers() or []
    require(len(found) < HEADERS_MAX, "the record has too many headers to be read")
    return [(name, value or b"") for name, value in found]


def wait_for(holds: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds.

    Raises:
        FailedError: it did not hold in time.
    """
    try:
        wait_until(holds, timeout_s, what)
    except AssertionError as error:
        raise FailedError(str(error)) from None


@contextmanager
def pipeline(stage: Stage) -> Iterator[PipelineProcess]:
    """Run a pipeline over the stage's topics inside the block."""
    acl_file = stage.folder / "plain_acl.yml"
    acl_file.write_text(rules(), "utf-8")
    settings = stage.topics.settings(
        stage.folder / "checkpoint",
        acl_file=str(acl_file) if stage.is_guarded else "",
        application_id=f"conformance-{stage.name}",
        relay=stage.name == RELAYED,
        **TIMES,
    )
    stage.topics.create(settings)
    with ExitStack() as ending:
        process = ending.enter_context(PipelineProcess(settings, stage.folder))
        process.wait_for("started")
        if settings.relay:
            relay = PipelineProcess(settings, stage.folder / "relay", program=RELAY)
            ending.enter_context(relay).wait_for("started")
        yield process
