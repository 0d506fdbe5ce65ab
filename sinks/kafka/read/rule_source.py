"""Where the rules of access control come from: a file, or the newest record of a Kafka topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, ConfigurationError
from checkback.protocol.topics import RULES_ON_KAFKA, rules_topic
from checkback.security import AccessControl
from checkback.security.access_control import RULES_LENGTH_MAX
from checkback.sinks.kafka.cluster.transient_errors import PASSING, is_transient, retry_transient
from checkback.sinks.kafka.read.errors import require_passing
from checkback.sinks.kafka.transaction.errors import cause_of

CONTENT_BYTES_MAX: Final = 4 * (RULES_LENGTH_MAX + 1)
"""Most bytes that rules can have: a character has up to four."""
ANSWER_S: Final = 20.0
POLL_S: Final = 1.0
LOOK_S: Final = 1.0
"""Pause between two looks at rules that somebody may be writing."""
LOOKS_MAX: Final = 10
"""Most looks at rules that are another version at every look."""
MESSAGES: Final = 100
MADE_S: Final = 1.0
"""How long the asked broker may not know a topic that was just created."""
SILENCE: Final = PASSING | {KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}
READER: Final = {
    "group.id": "checkback-access-rules",  # it joins no group
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    # If the topic was deleted and created again, all of it has to be read: librdkafka by default
    # would continue at its end, and never find rules that were published before.
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
}


@dataclass(frozen=True, slots=True)
class FileRules:
    """The rules in a file."""

    path: str
    is_written_whole: ClassVar[bool] = False
    """Whether a reader never finds a part of what somebody is writing."""

    def content(self) -> bytes:
        """Return what the file holds; empty where it can't be read."""
        try:
            with Path(self.path).open("rb") as opened:
                return opened.read(CONTENT_BYTES_MAX)
        except OSError:
            return b""

    def rules(self) -> AccessControl:
        """Read the file, and the secrets that it refers to.

        Raises:
            ConfigurationError: they can't be read, or have mistakes.
        """
        return AccessControl.from_file(self.path)

    def close(self) -> None:
        """Do nothing: the file is closed after each look."""


@dataclass(slots=True)
class TopicRules:
    """The newest record of a topic with one partition, best a compacted one."""

    topic: str
    connection: dict[str, Any]
    pause: Callable[[float], object] = time.sleep
    is_written_whole: ClassVar[bool] = True
    _consumer: Consumer | None = field(default=None, repr=False)
    _content: bytes = field(default=b"", repr=False)
    _at_end: bool = False

    def content(self) -> bytes:
        """Return the value of the newest record; empty if no broker answers."""
        try:
            self._read()
        except (KafkaException, BrokerError):
            self.close()
            return b""
        return self._content

    def rules(self) -> AccessControl:
        """Read the newest record, and the secrets that it refers to, files by their whole path.

        Raises:
            ConfigurationError: they can't be read, or have mistakes.
            BrokerError: the brokers do not answer.
        """
        try:
            self._read()
            text = self._content.decode("utf-8")
        except KafkaException as error:
            self.close()
            raise self._unread(error) from error
        except BrokerError as error:
            self.close()
            raise self._unreadable(error.message) from error
        except UnicodeDecodeError as error:
            raise self._unreadable("it is not UTF-8") from error
        if not text:
            raise self._unreadable("there is none")
        return AccessControl.from_text(text, f"{RULES_ON_KAFKA}{self.topic}", Path("/"))

    def close(self) -> None:
        """Leave the brokers."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer, self._at_end = None, False

    def _read(self) -> None:
        """Read up to the end at first, later what has arrived meanwhile."""
        if self._consumer is not None:
            while self._take(0.0):
                pass
            return
        self._consumer = self._opened()
        until_s = time.monotonic() + ANSWER_S
        while not self._at_end:
            if not self._take(POLL_S) and time.monotonic() > until_s:
                self.close()
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _take(self, wait_s: float) -> bool:
        """Take what comes within that time; return whether anything did."""
        found = [] if self._consumer is None else self._consumer.consume(MESSAGES, wait_s)
        for message in found:
            error = message.error()
            self._at_end |= error is not None and error.code() == KafkaError._PARTITION_EOF
            if error is None:
                self._content = message.value() or b""
            else:
                require_passing(error, self.topic, 0)
        return bool(found)

    def _opened(self) -> Consumer:
        consumer = Consumer({**self.connection, **READER})
        try:
            partitions = retry_transient(
                lambda: self._partitions(consumer), MADE_S, pause=self.pause
            )
            said = f"{partitions} partitions"
        except KafkaException as error:
            consumer.close()
            if not is_transient(error, {KafkaError.UNKNOWN_TOPIC_OR_PART}):
                raise
            partitions, said = 0, cause_of(error).str()
        if partitions != 1:
            consumer.close()
            raise BrokerError(f"one partition is wanted: {said}")
        consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
        return consumer

    def _partitions(self, consumer: Consumer) -> int:
        known = consumer.list_topics(self.topic, ANSWER_S).topics[self.topic]
        if known.error is not None:
            raise KafkaException(known.error)
        return len(known.partitions)

    def _unread(self, error: KafkaException) -> BrokerError | ConfigurationError:
        """Return the error of a topic that can't be read, or of brokers that do not answer."""
        if not is_transient(error, SILENCE):
            return self._unreadable(cause_of(error).str())
        return BrokerError(
            f"The access rules on the topic {self.topic} can't be read: {cause_of(error).str()}.",
            remedy="Check that the brokers are up, and try again.",
            source=f"{RULES_ON_KAFKA}{self.topic}",
        )

    def _unreadable(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"The record of access rules on the topic {self.topic} can't be read: {why}.",
            remedy="`checkback acl publish FILE` writes them there; check acl_file and the rights.",
            source=f"{RULES_ON_KAFKA}{self.topic}",
        )


RuleSource = FileRules | TopicRules


def rule_source(settings: Settings) -> RuleSource | None:
    """Return where the rules come from, None where access control is off."""
    if not settings.acl_file:
        return None
    topic = rules_topic(settings.acl_file)
    if not topic:
        return FileRules(settings.acl_file)
    return TopicRules(topic, settings.connection())


def settled_rules(
    source: RuleSource, pause: Callable[[float], object] = time.sleep
) -> AccessControl:
    """Return complete rules, even while a file is being written.

    A file that is cut at the end of an account has no mistakes. So rules that may be a part are
    returned only when the next look finds them again.

    Raises:
        ConfigurationError: they can't be read, have mistakes, or are others at every look.
    """
    if source.is_written_whole:
        return source.rules()
    before = _found(source)
    for _ in range(LOOKS_MAX):
        pause(LOOK_S)
        now = _found(source)
        if _name(now) == _name(before):
            if isinstance(now, ConfigurationError):
                raise now
            return now
        before = now
    raise ConfigurationError(
        f"The access rules changed at each of {LOOKS_MAX} looks.",
        remedy="Wait until acl_file and its secrets are written completely, and start again.",
    )


def _found(source: RuleSource) -> AccessControl | ConfigurationError:
    try:
        return source.rules()
    except ConfigurationError as error:
        return error


def _name(found: AccessControl | ConfigurationError) -> str:
    return str(found) if isinstance(found, ConfigurationError) else found.version


def present_rules(settings: Settings, *, may_be_part: bool = True) -> AccessControl | None:
    """Return the rules as they are now, None where access control is off.

    Args:
        may_be_part: whether one look is enough, which may find a file half written.

    Raises:
        ConfigurationError: they can't be read, or have mistakes.
        BrokerError: they are on a topic, and the brokers do not answer.
    """
    source = rule_source(settings)
    if source is None:
        return None
    with closing(source):
        return source.rules() if may_be_part else settled_rules(source)
