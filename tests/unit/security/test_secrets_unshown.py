"""A secret that stands in a wrong place of plain_acl.yml is in no error."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.security.test_rule_file import ACCOUNT, parse

from checkback.protocol.errors import ConfigurationError
from checkback.security import AccessControl


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
