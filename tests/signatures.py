"""Whether an account made a signature, by a plain comparison with all of its secrets."""

from __future__ import annotations

from checkback.security.accounts import Account
from checkback.security.signing import sign


def has_signed(account: Account, content: bytes, signature: str) -> bool:
    """Return whether one of the account's secrets makes this signature, in Base64."""
    secrets = account.secrets
    return signature in {sign(secret.value, content, secret.algorithm) for secret in secrets}
