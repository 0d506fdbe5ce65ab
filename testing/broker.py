"""A real Kafka for tests, and a cluster: the embedded broker under names for tests."""

from __future__ import annotations

from checkback.deploy.broker import QUICK_START as QUICK_START
from checkback.deploy.broker import EmbeddedBroker as Broker
from checkback.deploy.broker import EmbeddedCluster as Cluster

__all__ = ["QUICK_START", "Broker", "Cluster"]
