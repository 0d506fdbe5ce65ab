"""What a producer counts and traces."""
