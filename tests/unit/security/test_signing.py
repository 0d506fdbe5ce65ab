"""Signatures as RocketMQ makes them, vector by vector."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.signatures import has_signed

from checkback.protocol.errors import ConfigurationError
from checkback.security import SignatureAlgorithm, sign
from checkback.security.accounts import Account, Secret

SHA1, SHA256 = SignatureAlgorithm.HMAC_SHA1, SignatureAlgorithm.HMAC_SHA256


def test_the_vector_of_rocketmq() -> None:
    assert sign("12345678", b"RocketMQ") == "IUc8rrO/0gDch8CjObLQsW2rsiA="


@pytest.mark.parametrize(
    ("secret", "content", "sha1_hex", "sha256_hex"),
    [
        # RFC 2202 and RFC 4231, case 2.
        (
            "Jefe",
            b"what do ya want for nothing?",
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        # Wikipedia's example, which every library's documentation repeats.
        (
            "key",
            b"The quick brown fox jumps over the lazy dog",
            "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9",
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
        ),
    ],
)
def test_vectors_of_hmac(secret: str, content: bytes, sha1_hex: str, sha256_hex: str) -> None:

    assert base64.b64decode(sign(secret, content)).hex() == sha1_hex
    assert base64.b64decode(sign(secret, content, SHA256)).hex() == sha256_hex


def test_an_empty_secret_signs_nothing() -> None:
    with pytest.raises(ConfigurationError, match="secret key is empty"):
        sign("", b"content")


TEXTS = st.text(st.characters(), max_size=20)


@given(TEXTS, st.binary(max_size=200), st.sampled_from(SignatureAlgorithm))
def test_any_secret_signs_any_content(
    secret: str, content: bytes, algorithm: SignatureAlgorithm
) -> None:
    if not secret:
        return
    signature = sign(secret, content, algorithm)

    hashing = hashlib.sha1 if algorithm is SHA1 else hashlib.sha256
    code = hmac.new(secret.encode("utf-8", "replace"), content, hashing).digest()
    assert base64.b64decode(signature) == code


def test_both_secrets_of_an_account_are_valid_each_with_its_algorithm() -> None:
    account = Account("orders-service", (Secret("new-secret", SHA256), Secret("old-secret", SHA1)))

    assert has_signed(account, b"content", sign("new-secret", b"content", SHA256))
    assert has_signed(account, b"content", sign("old-secret", b"content", SHA1))
    assert not has_signed(account, b"content", sign("old-secret", b"content", SHA256))
    assert not has_signed(account, b"other", sign("new-secret", b"content", SHA256))
    assert "-secret" not in f"{account!r} {account} {account.secrets[0]}"
