"""What a start checks and takes, before Spark's query runs."""
