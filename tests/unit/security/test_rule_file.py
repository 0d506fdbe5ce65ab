"""plain_acl.yml: what is read from it, and every mistake with its line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkback.protocol.errors import ConfigurationError
from checkback.security import SignatureAlgorithm, sign
from checkback.security.access_control import AccessControl
from checkback.security.accounts import SECRETS_MAX, Permission, SecretReference
from checkback.security.findings import Finding

OF_ROCKETMQ = """\
# As RocketMQ ships it, with a second account.
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: 01234567
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC = SUB
  groupPerms:
  # here the name of the group stands alone
  - groupA=DENY
  - groupB=SUB|PUB

- accessKey: rocketmq2
  secretKey: '12345678'
  whiteRemoteAddress: 192.168.1.*
  # if it is admin, it may do everything
  admin: true
dataVersion:
- timestamp: 1596700000000
  counter: 3
"""


def parse(text: str) -> AccessControl:
    return AccessControl.parse(text, "plain_acl.yml", lambda reference: f"secret:{reference.name}")


def mistakes(text: str) -> list[tuple[int, str]]:
    with pytest.raises(ConfigurationError) as raised:
        parse(text)
    found = raised.value.fields["mistakes"]
    assert isinstance(found, list)
    for one in found:
        assert one["remedy"]
        assert f"line {one['line']}: {one['says']} {one['remedy']}" in str(raised.value)
    return [(one["line"], one["says"]) for one in found]


def test_a_file_of_rocketmq_means_the_same() -> None:
    access = parse(OF_ROCKETMQ)
    first, second = access.accounts.values()

    assert [one.pattern for one in access.global_white_addresses] == ["10.10.103.*", "192.168.0.*"]
    assert list(access.accounts) == ["RocketMQ", "rocketmq2"]
    # YAML's number 01234567 keeps its text.
    assert [(one.value, one.algorithm.value) for one in first.secrets] == [
        ("01234567", "HmacSHA256")
    ]
    assert first.white_addresses.has_nobody
    assert not first.is_admin
    assert first.default_topic_permission is Permission.DENY
    assert first.default_group_permission is Permission.SUB
    assert first.topic_permissions == {
        "topicA": Permission.DENY,
        "topicB": Permission.PUB | Permission.SUB,
        "topicC": Permission.SUB,
    }
    assert first.group_permissions == {
        "groupA": Permission.DENY,
        "groupB": Permission.PUB | Permission.SUB,
    }
    assert (second.is_admin, second.white_addresses.match("192.168.1.77")) == (True, True)
    assert second.default_topic_permission is second.default_group_permission is Permission.DENY


ACCOUNT = "accounts:\n- accessKey: orders-service\n  secretKey: {env: ORDERS}\n"
NOT_IN_A_KEY = "accessKey has a space, a line end, a control character or half a character in it."
MISTAKES = [
    ("", [(1, "The file is empty.")]),
    ("# nothing\n", [(1, "The file is empty.")]),
    ("{}", [(1, "There are no rules in it.")]),
    ("accounts:", [(1, "There are no rules in it.")]),
    ("dataVersion: []", [(1, "There are no rules in it.")]),
    ("- a", [(1, "the file has no keys.")]),
    ("accounts: 5", [(1, "accounts is no list.")]),
    ("accounts:\n- 5", [(2, "an account has no keys.")]),
    ("accounts: []\nacounts: []", [(2, "This is no key of the file.")]),
    ("accounts: []\naccounts: []", [(2, "accounts stands here again.")]),
    (
        "accounts:\n- {}",
        [(2, "The account has no accessKey."), (2, "The account has no secretKey.")],
    ),
    ("accounts:\n- secretKey: {env: A}", [(2, "The account has no accessKey.")]),
    ("accounts:\n- accessKey: orders\n  secretKey: {env: A}", [(2, "accessKey has 6 characters.")]),
    *[
        (
            f'accounts:\n- accessKey: "{key}"\n  secretKey: {{env: A}}',
            [(2, NOT_IN_A_KEY)],
        )
        for key in (
            "orders service", "orders\\xa0service", "orders\\nservice", "orders-service\\r",
            "\\0orders-service", "orders\\tservice", "orders\\x7fservice", "orders\\x85service",
            "orders\\u2028service", "orders\\u2029service", "orders\\ud800service",
        )
    ],
    ("accounts:\n- accessKey: [a]\n  secretKey: {env: A}", [(2, "accessKey is no text.")]),
    ("accounts:\n- accessKey: orders-service", [(2, "The account has no secretKey.")]),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey:",
        [(2, "The account has no secretKey.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: 123456",
        [(3, "The secret has 6 characters.")],
    ),
    (
        'accounts:\n- accessKey: orders-service\n  secretKey: "secret-\\udcff"',
        [(3, "The secret is not UTF-8.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: []",
        [(3, "secretKey has 0 secrets.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: [1234567, 2345678, 3456789]",
        [(3, "secretKey has 3 secrets.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: [[1234567]]",
        [(3, "secretKey is no text.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: {env: A, file: B}",
        [(3, "secretKey refers to no secret, or to two.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: {env: }",
        [(3, "env names nothing.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: {vault: A}",
        [(3, "This is no key of secretKey."), (3, "secretKey refers to no secret, or to two.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: {env: A, algorithm: MD5}",
        [(3, "There is no such signature algorithm.")],
    ),
    (ACCOUNT + "  signatureAlgorithm: sha256\n", [(4, "There is no such signature algorithm.")]),
    (ACCOUNT + "  admin: perhaps\n", [(4, "admin is neither true nor false.")]),
    (ACCOUNT + "  admin: [true]\n", [(4, "admin is no text.")]),
    (
        ACCOUNT + "  defaultTopicPerm: pub\n",
        [(4, "The value of defaultTopicPerm is no permission.")],
    ),
    (
        ACCOUNT + "  defaultGroupPerm: PUB,SUB\n",
        [(4, "The value of defaultGroupPerm is no permission.")],
    ),
    (ACCOUNT + "  topicPerms: a=PUB\n", [(4, "topicPerms is no list.")]),
    (
        ACCOUNT + "  topicPerms:\n  - a=PUB\n  - b\n",
        [(6, "An entry of topicPerms is not name=PERMISSION.")],
    ),
    (ACCOUNT + "  topicPerms:\n  - a=\n", [(5, "An entry of topicPerms is not name=PERMISSION.")]),
    (
        ACCOUNT + "  topicPerms:\n  - =PUB\n",
        [(5, "An entry of topicPerms is not name=PERMISSION.")],
    ),
    (
        ACCOUNT + "  groupPerms:\n  - a=PUB=SUB\n",
        [(5, "An entry of groupPerms is not name=PERMISSION.")],
    ),
    (
        ACCOUNT + "  groupPerms:\n  - a=PUT\n",
        [(5, "The value 'PUT' of groupPerms is no permission.")],
    ),
    (ACCOUNT + "  groupPerms:\n  - a: PUB\n", [(5, "The entry of groupPerms is no text.")]),
    (
        ACCOUNT + "  groupPerms:\n  - a=PUB\n  - a=SUB\n",
        [(6, "The name of this entry stands in groupPerms already.")],
    ),
    (ACCOUNT + "  topicPerm:\n  - a=PUB\n", [(4, "This is no key of an account.")]),
    (ACCOUNT + "  admin: true\n  admin: true\n", [(5, "admin stands here again.")]),
    (
        ACCOUNT + "  whiteRemoteAddress: 10.0.0.0/8\n",
        [(4, "The address pattern '10.0.0.0/8' has a network in it.")],
    ),
    (
        "accounts: []\nglobalWhiteRemoteAddresses:\n- 10.0.0.1\n- 127.0.0.**\n",
        [
            (
                4,
                (
                    "The address pattern '127.0.0.**' has the part '**', which is no number, no"
                    " range and not *."
                ),
            )
        ],
    ),
    (
        ACCOUNT + ACCOUNT.removeprefix("accounts:\n"),
        [(4, "The account 'orders-service' stands in line 2 already.")],
    ),
    # All mistakes of a file together, in the order of their lines.
    (
        ACCOUNT
        + "  admin: 1\n  topicPerms: [a=X]\n  x: y\nglobalWhiteRemoteAddresses: [1.2.3, 9]\n",
        [
            (4, "admin is neither true nor false."),
            (5, "The value 'X' of topicPerms is no permission."),
            (6, "This is no key of an account."),
            (7, "The address pattern '1.2.3' has '1.2.3' in it, which is no IP address."),
            (7, "The address pattern has a part that is no IP address."),
        ],
    ),
    # A reference in another notation, which would be the secret itself.
    ("accounts:\n- secretKey: !env ORDERS\n", [(2, "There is a YAML tag.")]),
    ("accounts:\n- secretKey: !vault |\n    $ANSIBLE_VAULT;1.1\n", [(2, "There is a YAML tag.")]),
    ("accounts: !include more.yml\n", [(1, "There is a YAML tag.")]),
    (ACCOUNT + "  topicPerms: !!null [a=DENY]\n", [(4, "There is a YAML tag.")]),
    *(
        (
            ACCOUNT.replace("{env: ORDERS}", reference),
            [(3, "The secret is written as a reference of another program.")],
        )
        for reference in ("${ORDERS_SECRET}", "$(cat secret)")
    ),
    # Who writes a pattern believes that it denies something.
    *(
        (
            f"{ACCOUNT}  {perms}: ['{name}=DENY']\n",
            [(4, f"An entry of {perms} has a character that no topic and no group has.")],
        )
        for perms, name in (("topicPerms", "pay*"), ("groupPerms", "^pay$"), ("topicPerms", "a b"))
    ),
    # What is no YAML at all.
    (
        "accounts: []\n---\naccounts: []\n",
        [
            (
                2,
                (
                    "This is no YAML: expected a single document in the stream, but found another"
                    " document."
                ),
            )
        ],
    ),
    ("accounts: []\nb: *c\n", [(2, "This is no YAML: found undefined alias.")]),
    ("accounts: [\n", [(2, "This is no YAML: expected the node content, but found.")]),
    ("accounts: []\n\x00", [(2, "This is no YAML: there is a character that YAML does not take.")]),
    (
        'accounts: "\\U7fffffff"',
        [(1, "This is no YAML: there is an escaped character that does not exist.")],
    ),
    ("[" * 5_000, [(1, "This is no YAML: it is nested too deep.")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), MISTAKES, ids=[one[0][:60] for one in MISTAKES])
def test_a_mistake_is_named_with_its_line(text: str, found: list[tuple[int, str]]) -> None:
    assert mistakes(text) == found


def test_secrets_by_reference_and_two_at_once() -> None:
    text = """\
accounts:
- accessKey: orders-service
  signatureAlgorithm: HmacSHA256
  secretKey:
  - {env: NEW_SECRET}
  - {file: old/secret, algorithm: HmacSHA1}
"""
    asked: list[SecretReference] = []

    def read(reference: SecretReference) -> str:
        asked.append(reference)
        return f"hunter2-{reference.name}"

    access = AccessControl.parse(text, "plain_acl.yml", read)
    account = access.accounts["orders-service"]

    assert asked == [SecretReference("env", "NEW_SECRET"), SecretReference("file", "old/secret")]
    assert len(account.secrets) == SECRETS_MAX
    sha256 = SignatureAlgorithm.HMAC_SHA256
    assert account.has_signed(b"content", sign("hunter2-NEW_SECRET", b"content", sha256))
    assert account.has_signed(b"content", sign("hunter2-old/secret", b"content"))
    assert "hunter2" not in f"{access!r} {access} {account.secrets}"
    assert access.warnings == ()


def test_a_text_alone_may_not_refer_to_secrets() -> None:
    with pytest.raises(ConfigurationError, match="line 3: The secret can't be read"):
        AccessControl.parse(ACCOUNT, "a record")


def test_what_is_allowed_and_unwise_is_a_warning() -> None:
    text = """\
globalWhiteRemoteAddresses: ["*"]
accounts:
- accessKey: orders-service
  secretKey: hunter2-hunter2
  whiteRemoteAddress: 10.0.0.*
  defaultTopicPerm: ANY
"""
    assert [(one.line, one.says) for one in parse(text).warnings] == [
        (1, "Who states an address of '*' needs no permission."),
        (4, "The secret itself stands in the file."),
        (5, "Who states an address of '10.0.0.*' needs no permission."),
        (6, "ANY gives nothing."),
    ]
    assert isinstance(parse(text).warnings[0], Finding)


def test_equal_rules_have_equal_versions() -> None:
    first = AccessControl.parse(ACCOUNT, "a", lambda _: "first-secret")
    again = AccessControl.parse(ACCOUNT, "b", lambda _: "first-secret")
    second = AccessControl.parse(ACCOUNT, "a", lambda _: "second-secret")
    other = AccessControl.parse(ACCOUNT + "  admin: true\n", "a", lambda _: "first-secret")

    assert first.version == again.version
    assert len({first.version, second.version, other.version}) == 3


def test_a_file_and_the_secrets_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ACCOUNT.replace("{env: ORDERS}", "[{env: ORDERS_SECRET}, {file: secrets/orders}]")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "orders").write_text("secret-in-a-file\n", "utf-8")
    (tmp_path / "plain_acl.yml").write_text(text, "utf-8")
    monkeypatch.setenv("ORDERS_SECRET", "secret-in-the-environment")

    access = AccessControl.from_file(tmp_path / "plain_acl.yml")

    assert [one.value for one in access.accounts["orders-service"].secrets] == [
        "secret-in-the-environment",
        "secret-in-a-file",
    ]

    monkeypatch.delenv("ORDERS_SECRET")
    (tmp_path / "secrets" / "orders").unlink()
    with pytest.raises(ConfigurationError) as raised:
        AccessControl.from_file(str(tmp_path / "plain_acl.yml"))
    assert "has 2 mistakes" in raised.value.message
    assert "the environment has no ORDERS_SECRET" in raised.value.message
    assert f"{tmp_path / 'secrets' / 'orders'}: No such file" in raised.value.message


def test_a_secret_that_would_sign_as_question_marks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wrote seven question marks in its place could sign as the account."""
    (tmp_path / "plain_acl.yml").write_text(ACCOUNT, "utf-8")
    monkeypatch.setitem(os.environb, b"ORDERS", "секреты".encode("koi8-r"))

    with pytest.raises(ConfigurationError, match="line 3: The secret is not UTF-8"):
        AccessControl.from_file(tmp_path / "plain_acl.yml")


@pytest.mark.parametrize("name", ["absent.yml", ".", "latin1.yml", "\0"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "latin1.yml").write_bytes(b"accounts: []\n# \xff")

    with pytest.raises(ConfigurationError, match="can't be read"):
        AccessControl.from_file(os.path.join(tmp_path, name))  # noqa: PTH118 - a path with a NUL


def test_an_application_process_signs_without_yaml() -> None:
    program = """
import sys
sys.modules["yaml"] = None
from checkback.security import AccessControl, RemoteAddressStrategy, sign
assert sign("12345678", b"RocketMQ") == "IUc8rrO/0gDch8CjObLQsW2rsiA="
assert not sys.modules.keys() & {"numpy", "pyspark", "kafka", "confluent_kafka", "click"}
"""
    subprocess.run([sys.executable, "-c", program], check=True)
