"""One state partition's batch, written in order."""
