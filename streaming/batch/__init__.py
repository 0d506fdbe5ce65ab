"""One batch in the driver: what it was decided by, its output, its end."""
