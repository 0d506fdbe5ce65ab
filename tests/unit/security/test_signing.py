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
