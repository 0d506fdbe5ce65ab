"""Asks the rules of access whether an operator's account is an admin.

The pipeline asks that of every record that it reads. This is for what it never sees.
"""

from __future__ import annotations

from typing import Final

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.security.decision import AccessRequest, Denial
from checkback.streaming.rule_source import present_rules

_SAYS: Final = {
    Denial.NO_ACCESS_KEY: "access_key is not set",
    Denial.UNKNOWN_ACCESS_KEY: "no account has this access_key",
    Denial.WRONG_SIGNATURE: "secret_key is none of this account's",
    Denial.ADMIN_NEEDED: "this account is no admin",
}


def require_admin(settings: Settings) -> None:
    """Refuse an operator without an admin account, unless access control is off.

    Args:
        settings: the account, and where the rules are.

    Raises:
        ConfigurationError: the rules can't be read, or have no such admin account.
    """
    rules = present_rules(settings)
    if rules is None:
        return
    decision = rules.decide(
        AccessRequest(settings.access_key, "", needs_admin=True),
        lambda account: account.has_secret(settings.secret_key),
    )
    if decision.denial is None:
        return
    raise ConfigurationError(
        "Access control is on, and this takes an admin account:"
        f" {_SAYS.get(decision.denial, decision.says)}.",
        remedy="Set access_key and secret_key of an admin account, best as CHECKBACK_ACCESS_KEY and"
        " CHECKBACK_SECRET_KEY in the environment.",
        key="secret_key" if decision.denial is Denial.WRONG_SIGNATURE else "access_key",
    )
