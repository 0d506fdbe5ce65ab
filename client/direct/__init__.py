"""Direct delivery: the producer writes committed messages to their topics itself.

`delivery.py` is what the producer calls, `lane.py` the thread that delivers, `session.py` one
transactional id, `own_halves.py` what became of each half, `fences.py` and `direct_checks.py` the
answers to checks. docs/direct-delivery.md says what it gives and what it asks.
"""
