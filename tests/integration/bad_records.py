"""What senders and operators do to topics that no client of ours does, for tests of the sink."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka import KafkaProducer
from tests.integration.sinking import World, create_listed

from checkback.protocol.properties import text_value
from checkback.testing import wait_until


class RawName(str):
    """A header's name that goes to the broker as these bytes."""

    __slots__ = ()

    def encode(self, *_: object, **__: object) -> bytes:
        return str.encode(self, "latin-1")


def admin(world: World) -> AdminClient:
    return AdminClient(dict(world.settings.connection))


def make_topic(world: World, name: str, partitions: int = 1, **config: str) -> str:
    made = {key.replace("_", "."): value for key, value in config.items()}
    full = f"{world.real}-{name}"
    create_listed(admin(world), NewTopic(full, partitions, 1, config=made))
    return full


def set_config(world: World, topic: str, **config: str) -> None:
    set_topic_config(world.settings.connection, topic, **config)


def set_topic_config(connection: Mapping[str, Any], topic: str, **config: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    client = AdminClient(dict(connection))  # held: its requests end with it
    client.incremental_alter_configs([resource])[resource].result()
    described = ConfigResource(ResourceType.TOPIC, topic)

    def is_applied() -> bool:
        """Tell whether the broker says so, too: the controller has answered before."""
        with suppress(KafkaException):  # where it has not even heard of the topic
            found = client.describe_configs([described])[described].result()
            return all(found[key.replace("_", ".")].value == value for key, value in config.items())
        return False

    wait_until(is_applied, what=f"{topic} with {config}")


def send(world: World, body: bytes, headers: list[tuple[str, bytes]], **settings: Any) -> None:
    """Send a half as no client of ours does."""
    producer = Producer({**world.settings.connection, "message.max.bytes": 400_000_000, **settings})
    sent: Any = [("PGROUP", b"g"), ("REAL_TOPIC", world.real.encode()), *headers]
    producer.produce(world.names.half, body, b"k", 0, headers=sent)
    producer.flush()


def send_raw(world: World, name: bytes, value: bytes, real: str | None = None) -> None:
    """Send a half with a header whose name need not be text."""
    servers = str(world.settings.connection["bootstrap.servers"])
    producer = KafkaProducer(bootstrap_servers=servers)
    topic = (real or world.real).encode()
    headers = [("PGROUP", b"g"), (RawName(name.decode("latin-1")), value), ("REAL_TOPIC", topic)]
    producer.send(world.names.half, b"raw", b"k", headers=headers, partition=0).get(30)
    producer.close()


def refused(world: World) -> list[tuple[bytes | None, dict[str, str | None]]]:
    """Bodies and facts on the refused topic."""
    facts = ("reason", "offset", "cut", "original_value_bytes", "original_headers", "message")
    return [
        (body, {one: text_value(headers, f"__checkback.errors.{one}") for one in facts})
        for _, body, headers in world.read(world.names.refused)
    ]


def bodies(world: World, topic: str) -> list[bytes]:
    return sorted(body or b"" for _, body, _ in world.read(topic))
