"""Signs records: puts the headers of a signed record behind the others, Signature last."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

from checkback.protocol.errors import ConfigurationError
from checkback.protocol.properties import Headers
from checkback.protocol.record_size import headers_bytes_max
from checkback.protocol.signed_content import (
    is_access_key,
    signed_content,
    signed_tail,
    signed_tail_largest,
    with_signature,
)
from checkback.security.signing import SignatureAlgorithm, sign


@dataclass(frozen=True, slots=True)
class RecordSigner:
    """Signs in the name of an account.

    Args:
        now_ms: the time, milliseconds since 1970; the brokers' as well as it is known.
        born_host: the address to state; empty for none.

    Raises:
        ConfigurationError: the address is none, or no account can have the access key.
    """

    access_key: str
    secret_key: str = field(repr=False)
    now_ms: Callable[[], float] = field(repr=False)
    born_host: str = ""
    algorithm: SignatureAlgorithm = SignatureAlgorithm.HMAC_SHA256

    def __post_init__(self) -> None:
        if not is_access_key(self.access_key):
            raise ConfigurationError(
                f"access_key is {self.access_key!r}.",
                remedy="Give that of an account: none has a space or a control character in it.",
                key="access_key",
            )
        if self.born_host:
            object.__setattr__(self, "born_host", _in_full(self.born_host))

    def half(self, topic: str, key: bytes | None, body: bytes | None, headers: Headers) -> Headers:
        """Return the headers of a half message, signed."""
        return self._signed(topic, None, key, body, headers)

    def op(self, topic: str, partition: int, key: bytes, value: bytes, headers: Headers) -> Headers:
        """Return the headers of an op, signed."""
        return self._signed(topic, partition, key, value, headers)

    def headers_bytes_max(self) -> int:
        """Return how many bytes signing adds to a record, at most."""
        return headers_bytes_max(signed_tail_largest(self.access_key, self.born_host))

    def _signed(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> Headers:
        stated = headers + signed_tail(self.access_key, self.born_host, int(self.now_ms()))
        content = signed_content(topic, partition, key, value, stated, self.algorithm.value)
        return with_signature(stated, sign(self.secret_key, content, self.algorithm))


def _in_full(born_host: str) -> str:
    try:
        return ipaddress.ip_address(born_host).exploded
    except ValueError as error:
        raise ConfigurationError(
            f"born_host is {born_host!r}.",
            remedy="Give the IP address that this process is known by, or leave it out.",
            key="born_host",
        ) from error


def algorithm_of(name: str) -> SignatureAlgorithm:
    """Return an algorithm by its name.

    Raises:
        ConfigurationError: there is none of that name.
    """
    try:
        return SignatureAlgorithm(name)
    except ValueError as error:
        known = ", ".join(one.value for one in SignatureAlgorithm)
        raise ConfigurationError(
            f"signature_algorithm is {name!r}.",
            remedy=f"Set it to one of {known}.",
            key="signature_algorithm",
        ) from error
