"""The parts of the bench that only a checkout has: comparisons, sizing, pictures."""
