"""Connections, and what the client knows of brokers and topics."""
