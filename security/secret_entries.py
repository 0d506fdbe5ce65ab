"""Reads the secrets of an account: as text, by reference, and two of them during an exchange."""

from __future__ import annotations

import re
from typing import Final, Literal

import yaml

from checkback.security.accounts import SECRETS_MAX, Secret, SecretReader, SecretReference
from checkback.security.findings import Findings
from checkback.security.signing import SignatureAlgorithm
from checkback.security.yaml_nodes import entries_in, is_null, line_of, text_in

KEY_LENGTH_MIN: Final = 7
"""RocketMQ asks for more than 6 characters."""
_ALGORITHMS: Final = {one.value: one for one in SignatureAlgorithm}
_REFERENCE: Final = "Write {env: NAME} or {file: PATH}."
_MARK: Final = "\ufeff"
"""What some editors put in front of a text."""
_OF_OTHERS: Final = re.compile(r"\$\{.*\}|\$\(.*\)|\{\{.*\}\}|\$[A-Z_][A-Z0-9_]*", re.DOTALL)
"""How other programs refer to a variable: here it would be the secret itself, easily guessed."""


def algorithm_in(
    node: yaml.Node | None,
    findings: Findings,
    default: SignatureAlgorithm = SignatureAlgorithm.HMAC_SHA256,
) -> SignatureAlgorithm:
    """Return the algorithm that a node names; note an unknown one as a mistake."""
    if node is None or is_null(node):
        return default
    text = text_in(node, "The algorithm", findings)
    if text is not None and text not in _ALGORITHMS:
        findings.mistake(
            line_of(node),
            "There is no such signature algorithm.",
            f"Write one of: {', '.join(_ALGORITHMS)}.",
        )
    return _ALGORITHMS.get(text or "", default)


def secrets_in(
    node: yaml.Node | None,
    line: int,
    algorithm: SignatureAlgorithm,
    read_secret: SecretReader,
    findings: Findings,
) -> tuple[Secret, ...]:
    """Return an account's secrets; note what is wrong with them, without showing one."""
    if node is None or is_null(node):
        findings.mistake(line, "The account has no secretKey.", _REFERENCE)
        return ()
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    if not 1 <= len(items) <= SECRETS_MAX:
        findings.mistake(
            line_of(node),
            f"secretKey has {len(items)} secrets.",
            "Write one, or two while you exchange them: the new one first.",
        )
    found = (_secret(item, algorithm, read_secret, findings) for item in items)
    return tuple(one for one in found if one is not None)


def _secret(
    node: yaml.Node, algorithm: SignatureAlgorithm, read_secret: SecretReader, findings: Findings
) -> Secret | None:
    if isinstance(node, yaml.MappingNode):
        return _referred(node, algorithm, read_secret, findings)
    text = text_in(node, "secretKey", findings)
    if text is None:
        return None
    if _OF_OTHERS.fullmatch(text):
        says = "The secret is written as a reference of another program."
        findings.mistake(line_of(node), says, _REFERENCE)
        return None
    findings.warning(line_of(node), "The secret itself stands in the file.", _REFERENCE)
    return _checked(text, line_of(node), algorithm, findings)


def _referred(
    node: yaml.Node, algorithm: SignatureAlgorithm, read_secret: SecretReader, findings: Findings
) -> Secret | None:
    line = line_of(node)
    entries = dict(entries_in(node, "secretKey", ("env", "file", "algorithm"), findings))
    algorithm = algorithm_in(entries.pop("algorithm", None), findings, algorithm)
    if len(entries) != 1:
        findings.mistake(line, "secretKey refers to no secret, or to two.", _REFERENCE)
        return None
    kind: Literal["env", "file"] = "env" if "env" in entries else "file"
    name = text_in(entries[kind], kind, findings)
    if name is None:
        return None
    if not name or "\0" in name:
        findings.mistake(line, f"{kind} names nothing.", _REFERENCE)
        return None
    try:
        value = read_secret(SecretReference(kind, name))
    except LookupError as error:
        findings.mistake(line, f"The secret can't be read: {error}.", "Provide it.")
        return None
    return None if value is None else _checked(value, line, algorithm, findings)


def _checked(
    value: str, line: int, algorithm: SignatureAlgorithm, findings: Findings
) -> Secret | None:
    if len(value) < KEY_LENGTH_MIN:
        findings.mistake(
            line,
            f"The secret has {len(value)} characters.",
            f"It needs {KEY_LENGTH_MIN} or more; 32 random ones are safe.",
        )
        return None
    if any("\ud800" <= one <= "\udfff" for one in value):
        # Python's stand-ins for bytes of the environment that are no text. Each would sign as a
        # question mark, so a secret of such bytes alone could be guessed.
        findings.mistake(
            line, "The secret is not UTF-8.", "Write it in letters and digits, or in Base64."
        )
        return None
    seen = value.strip().strip(_MARK)
    if not seen:
        findings.mistake(line, "The secret has nothing in it but blanks.", "Make a random one.")
    elif seen != value:
        findings.warning(
            line,
            "The secret begins or ends with a blank, a line end or a byte order mark.",
            "Take it away, or see to it that the clients have it, too.",
        )
    return Secret(value, algorithm)
