"""Signs what operators' commands write, in the name of an admin account."""

from __future__ import annotations

from checkback.operations.timestamps import now_ms
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.security.record_signer import RecordSigner, algorithm_of


def operator_signer(settings: Settings) -> RecordSigner | None:
    """Return what signs an operator's records, None where access control is off.

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
