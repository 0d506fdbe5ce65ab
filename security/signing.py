"""Signatures: a code over the content proves that its sender has the secret, without sending it.

RocketMQ's way (AclSigner, AclUtils): HMAC with SHA-1, written in Base64. Checkback's own accounts
use SHA-256 unless their rules say otherwise.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from enum import Enum
from typing import Final

from checkback.protocol.errors import ConfigurationError


class SignatureAlgorithm(Enum):
    """An algorithm, by the name that Java and RocketMQ give it."""

    HMAC_SHA1 = "HmacSHA1"
    HMAC_SHA256 = "HmacSHA256"


_HASHES: Final = {
    SignatureAlgorithm.HMAC_SHA1: hashlib.sha1,
    SignatureAlgorithm.HMAC_SHA256: hashlib.sha256,
}


def sign(
    secret_key: str, content: bytes, algorithm: SignatureAlgorithm = SignatureAlgorithm.HMAC_SHA1
) -> str:
    """Return the signature of a content, in Base64.

    Args:
        secret_key: the secret; its UTF-8 bytes are the key.
        content: what is signed.
        algorithm: RocketMQ's HmacSHA1 unless another one is given.

    Raises:
        ConfigurationError: the secret is empty (RocketMQ's code 10015).
    """
    if not secret_key:
        raise ConfigurationError(
            "The secret key is empty.", remedy="Give the secret of the account.", key="secret_key"
        )
    # A lone surrogate has no UTF-8 bytes; Java writes a question mark for it, too.
    key = secret_key.encode("utf-8", "replace")
    return base64.b64encode(hmac.digest(key, content, _HASHES[algorithm])).decode("ascii")
