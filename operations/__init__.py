"""What operators do: look up transactions, decide them, resume discarded ones, diagnose.

What asks Kafka raises BrokerError where the brokers do not answer or refuse; what reads a
checkpoint raises CheckpointError where a file can't be read.
"""
