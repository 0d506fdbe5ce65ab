"""The compiled part of the sink. Nothing needs it; without it the same is done in Python."""
