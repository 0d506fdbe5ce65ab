"""Spark's own files in a checkpoint: logs and state."""
