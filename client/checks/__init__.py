"""Check requests: read, answered, remembered."""
