"""The databases that a `Producer` can use: what each one does, and how one is chosen."""

from __future__ import annotations

from typing import Protocol

from checkback.client.sessions.dbapi import DbApiDatabase
from checkback.client.sessions.joined import Joined
from checkback.client.sessions.log_table import LogDatabase
from checkback.protocol.errors import ConfigurationError


class SessionDatabase(LogDatabase, Protocol):
    """A database with transactions that messages can join."""

    def join(self, target: object) -> Joined:
        """Return the messages of the transaction that a session is in.

        Raises:
            ConfigurationError: its transactions can't have messages, or are in another database.
        """
        ...

    def create_table(self, name: str) -> None:
        """Create the log's table and its index unless they exist."""


def database_of(given: object) -> SessionDatabase:
    """Return the database for the ``database`` argument of a `Producer`.

    Raises:
        ConfigurationError: it is none of the known kinds.
    """
    # A backend of Django may be a class of another library that derives from Django's.
    libraries = {kind.__module__.partition(".")[0] for kind in type(given).__mro__}
    if "sqlalchemy" in libraries:
        from checkback.client.sessions.sqlalchemy import database_of_engine

        return database_of_engine(given)
    if "django" in libraries:
        from checkback.client.sessions.django import database_of_django

        return database_of_django(given)
    if callable(given):
        return DbApiDatabase(given)
    raise ConfigurationError(
        f"database is a {type(given).__name__}.",
        remedy="Give an engine of SQLAlchemy, a connection of Django, or a function that opens a"
        " connection of a DB-API driver.",
        key="database",
    )
