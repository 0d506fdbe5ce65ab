"""Messages that share the fate of the caller's own database transaction."""
