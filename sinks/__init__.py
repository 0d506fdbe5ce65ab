"""Where outcomes go: Kafka exactly once, and the Delta ledger."""
