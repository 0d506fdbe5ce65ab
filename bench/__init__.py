"""Benchmarks of the pipeline and the client."""
