"""Sends of halves, ops and plain messages."""
