"""What operators do: look up transactions, decide them, resume discarded ones, diagnose."""
