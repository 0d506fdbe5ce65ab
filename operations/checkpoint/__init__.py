"""What operators do to a checkpoint: verify, inspect, export, repartition."""
