"""Signatures as RocketMQ makes them, vector by vector."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.protocol.errors import ConfigurationError
from checkback.security import SignatureAlgorithm, sign
from checkback.security.accounts import Account, Secret
from checkback.security.signing import is_same_signature, rocketmq_content

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


@pytest.mark.parametrize(
    ("fields", "body", "content"),
    [
        ({}, None, b""),
        ({"b": "2", "a": "1"}, b"body", b"12body"),
        ({"a": "1", "Signature": "no"}, None, b"1"),
        ({"a": "1", "b": None, "c": ""}, b"", b"1"),
        # Java's order of strings: digits, upper case, _, lower case.
        ({"a": "4", "_a": "3", "A": "2", "1": "1"}, None, b"1234"),
        ({"topic": "caf\u00e9"}, b"\xff", b"caf\xc3\xa9\xff"),
        # U+1F600 is two UTF-16 units that begin with D83D, so before U+FF5E.
        ({"\uff5e": "2", "\U0001f600": "1"}, None, b"12"),
        ({"AccessKey": "RocketMQ", "SecurityToken": "t", "b": "x"}, b"y", b"RocketMQtxy"),
    ],
)
def test_what_rocketmq_signs_of_a_request(
    fields: dict[str, str | None], body: bytes | None, content: bytes
) -> None:
    assert rocketmq_content(fields, body) == content


def test_rocketmq_signs_the_same_for_fields_that_end_elsewhere() -> None:
    """Why Checkback's own records are not signed this way."""
    assert rocketmq_content({"topic": "abc", "queueId": ""}) == rocketmq_content(
        {"topic": "", "queueId": "abc"}
    )


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
    assert is_same_signature(signature, signature)
    assert not is_same_signature(signature, signature[:-1])


@given(st.dictionaries(TEXTS, st.none() | TEXTS, max_size=5), st.none() | st.binary(max_size=9))
def test_any_fields_can_be_combined(fields: dict[str, str | None], body: bytes | None) -> None:
    assert rocketmq_content(fields, body).endswith(body or b"")


@given(TEXTS)
def test_a_strange_signature_is_only_a_wrong_one(given_signature: str) -> None:
    account = Account("orders-service", (Secret("a-long-secret", SHA256),))

    assert not account.has_signed(b"content", given_signature)


def test_both_secrets_of_an_account_are_valid_each_with_its_algorithm() -> None:
    account = Account("orders-service", (Secret("new-secret", SHA256), Secret("old-secret", SHA1)))

    assert account.has_signed(b"content", sign("new-secret", b"content", SHA256))
    assert account.has_signed(b"content", sign("old-secret", b"content", SHA1))
    assert not account.has_signed(b"content", sign("old-secret", b"content", SHA256))
    assert not account.has_signed(b"other", sign("new-secret", b"content", SHA256))
    assert "-secret" not in f"{account!r} {account} {account.secrets[0]}"
