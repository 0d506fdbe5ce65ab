"""Checkback's own files in a checkpoint."""
