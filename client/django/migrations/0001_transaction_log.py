"""Creates the transaction log (docs/protocol.md); every database that Django knows takes this."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations

TABLE = """
CREATE TABLE checkback_transaction (
    transaction_id VARCHAR(64) NOT NULL PRIMARY KEY,
    state SMALLINT NOT NULL,
    written_at_ms BIGINT NOT NULL
)
"""
INDEX = "CREATE INDEX checkback_transaction_written_at ON checkback_transaction (written_at_ms)"


class Migration(migrations.Migration):  # type: ignore[misc]
    """The table and its index."""

    operations: ClassVar = [migrations.RunSQL([TABLE, INDEX], ["DROP TABLE checkback_transaction"])]
