"""Reads the rules of access in RocketMQ's own file format, ``plain_acl.yml``.

Beyond RocketMQ's keys: a secret by reference (``{env: NAME}``, ``{file: PATH}``), two secrets in a
list, and the algorithm of signatures.

Mistakes are named by line and key. A value is only shown where it can't be a secret that stands in
a wrong place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import yaml

from checkback.protocol.errors import ConfigurationError
from checkback.protocol.signed_content import is_access_key
from checkback.security.accounts import NOTHING, WORDS, Account, Permission, SecretReader
from checkback.security.addresses import NO_ADDRESS, RemoteAddressStrategy
from checkback.security.findings import Findings
from checkback.security.secret_entries import KEY_LENGTH_MIN, algorithm_in, secrets_in
from checkback.security.yaml_nodes import compose, entries_in, is_null, items_in, line_of, text_in

GLOBAL_WHITE: Final = "globalWhiteRemoteAddresses"
ACCOUNTS: Final = "accounts"
FILE_KEYS: Final = (GLOBAL_WHITE, ACCOUNTS, "dataVersion")
ACCOUNT_KEYS: Final = (
    "accessKey",
    "secretKey",
    "signatureAlgorithm",
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)
_TRUTH: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SHORT_WORD: Final = re.compile(rf"[A-Z|]{{1,{KEY_LENGTH_MIN - 1}}}")
"""Shorter than any secret."""
_NAME: Final = re.compile(r"[%|a-zA-Z0-9._-]+")
"""What a topic or group can be called, here or in RocketMQ."""
_WHITE_REMEDY: Final = "Leave it empty: Kafka's records do not prove where they come from."


@dataclass(frozen=True, slots=True)
class RuleFile:
    """What a file of rules says."""

    global_white_addresses: tuple[RemoteAddressStrategy, ...]
    accounts: Mapping[str, Account]


def read_rules(text: str, read_secret: SecretReader, findings: Findings) -> RuleFile:
    """Read a file of rules; note everything that is wrong in it."""
    root = compose(text, findings)
    if root is None:
        if not findings.mistakes:
            findings.mistake(1, "The file is empty.", "Write at least `accounts: []`.")
        return RuleFile((), {})
    entries = entries_in(root, "the file", FILE_KEYS, findings)
    given = (entries[key] for key in (GLOBAL_WHITE, ACCOUNTS) if key in entries)
    if all(map(is_null, given)) and not findings.mistakes:
        findings.mistake(1, "There are no rules in it.", "Write at least `accounts: []`.")
    white = _white_list(entries.get(GLOBAL_WHITE), findings)
    return RuleFile(white, _accounts(entries.get(ACCOUNTS), read_secret, findings))


def _white_list(node: yaml.Node | None, findings: Findings) -> tuple[RemoteAddressStrategy, ...]:
    found = (_addresses(item, findings) for item in items_in(node, GLOBAL_WHITE, findings))
    return tuple(one for one in found if not one.has_nobody)


def _addresses(node: yaml.Node | None, findings: Findings) -> RemoteAddressStrategy:
    if node is None:
        return NO_ADDRESS
    text = text_in(node, "The address pattern", findings) or ""
    try:
        found = RemoteAddressStrategy.parse(text)
    except ConfigurationError as error:
        findings.mistake(line_of(node), error.message, error.remedy)
        return NO_ADDRESS
    if not found.has_nobody:
        findings.warning(
            line_of(node),
            f"Who states an address of {text!r} needs no permission.",
            _WHITE_REMEDY,
        )
    return found


def _accounts(
    node: yaml.Node | None, read_secret: SecretReader, findings: Findings
) -> Mapping[str, Account]:
    found: dict[str, Account] = {}
    owners: dict[str, Account] = {}
    for item in items_in(node, ACCOUNTS, findings):
        account = _account(item, read_secret, findings)
        if account is None:
            continue
        _judge_secrets(account, owners, findings)
        first = found.setdefault(account.access_key, account)
        if first is not account:
            findings.mistake(
                account.line,
                f"The account {account.access_key!r} stands in line {first.line} already.",
                "Make them one account; for a second secret write secretKey as a list.",
            )
    return found


def _judge_secrets(account: Account, owners: dict[str, Account], findings: Findings) -> None:
    """Note secrets that anybody can guess, and secrets that two accounts share."""
    for value in {one.value: None for one in account.secrets}:
        if value == account.access_key:
            says = "The secret is the accessKey, which every record shows."
            findings.mistake(account.line, says, "Give the account a secret.")
        other = owners.setdefault(value, account)
        if other is not account:
            findings.warning(
                account.line,
                f"The account in line {other.line} has the same secret.",
                "Give each its own: who has it can sign as both.",
            )


def _account(node: yaml.Node, read_secret: SecretReader, findings: Findings) -> Account | None:
    entries = entries_in(node, "an account", ACCOUNT_KEYS, findings)
    if not isinstance(node, yaml.MappingNode):
        return None
    line = line_of(node)
    algorithm = algorithm_in(entries.get("signatureAlgorithm"), findings)
    account = Account(
        access_key=_access_key(entries.get("accessKey"), line, findings),
        secrets=secrets_in(entries.get("secretKey"), line, algorithm, read_secret, findings),
        white_addresses=_addresses(entries.get("whiteRemoteAddress"), findings),
        is_admin=_truth(entries.get("admin"), findings),
        default_topic_permission=_default(
            entries.get("defaultTopicPerm"), "defaultTopicPerm", findings
        ),
        default_group_permission=_default(
            entries.get("defaultGroupPerm"), "defaultGroupPerm", findings
        ),
        topic_permissions=_named(entries.get("topicPerms"), "topicPerms", findings),
        group_permissions=_named(entries.get("groupPerms"), "groupPerms", findings),
        line=line,
    )
    # Without a key it can't be found again; that it has none was noted.
    return account if account.access_key else None


def _access_key(node: yaml.Node | None, line: int, findings: Findings) -> str:
    if node is None or is_null(node):
        findings.mistake(line, "The account has no accessKey.", "Give it one.")
        return ""
    text = text_in(node, "accessKey", findings)
    if text is None:
        return ""
    if len(text) < KEY_LENGTH_MIN:
        findings.mistake(
            line_of(node),
            f"accessKey has {len(text)} characters.",
            f"It needs {KEY_LENGTH_MIN} or more.",
        )
    if not is_access_key(text):
        findings.mistake(
            line_of(node),
            "accessKey has a space, a line end, a control character or half a character in it.",
            "Write it without.",
        )
    if any(unicodedata.category(one) == "Cf" for one in text):
        findings.warning(
            line_of(node),
            "accessKey has a character in it that can't be seen.",
            "Write it by hand.",
        )
    return text


def _truth(node: yaml.Node | None, findings: Findings) -> bool:
    if node is None or is_null(node):
        return False
    text = text_in(node, "admin", findings)
    if text is None:
        return False
    if text.lower() not in _TRUTH:
        findings.mistake(line_of(node), "admin is neither true nor false.", "Write one of the two.")
    return _TRUTH.get(text.lower(), False)


def _default(node: yaml.Node | None, what: str, findings: Findings) -> Permission:
    if node is None or is_null(node):
        return Permission.DENY
    text = text_in(node, "The permission", findings)
    return Permission.DENY if text is None else _permission(text, what, line_of(node), findings)


def _permission(text: str, what: str, line: int, findings: Findings) -> Permission:
    found = WORDS.get(text.strip())
    if found is None:
        shown = f" {text!r}" if _SHORT_WORD.fullmatch(text) else ""
        says = f"The value{shown} of {what} is no permission."
        findings.mistake(line, says, f"Write one of: {', '.join(WORDS)}.")
        return NOTHING
    if found is Permission.ANY:
        findings.warning(line, "ANY gives nothing.", "Write PUB, SUB or PUB|SUB to give a right.")
    return found


def _named(node: yaml.Node | None, what: str, findings: Findings) -> Mapping[str, Permission]:
    found: dict[str, Permission] = {}
    for item in items_in(node, what, findings):
        text, line = text_in(item, f"The entry of {what}", findings), line_of(item)
        if text is None:
            continue
        name, equals, word = (part.strip() for part in text.partition("="))
        if not (name and equals and word) or "=" in word:
            says = f"An entry of {what} is not name=PERMISSION."
            findings.mistake(line, says, "Write it like orders=PUB.")
        elif _NAME.fullmatch(name) is None:
            # With a pattern, pay*=DENY would deny nothing.
            says = f"An entry of {what} has a character that no topic and no group has."
            findings.mistake(line, says, "Write each name out: there are no patterns.")
        elif name in found:
            says = f"The name of this entry stands in {what} already."
            findings.mistake(line, says, "Leave one of them out.")
        else:
            found[name] = _permission(word, what, line, findings)
    return found
