"""Who a visitor is, and what the visitor may do: tokens, a proxy's header, sessions, forged forms.

Only a signed-in operator may act. A token is compared by its digest; a session is a random
cookie of this process, so that a restart signs everybody out.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from checkback.protocol.errors import ConfigurationError

TOKEN_CHARACTERS_MIN: Final = 16
SESSION_S: Final = 8 * 3_600
SESSIONS_MAX: Final = 1_000
FAILURES_MAX: Final = 10
FAILURE_WINDOW_S: Final = 60.0
OPERATOR_CHARACTERS_MAX: Final = 100
PROXY_SECRET_HEADER: Final = "x-checkback-proxy-secret"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request, and what it may see and do.

    Args:
        name: the operator's name, "" for somebody who has not signed in.
        forgery_token: what a form of this visitor has to send back, "" if there is no form.
        by_proxy: whether a reverse proxy signed the visitor in.
    """

    name: str = ""
    forgery_token: str = ""
    may_read: bool = False
    sees_bodies: bool = False
    by_proxy: bool = False

    @property
    def may_act(self) -> bool:
        """Whether actions are offered."""
        return bool(self.name)


@dataclass(frozen=True, slots=True, repr=False)
class AccessRules:
    """Who may read the console, and how operators sign in.

    Args:
        tokens: operators' names by the digest of their token.
        proxy_header: header with the operator's name, "" for none.
        proxy_secret: digest of the secret that the proxy adds. Its address would prove nothing:
            every program and every browser of the proxy's machine connects from there.
        bodies: who sees keys, properties and bodies; "nobody", "operators" or
            "everybody".
    """

    tokens: Mapping[str, str] = field(default_factory=dict)
    proxy_header: str = ""
    proxy_secret: str = ""
    anybody_reads: bool = True
    bodies: str = "operators"


class TooManyFailuresError(Exception):
    """Too many wrong tokens came within a minute."""


@dataclass(slots=True)
class Access:
    """Identifies the sender of a request by session or proxy."""

    rules: AccessRules
    now_s: Callable[[], float] = time.monotonic
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _sessions: dict[str, tuple[str, float]] = field(default_factory=dict)
    _failures: deque[float] = field(default_factory=lambda: deque(maxlen=FAILURES_MAX))
    _lock: Lock = field(default_factory=Lock)

    def visitor(
        self,
        session: str,
        proxy_names: Iterable[str],
        proxy_secrets: Iterable[str] = (),
    ) -> Visitor:
        """Return the sender of a request.

        Args:
            session: the session's cookie, "" for none.
            proxy_names: values of the proxy's header; only a single one counts.
            proxy_secrets: values of the header with the proxy's secret, likewise.
        """
        name = self._named(list(proxy_names)) if self._is_secret(list(proxy_secrets)) else ""
        if name:
            return self._operator(name, f"proxy:{name}", by_proxy=True)
        name = self._session_name(session)
        if name:
            return self._operator(name, f"session:{session}", by_proxy=False)
        reads = self.rules.anybody_reads
        return Visitor(may_read=reads, sees_bodies=reads and self.rules.bodies == "everybody")

    def sign_in(self, token: str) -> tuple[str, str] | None:
        """Return a new session and the operator's name, None for an unknown token.

        Raises:
            TooManyFailuresError: too many tokens were wrong within a minute.
        """
        now = self.now_s()
        with self._lock:
            recent = [one for one in self._failures if now - one < FAILURE_WINDOW_S]
            if len(recent) >= FAILURES_MAX:
                raise TooManyFailuresError
        given, found = digest(token), ""
        for known, name in self.rules.tokens.items():
            if hmac.compare_digest(given, known):
                found = name
        with self._lock:
            if not found:
                self._failures.append(now)
                return None
            self._forget_old(now)
            session = secrets.token_urlsafe(32)
            self._sessions[session] = (found, now + SESSION_S)
        return session, found

    def sign_out(self, session: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(session, None)

    def is_own_form(self, visitor: Visitor, token: str) -> bool:
        """Return whether a form's token is the one that this visitor's pages have."""
        wanted = visitor.forgery_token
        return bool(wanted) and hmac.compare_digest(wanted.encode(), token.encode())

    def _operator(self, name: str, identity: str, *, by_proxy: bool) -> Visitor:
        forgery = hmac.new(self._key, identity.encode(), hashlib.sha256).hexdigest()
        sees = self.rules.bodies in ("operators", "everybody")
        return Visitor(name, forgery, may_read=True, sees_bodies=sees, by_proxy=by_proxy)

    def _named(self, names: list[str]) -> str:
        if not self.rules.proxy_header or len(names) != 1:
            return ""
        name = names[0].strip()
        return name if name.isprintable() and len(name) <= OPERATOR_CHARACTERS_MAX else ""

    def _is_secret(self, secrets_given: list[str]) -> bool:
        wanted = self.rules.proxy_secret
        if not wanted or len(secrets_given) != 1:
            return False
        return hmac.compare_digest(digest(secrets_given[0]), wanted)

    def _session_name(self, session: str) -> str:
        with self._lock:
            name, until_s = self._sessions.get(session, ("", 0.0))
        return name if self.now_s() < until_s else ""

    def _forget_old(self, now: float) -> None:
        old = [one for one, (_, until_s) in self._sessions.items() if until_s <= now]
        for one in old:
            del self._sessions[one]
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]


def digest(token: str) -> str:
    """Return a token's digest."""
    return hashlib.sha256(token.strip().encode()).hexdigest()


def read_tokens(path: Path) -> dict[str, str]:
    """Return operators' names by the digest of their token.

    Args:
        path: a file with one operator per line: name, blanks, token. Lines that begin with # and
            empty lines are skipped.

    Raises:
        ConfigurationError: the file can't be read, or a line is something else.
    """
    return parse_tokens(_lines_of(path, "tokens"), str(path))


def _lines_of(path: Path, kind: str) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"The file of {kind} {path} can't be read: {said}.",
            remedy="Check the path and its rights.",
        ) from error


def read_proxy_secret(path: Path) -> str:
    """Return the digest of a proxy's secret.

    Raises:
        ConfigurationError: the file can't be read, or the secret is too short.
    """
    return proxy_secret_digest("".join(_lines_of(path, "the proxy's secret")), str(path))


def proxy_secret_digest(secret: str, source: str) -> str:
    """Return the digest of a proxy's secret.

    Raises:
        ConfigurationError: it is too short, or no header can hold it; the error does not show it.
    """
    secret = secret.strip()
    if len(secret) < TOKEN_CHARACTERS_MIN or not secret.isascii() or not secret.isprintable():
        raise ConfigurationError(
            f"{source} is not a secret of at least {TOKEN_CHARACTERS_MIN} ASCII characters.",
            remedy="`openssl rand -base64 24` makes one.",
        )
    return digest(secret)


def parse_tokens(lines: Iterable[str], source: str) -> dict[str, str]:
    """Return operators' names by the digest of their token.

    Raises:
        ConfigurationError: a line is no name and token; the error does not show the token.
    """
    tokens: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, token = line.strip().partition(" ")
        token = token.strip()
        if len(token) < TOKEN_CHARACTERS_MIN or " " in token:
            raise ConfigurationError(
                f"Line {number} of {source} is not a name and a token of at least "
                f"{TOKEN_CHARACTERS_MIN} characters.",
                remedy="Write: name, a blank, token; `openssl rand -base64 24` makes one.",
            )
        tokens[digest(token)] = name[:OPERATOR_CHARACTERS_MAX]
    return tokens
