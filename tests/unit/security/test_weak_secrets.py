"""Secrets that prove nothing, or that nobody sees as they are."""

from __future__ import annotations

import pytest
from tests.unit.security.test_rule_file import mistakes

from checkback.security import AccessControl

WEAK = [
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: orders-service\n",
        [(2, "The secret is the accessKey, which every record shows.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: [' \t      ', {env: A}]\n",
        [(3, "The secret has nothing in it but blanks.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: $ORDERS_SECRET\n",
        [(3, "The secret is written as a reference of another program.")],
    ),
    (
        "accounts:\n- accessKey: orders-service\n  secretKey: '{{ orders_secret }}'\n",
        [(3, "The secret is written as a reference of another program.")],
    ),
]


@pytest.mark.parametrize(("text", "found"), WEAK, ids=[one[1][0][1] for one in WEAK])
def test_a_secret_that_proves_nothing_is_a_mistake(text: str, found: list[tuple[int, str]]) -> None:
    assert mistakes(text) == found


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
