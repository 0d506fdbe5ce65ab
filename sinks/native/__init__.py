"""The compiled part of the sink. It is optional: without it Python does the same work."""
