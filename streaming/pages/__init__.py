"""The stateful operator: one call per page and batch; knows no Kafka."""
