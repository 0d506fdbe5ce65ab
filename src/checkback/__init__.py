"""Checkback: transactional messages on Kafka topics, resolved and asked back by Spark."""

__version__ = "0.1.0"
