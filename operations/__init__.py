"""What operators do: look at transactions, decide them, resume discarded ones, diagnose."""
