"""Benchmarks of the pipeline and the client, for a checkout: ``python -m bench VERB``."""
