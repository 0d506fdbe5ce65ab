"""Packed forms that leave the state: events, outcomes, settled marks, identity."""
