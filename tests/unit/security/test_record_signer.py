"""A signed record: checkback.security.record_signer."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import pytest
from tests.signatures import has_signed

from checkback.client.options import ProducerOptions
from checkback.deploy.settings import load_settings
from checkback.operations.operator_account import operator_signer
from checkback.protocol.configuration import MASK, Settings
from checkback.protocol.errors import ConfigurationError
from checkback.protocol.record_size import headers_bytes_max
from checkback.protocol.records import Op, half_headers
from checkback.protocol.signed_content import signed_content, signed_tail
from checkback.security import AccessControl, SignatureAlgorithm
from checkback.security.record_signer import RecordSigner

SECRET = "a-secret-of-tests"  # noqa: S105 - of no account
HALF = half_headers(producer_group="g", transaction_id="u", real_topic="t", properties={"a": "b"})


def signer(**changes: object) -> RecordSigner:
    return RecordSigner("account", SECRET, lambda: 1_700_000_000_000.7, "10.0.0.1", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", list(SignatureAlgorithm))
def test_a_signature_is_the_hmac_of_the_content(algorithm: SignatureAlgorithm) -> None:
    headers = signer(algorithm=algorithm).half("half", b"k", b"body", HALF)

    stated = signed_tail("account", "10.0.0.1", 1_700_000_000_000)
    content = signed_content("half", None, b"k", b"body", HALF + stated, algorithm.value)
    name = {"HmacSHA1": hashlib.sha1, "HmacSHA256": hashlib.sha256}[algorithm.value]
    expected = base64.b64encode(hmac.new(SECRET.encode(), content, name).digest())
    assert headers == [
        *HALF,
        ("__BORNHOST", b"10.0.0.1"),
        ("Signature", b"1700000000000 account " + expected),
    ]


def test_signing_leaves_the_headers_that_it_was_given() -> None:
    op = Op(1, 2, "g", "u", 8)
    headers = op.headers()

    signed = signer().op("op", 1, op.key(), op.value(), headers)

    assert headers == op.headers()
    added = headers_bytes_max(signed[len(headers) :])
    assert added <= signer().headers_bytes_max()


def test_an_address_is_stated_in_full() -> None:
    made = RecordSigner("account", SECRET, lambda: 0, "fe80::1").half("half", None, b"", HALF)

    assert dict(made)["__BORNHOST"] == b"fe80:0000:0000:0000:0000:0000:0000:0001"


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="born_host is 'somewhere'"):
        RecordSigner("account", SECRET, lambda: 0, "somewhere")


@pytest.mark.parametrize("access_key", ["an account", "account\n", "\ud800"])
def test_an_access_key_that_no_account_can_have_is_refused(access_key: str) -> None:
    with pytest.raises(ConfigurationError, match="access_key is ") as raised:
        ProducerOptions(access_key=access_key, secret_key=SECRET).signer(lambda: 0)

    assert raised.value.fields["key"] == "access_key"


def test_nothing_shows_the_secret() -> None:
    options = ProducerOptions(access_key="account", secret_key=SECRET)
    settings = Settings(access_key="account", secret_key=SECRET)

    assert SECRET not in repr(signer()) + repr(options) + repr(options.signer(lambda: 0))
    assert SECRET not in repr(settings)
    assert settings.masked()["secret_key"] == MASK


def test_an_option_that_makes_no_signer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Only one of access_key and secret_key is set"):
        ProducerOptions(access_key="account")
    with pytest.raises(ConfigurationError, match="Only one of access_key and secret_key is set"):
        Settings(secret_key=SECRET)
    with pytest.raises(ConfigurationError, match="signature_algorithm is 'MD5'"):
        ProducerOptions(signature_algorithm="MD5")


def test_an_operator_signs_where_access_is_controlled(tmp_path: Path) -> None:
    assert operator_signer(Settings()) is None
    rules = str(tmp_path / "plain_acl.yml")
    with pytest.raises(ConfigurationError, match="that no admin account signed"):
        operator_signer(Settings(acl_file=rules))

    signed = operator_signer(Settings(acl_file=rules, access_key="root", secret_key=SECRET))

    assert signed is not None
    assert signed.access_key == "root"


@pytest.mark.parametrize("algorithm", ["HmacSHA256", "HmacSHA1"])
def test_an_operator_signs_with_the_algorithm_of_the_account(algorithm: str) -> None:
    rules = AccessControl.parse(
        f"""
accounts:
- accessKey: operators
  secretKey: {SECRET}
  signatureAlgorithm: {algorithm}
  admin: true
""",
        "rules",
    )
    env = {"CHECKBACK_ACCESS_KEY": "operators", "CHECKBACK_SECRET_KEY": SECRET}
    if algorithm != "HmacSHA256":  # the default
        env["CHECKBACK_SIGNATURE_ALGORITHM"] = algorithm

    signed = operator_signer(load_settings(None, env, {}))

    assert signed is not None
    *headers, (name, value) = signed.half("half", b"k", b"body", HALF)
    stated, _, signature = value.rpartition(b" ")
    said = [*headers, (name, stated + b" ")]
    content = signed_content("half", None, b"k", b"body", said, algorithm)
    assert has_signed(rules.accounts["operators"], content, signature.decode())
