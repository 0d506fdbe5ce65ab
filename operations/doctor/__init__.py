"""Checks of everything that the pipeline needs."""
