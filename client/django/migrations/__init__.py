"""Migrations of the transaction log's table."""
