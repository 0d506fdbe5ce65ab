"""What the brokers know of topics, and errors that pass."""
