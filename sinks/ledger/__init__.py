"""The ledger: a Delta table with one row per transaction event."""
