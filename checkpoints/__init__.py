"""The checkpoint: its owner, the rules by time, Spark's logs and the state.

What reads a file raises CheckpointError where that can't be read, naming it.
"""
