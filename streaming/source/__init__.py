"""From Kafka records to verified events; knows no state."""
