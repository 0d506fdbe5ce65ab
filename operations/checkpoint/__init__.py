"""What operators do to a checkpoint: inspect, verify, repartition."""
