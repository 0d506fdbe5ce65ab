"""Writing to Kafka exactly once: a transaction per state partition and batch, its marker inside."""
