"""plain_acl.yml: what is read from it, and every mistake with its line and without a secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.signatures import has_signed

from checkback.protocol.errors import ConfigurationError
from checkback.security import SignatureAlgorithm, sign
from checkback.security.access_control import RULES_LENGTH_MAX, AccessControl
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
REFERENCE = "The secret is written as a reference of another program."
NO_ENTRY = "is not name=PERMISSION."
Mistake = tuple[str, list[tuple[int, str]]]


def one(text: str, line: int, says: str) -> Mistake:
    return text, [(line, says)]


def of_secret(value: str, *says: str) -> Mistake:
    return ACCOUNT.replace("{env: ORDERS}", value), [(3, one) for one in says]


def of_account(line: str, says: str, at: int = 4) -> Mistake:
    return one(f"{ACCOUNT}  {line}\n", at, says)


MARK = "There is a YAML tag, anchor or alias."
MISTAKES = [
    one("", 1, "The file is empty."),
    one("# nothing\n", 1, "The file is empty."),
    *(one(text, 1, "There are no rules in it.") for text in ("{}", "accounts:", "dataVersion: []")),
    one("- a", 1, "the file has no keys."),
    one("accounts: 5", 1, "accounts is no list."),
    one("accounts:\n- 5", 2, "an account has no keys."),
    one("accounts: []\nacounts: []", 2, "This is no key of the file."),
    one("accounts: []\naccounts: []", 2, "accounts stands here again."),
    ("accounts:\n- {}",
     [(2, "The account has no accessKey."), (2, "The account has no secretKey.")]),
    one("accounts:\n- secretKey: {env: A}", 2, "The account has no accessKey."),
    one("accounts:\n- accessKey: orders\n  secretKey: {env: A}", 2, "accessKey has 6 characters."),
    *(
        one(f'accounts:\n- accessKey: "{key}"\n  secretKey: {{env: A}}', 2, NOT_IN_A_KEY)
        for key in (
            "orders service", "orders\\xa0service", "orders\\nservice", "orders-service\\r",
            "\\0orders-service", "orders\\tservice", "orders\\x7fservice", "orders\\x85service",
            "orders\\u2028service", "orders\\u2029service", "orders\\ud800service",
        )
    ),
    one("accounts:\n- accessKey: [a]\n  secretKey: {env: A}", 2, "accessKey is no text."),
    one("accounts:\n- accessKey: orders-service", 2, "The account has no secretKey."),
    one("accounts:\n- accessKey: orders-service\n  secretKey:", 2, "The account has no secretKey."),
    of_secret("123456", "The secret has 6 characters."),
    of_secret('"secret-\\udcff"', "The secret is not UTF-8."),
    of_secret("[]", "secretKey has 0 secrets."),
    of_secret("[1234567, 2345678, 3456789]", "secretKey has 3 secrets."),
    of_secret("[[1234567]]", "secretKey is no text."),
    of_secret("{env: A, file: B}", "secretKey refers to no secret, or to two."),
    of_secret("{env: }", "env names nothing."),
    of_secret("{vault: A}", "This is no key of secretKey.",
              "secretKey refers to no secret, or to two."),
    of_secret("{env: A, algorithm: MD5}", "There is no such signature algorithm."),
    # Secrets that prove nothing, or in a notation that would be the secret itself.
    one(ACCOUNT.replace("{env: ORDERS}", "orders-service"), 2,
        "The secret is the accessKey, which every record shows."),
    of_secret("[' \t      ', {env: A}]", "The secret has nothing in it but blanks."),
    *(of_secret(text, REFERENCE)
      for text in ("$ORDERS_SECRET", "'{{ orders_secret }}'", "${ORDERS_SECRET}", "$(cat secret)")),
    one("accounts:\n- secretKey: !env ORDERS\n", 2, MARK),
    one("accounts:\n- secretKey: !vault |\n    $ANSIBLE_VAULT;1.1\n", 2, MARK),
    one("accounts: !include more.yml\n", 1, MARK),
    of_account("topicPerms: !!null [a=DENY]", MARK),
    of_account("signatureAlgorithm: sha256", "There is no such signature algorithm."),
    of_account("admin: perhaps", "admin is neither true nor false."),
    of_account("admin: [true]", "admin is no text."),
    of_account("defaultTopicPerm: pub", "The value of defaultTopicPerm is no permission."),
    of_account("defaultGroupPerm: PUB,SUB", "The value of defaultGroupPerm is no permission."),
    of_account("topicPerms: a=PUB", "topicPerms is no list."),
    of_account("topicPerms:\n  - a=PUB\n  - b", f"An entry of topicPerms {NO_ENTRY}", 6),
    of_account("topicPerms:\n  - a=", f"An entry of topicPerms {NO_ENTRY}", 5),
    of_account("topicPerms:\n  - =PUB", f"An entry of topicPerms {NO_ENTRY}", 5),
    of_account("groupPerms:\n  - a=PUB=SUB", f"An entry of groupPerms {NO_ENTRY}", 5),
    of_account("groupPerms:\n  - a=PUT", "The value 'PUT' of groupPerms is no permission.", 5),
    of_account("groupPerms:\n  - a: PUB", "The entry of groupPerms is no text.", 5),
    of_account("groupPerms:\n  - a=PUB\n  - a=SUB",
               "The name of this entry stands in groupPerms already.", 6),
    of_account("topicPerm:\n  - a=PUB", "This is no key of an account."),
    of_account("admin: true\n  admin: true", "admin stands here again.", 5),
    of_account("whiteRemoteAddress: 10.0.0.0/8",
               "The address pattern '10.0.0.0/8' has a network in it."),
    one("accounts: []\nglobalWhiteRemoteAddresses:\n- 10.0.0.1\n- 127.0.0.**\n", 4,
        "The address pattern '127.0.0.**' has the part '**', which is no number, no range and not"
        " *."),
    one(ACCOUNT + ACCOUNT.removeprefix("accounts:\n"), 4,
        "The account 'orders-service' stands in line 2 already."),
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
    # Who writes a pattern believes that it denies something.
    *(
        of_account(f"{perms}: ['{name}=DENY']",
                   f"An entry of {perms} has a character that no topic and no group has.")
        for perms, name in (("topicPerms", "pay*"), ("groupPerms", "^pay$"), ("topicPerms", "a b"))
    ),
    # What is no YAML at all.
    one("accounts: []\n---\naccounts: []\n", 2,
        "This is no YAML: expected a single document in the stream, but found another document."),
    # A small text said more than the memory holds: 80,000 characters took 13 s.
    one("accounts: &a []\n", 1, MARK),
    one("accounts: []\nb: *c\n", 2, MARK),
    one("accounts: [\n", 2, "This is no YAML: expected the node content, but found."),
    one("accounts: []\n\x00", 2,
        "This is no YAML: there is a character that YAML does not take."),
    one('accounts: "\\U7fffffff"', 1,
        "This is no YAML: there is an escaped character that does not exist."),
    one("[" * 5_000, 1, "This is no YAML: it is nested too deep."),
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
    assert has_signed(account, b"content", sign("hunter2-NEW_SECRET", b"content", sha256))
    assert has_signed(account, b"content", sign("hunter2-old/secret", b"content"))
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


def test_what_cannot_be_seen_of_a_key_or_a_secret_is_a_warning() -> None:
    text = """\
accounts:
- {accessKey: orders\u200bservice, secretKey: {file: A}}
- {accessKey: stock-service, secretKey: {env: B}}
- accessKey: rocketmq-client
  secretKey: [{env: C}, {env: D}]
- {accessKey: operators, secretKey: {env: E}}
"""
    found = {
        "A": "\ufeffsecret-1",
        "B": "secret-2",
        "C": " secret-3",
        "D": "secret-4\n",
        "E": "secret-2",
    }
    rules = AccessControl.parse(text, "plain_acl.yml", lambda reference: found[reference.name])

    hidden = "The secret begins or ends with a blank, a line end or a byte order mark."
    assert [(one.line, one.says) for one in rules.warnings] == [
        (2, hidden),
        (2, "accessKey has a character in it that can't be seen."),
        (5, hidden),
        (5, hidden),
        (6, "The account in line 3 has the same secret."),
    ]


def test_an_error_names_the_first_ten_mistakes() -> None:
    with pytest.raises(ConfigurationError) as raised:
        AccessControl.parse("accounts:\n" + "- {}\n" * 500, "rules")

    assert "has 1000 mistakes" in raised.value.message
    assert raised.value.message.endswith(" And 990 more.")
    assert raised.value.message.count(": line ") + raised.value.message.count(". line ") == 10
    found = raised.value.fields["mistakes"]
    assert isinstance(found, list)
    assert len(found) == 1000


def test_rules_that_would_take_minutes_to_read_are_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text("accounts: []\n#" + "x" * RULES_LENGTH_MAX)

    with pytest.raises(ConfigurationError, match="more than 1000000 characters") as raised:
        AccessControl.from_file(file)

    assert raised.value.fields == {"source": str(file)}
    assert not AccessControl.parse(f"accounts: [] #{'x' * 999_000}", "rules").accounts


@pytest.mark.parametrize(
    "text",
    [
        # Slips by which a secret ends where none is expected.
        "accounts:\n- {accessKey: orders-service, secretKey:hunter2hunter2}",
        "accounts:\n- secretKey:hunter2hunter2",
        "accounts:\n- accessKey: orders-service\n  secretKey: *hunter2hunter2",
        "accounts:\n- accessKey: orders-service\n  secretKey: !hunter2hunter2",
        "accounts:\n- accessKey: orders-service\n  secretKey: hunter2hunter2: x",
        "accounts:\n- accessKey: orders-service\n  secretKey: {hunter2hunter2}",
        "accounts:\n- accessKey: orders-service\n  secretKey: {env: A, algorithm: hunter2hunter2}",
        "accounts:\n- accessKey: orders-service\n  secretKey: &a [hunter2hunter2, *a]",
        "accounts:\n- accessKey: orders-service\n  secretKey: 'hunter2hunter2",
        "accounts:\n- accessKey: orders-service\n  secretKey: hunter2hunter2\n  admin: perhaps",
        "hunter2hunter2",
        "%hunter2hunter2",
        "accounts: []\n@hunter2hunter2",
        # In the place of another value.
        *(
            f"{ACCOUNT}  {key}: {value}"
            for key in ("defaultTopicPerm", "defaultGroupPerm", "topicPerms", "groupPerms")
            for value in (
                "hunter2hunter2",
                "[hunter2hunter2]",
                "[a=hunter2hunter2]",
                "['hunter2hunter2=']",
                "[hunter2=hunter2=hunter2]",
                "[hunter2hunter2=PUB, hunter2hunter2=X]",
            )
        ),
        *(
            f"{ACCOUNT}  whiteRemoteAddress: '{value}'"
            for value in (
                "hunter2hunter2",
                "hunter2,hunter2",
                "hunter2/hunter2",
                "hunter2-hunter2",
                "hunter2.*.*.*",
                "10.0.0.hunter2-9",
                "10.0.*.9-hunter2",
                "a hunter2",
                "{hunter2}",
                "hunter2.{1,2}",
                "fe80::hunter2-*",
                "hunter2::*",
            )
        ),
        "globalWhiteRemoteAddresses: [hunter2hunter2]",
    ],
)
def test_no_error_shows_a_secret(text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse(text)

    assert "hunter2" not in f"{raised.value!r} {raised.value} {raised.value.fields}"


@pytest.mark.parametrize("reference", ["env: hunter2hunter2", "file: hunter2hunter2"])
def test_a_secret_in_the_place_of_its_name_is_not_shown(tmp_path: Path, reference: str) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(f"accounts:\n- accessKey: orders-service\n  secretKey: {{{reference}}}\n")

    with pytest.raises(ConfigurationError, match="line 3: The secret can't be read") as raised:
        AccessControl.from_file(file)

    chain = f"{raised.value!r} {raised.value.fields} {raised.value.__cause__!r}"
    assert "hunter2" not in f"{raised.value} {chain}"


@pytest.mark.parametrize(
    "secret",
    [
        "0123456789", "deadbeefdeadbeef", "DEADBEEFCAFE", "QWERTYUIOP", "ab12-cd34-ef56",
        "5f0c954b-1d2e-4c3f-9a6b-7c8d9e0f1a2b", "dead.beefbeef",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "line", ["defaultTopicPerm: X", "topicPerms: [X]", "topicPerms: [a=X]", "whiteRemoteAddress: X"]
)
def test_nor_one_with_the_letters_of_the_value_in_whose_place_it_stands(
    secret: str, line: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse(ACCOUNT + "  " + line.replace("X", secret))

    assert secret not in f"{raised.value!r} {raised.value} {raised.value.fields}"
    assert "line 4: " in raised.value.message
