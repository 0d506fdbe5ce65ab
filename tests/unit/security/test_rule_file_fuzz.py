"""Any text at all is read as rules, or refused with its mistakes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from checkback.protocol.errors import ConfigurationError
from checkback.security import AccessControl
from checkback.security.findings import Findings
from checkback.security.rule_file import ACCOUNT_KEYS, FILE_KEYS
from checkback.security.secret_entries import KEY_LENGTH_MIN
from checkback.security.yaml_nodes import compose, items_in, line_of

WORDS = st.sampled_from(
    [
        *FILE_KEYS, *ACCOUNT_KEYS, "accounts:", "\n", "\n- ", "\n  ", "\n  - ", ": ", "{", "}",
        "[", "]", ",", "a=PUB", "=", "*", "&a", "*a", "!!str", "'", '"', "|", ">", "#", "---",
        "...", "%", "<<", "env", "file", "!env ", "${A}",
        "algorithm", "HmacSHA1", "true", "null", "~",
        "\\U7fffffff", "\t", "?", "secret-77", "192.168.*.*", "10.0.0.1-", "orders-service",
        "\ufeff", "\x85", "\ud800",
    ]
)  # fmt: skip


def read_or_refused(text: str) -> None:
    try:
        access = AccessControl.parse(text, "plain_acl.yml", lambda _: "secret-77")
    except ConfigurationError as refused:
        # An error of something else than the reader has no list of mistakes.
        found = refused.fields.get("mistakes")
        assert found, text
        return
    assert all(len(key) >= KEY_LENGTH_MIN for key in access.accounts)
    assert all(account.secrets for account in access.accounts.values())


@given(st.one_of(st.text(), st.lists(WORDS, max_size=40).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refused(text)


YAML_VALUES = st.recursive(
    st.sampled_from(["x", "'orders-service'", "true", "a=PUB", "*", "1.0.*.*", "~", "{env: A}"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(ACCOUNT_KEYS), inner, max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"
        ),
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(FILE_KEYS), YAML_VALUES))
def test_any_yaml_is_read_or_refused(entries: dict[str, str]) -> None:
    text = "\n".join(f"{key}: {value}" for key, value in entries.items())
    read_or_refused(text)


def test_every_node_knows_its_line() -> None:
    findings = Findings()
    root = compose("# rules\n\n- a\n- b\n", findings)

    assert [line_of(item) for item in items_in(root, "rules", findings)] == [3, 4]
    assert findings == Findings()
