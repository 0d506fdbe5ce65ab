"""Reads of Kafka: records by offset, and offsets."""
