"""The rules of access of one deployment: read once, then asked.

This module is the only one of its folder that reads files and the environment; what it reads goes
to the pure rest.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from checkback.protocol.errors import ConfigurationError
from checkback.security.accounts import Account, SecretReader, SecretReference
from checkback.security.addresses import RemoteAddressStrategy
from checkback.security.decision import AccessDecision, AccessRequest, decide
from checkback.security.findings import Finding, Findings

RULES_LENGTH_MAX: Final = 1_000_000
"""Characters of rules; as many bytes are a Kafka record's limit by default. They hold some ten
thousand accounts, which take seconds to read, and nothing else watches the job meanwhile."""


_LIKE_A_NAME: Final = {"env": re.compile(r"^[A-Z][A-Z0-9_]*\Z"), "file": re.compile(r"[/.]")}
"""What is called so is no secret: a variable in capitals, a file with a folder or an extension."""


def _without_references(reference: SecretReference) -> str:
    raise LookupError(f"this text may not refer to {reference.kind} {reference.name}")


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Who may do what.

    Args:
        source: where the rules came from.
        version: a hash of the rules with their secrets; equal rules have equal versions.
        folder: where a secret's file without a leading slash is looked for.
    """

    source: str
    version: str
    global_white_addresses: tuple[RemoteAddressStrategy, ...]
    accounts: Mapping[str, Account]
    warnings: tuple[Finding, ...] = ()
    secrets: Mapping[SecretReference, str] = field(default_factory=dict, repr=False)
    folder: Path = Path("/")

    @classmethod
    def parse(
        cls, text: str, source: str, read_secret: SecretReader = _without_references
    ) -> AccessControl:
        """Read rules in the format of RocketMQ's plain_acl.yml.

        Raises:
            ConfigurationError: names every mistake with its line.
        """
        # Only here: an application process signs, and has no YAML.
        from checkback.security.rule_file import read_rules

        if len(text) > RULES_LENGTH_MAX:
            raise ConfigurationError(
                f"{source} has more than {RULES_LENGTH_MAX} characters.",
                remedy="Give accounts that may do the same one access key.",
                source=source,
            )
        findings = Findings()
        rules = read_rules(text, read_secret, findings)
        findings.require_none(source)
        return cls(
            source,
            _version(text, rules.accounts),
            rules.global_white_addresses,
            rules.accounts,
            tuple(sorted(findings.warnings)),
        )

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], *, reads_secrets: bool = True
    ) -> AccessControl:
        """Read a file of rules, and the secrets that it refers to.

        Args:
            path: the file; a secret's file without a leading slash is looked for beside it.
            reads_secrets: false leaves out what the file refers to. Such rules can be read
                where the secrets are missing; no signature is right by them.

        Raises:
            ConfigurationError: it can't be read, or has mistakes, which are named with their lines.
        """
        file, text = Path(path), rules_text(path)
        if not reads_secrets:
            return cls.parse(text, str(file), lambda _: None)
        return cls.from_text(text, str(file), file.parent)

    @classmethod
    def from_text(cls, text: str, source: str, folder: Path) -> AccessControl:
        """Read rules, and the secrets that they refer to.

        Raises:
            ConfigurationError: names every mistake with its line.
        """
        found: dict[SecretReference, str] = {}

        def read(reference: SecretReference) -> str:
            found[reference] = _read_secret(reference, folder)
            return found[reference]

        return replace(cls.parse(text, source, read), secrets=found, folder=folder)

    def has_other_secrets(self) -> bool:
        """Tell whether a secret that the rules refer to has changed, or is gone."""
        try:
            return any(_read_secret(one, self.folder) != had for one, had in self.secrets.items())
        except LookupError:
            return True

    def decide(
        self, request: AccessRequest, is_signed_by: Callable[[Account], bool]
    ) -> AccessDecision:
        """Decide whether a request is allowed; the result lists its steps."""
        return decide(self.global_white_addresses, self.accounts, request, is_signed_by)


def rules_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file of rules; of a file that is too large, only enough to see that.

    Raises:
        ConfigurationError: it can't be read.
    """
    file = Path(path)
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.read(RULES_LENGTH_MAX + 1)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"The access rules {file} can't be read: {_reason(error)}.",
            remedy="Check its path and its rights.",
            source=str(file),
        ) from error


def _version(text: str, accounts: Mapping[str, Account]) -> str:
    """Return a hash that changes with the text and with every secret that it refers to."""
    data = text.encode("utf-8", "replace")
    digest = hashlib.sha256(data)
    for account in accounts.values():
        for secret in account.secrets:
            # Keyed by the secret: it tells no more about it than a signature does.
            digest.update(hmac.digest(secret.value.encode("utf-8", "replace"), data, "sha256"))
    return digest.hexdigest()


def _read_secret(reference: SecretReference, folder: Path) -> str:
    # A secret that stands in the place of its name must not get into a log.
    is_name = _LIKE_A_NAME[reference.kind].search(reference.name) is not None
    if reference.kind == "env":
        if reference.name not in os.environ:
            shown = reference.name if is_name else "variable of the name that stands there"
            raise LookupError(f"the environment has no {shown}")
        return os.environ[reference.name]
    file = folder / reference.name
    try:
        # Editors and `kubectl create secret` leave a line end that is no part of the secret.
        return file.read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        shown = str(file) if is_name else f"the file of the name that stands there, in {folder}"
        raise LookupError(f"{shown}: {_reason(error)}") from None


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "it is not UTF-8"
