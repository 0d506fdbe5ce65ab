"""The checkpoint: its owner, the rules by time, Spark's logs and the state."""
