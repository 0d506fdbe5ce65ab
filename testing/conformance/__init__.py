"""Judges a client in any language: `python -m checkback.testing.conformance -- COMMAND…`."""
