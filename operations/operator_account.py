"""An operator's account: signs the records of commands, and must be an admin.

It signs what the pipeline verifies. Of what the pipeline never sees, the rules of access are asked
here whether the account is an admin.
"""

from __future__ import annotations

from typing import Final

from checkback.operations.transactions.timestamps import now_ms
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.security.decision import AccessRequest, Denial
from checkback.security.record_signer import RecordSigner, algorithm_of
from checkback.sinks.kafka.read.rule_source import present_rules

_SAYS: Final = {
    Denial.NO_ACCESS_KEY: "access_key is not set",
    Denial.UNKNOWN_ACCESS_KEY: "no account has this access_key",
    Denial.WRONG_SIGNATURE: "secret_key is none of this account's",
    Denial.ADMIN_NEEDED: "this account is no admin",
}


def require_admin(settings: Settings) -> None:
    """Refuse an operator without an admin account, unless access control is off.

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


def operator_signer(settings: Settings) -> RecordSigner | None:
    """Return the signer of an operator's records, None where access control is off.

    Raises:
        ConfigurationError: access control is on, and no account is set; or there is no such
            signature_algorithm.
    """
    if settings.access_key:
        algorithm = algorithm_of(settings.signature_algorithm)
        return RecordSigner(settings.access_key, settings.secret_key, now_ms, algorithm=algorithm)
    if settings.acl_file:
        raise ConfigurationError(
            "Access control is on: the pipeline refuses a record that no admin account signed.",
            remedy="Set access_key and secret_key, best as CHECKBACK_ACCESS_KEY and "
            "CHECKBACK_SECRET_KEY in the environment.",
            key="access_key",
        )
    return None
