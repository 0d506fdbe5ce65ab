"""The accounts of a fuzz run with access control, and what each of them may do."""

from __future__ import annotations

import time
from typing import Final

from tests.fuzz.places import HEALTHY_GROUP, Places

from checkback.security import SignatureAlgorithm
from checkback.security.record_signer import RecordSigner

OWNER: Final = "healthy-orders"
"""May do what the healthy group does."""
ADMIN: Final = "administrators"
OLD_ADMIN: Final = "administrators-of-old"
"""Signs with SHA-1 and either of two secrets."""
PUBLISHER: Final = "publishes-everywhere"
LISTED: Final = "allowed-from-an-address"
"""May do nothing, but from its address."""
NO_TOPIC: Final = "publishes-for-groups"
NO_GROUP: Final = "publishes-to-topics"
READER: Final = "answers-only"
OWN_ADDRESS, EVERYBODYS_ADDRESS = "10.1.2.3", "10.9.8.7"
"""The one that LISTED is allowed from, and one from which everybody is."""
SECOND_SECRET: Final = "the-second-secret-of-old"  # noqa: S105 - of a test's account
"""Of OLD_ADMIN."""


def secret_of(account: str) -> str:
    return f"the-secret-of-{account}"


def rules(places: Places, version: int = 0) -> str:
    """Return the rules as a file has them; another version says the same in other words."""

    def account(name: str, rest: str) -> str:
        return f"- {{accessKey: {name}, secretKey: {secret_of(name)}, {rest}}}"

    own = f"topicPerms: [{places.healthy}=PUB], groupPerms: [{HEALTHY_GROUP}=PUB]"
    secrets = [secret_of(OLD_ADMIN), SECOND_SECRET]
    two = f"[{', '.join(reversed(secrets) if version % 2 else secrets)}]"
    old = f"secretKey: {two}, signatureAlgorithm: HmacSHA1, admin: true"
    lines = [
        f"dataVersion: [{{counter: {version}}}]",
        f"globalWhiteRemoteAddresses: [{EVERYBODYS_ADDRESS}]",
        "accounts:",
        account(OWNER, own),
        account(ADMIN, "admin: true"),
        f"- {{accessKey: {OLD_ADMIN}, {old}}}",
        account(PUBLISHER, "defaultTopicPerm: PUB, defaultGroupPerm: PUB"),
        account(LISTED, f"whiteRemoteAddress: {OWN_ADDRESS}"),
        account(NO_TOPIC, "defaultTopicPerm: SUB, defaultGroupPerm: PUB|SUB"),
        account(NO_GROUP, "defaultTopicPerm: PUB"),
        account(READER, "defaultTopicPerm: PUB, defaultGroupPerm: SUB"),
    ]
    return "\n".join(lines) + "\n"


def signer(
    account: str,
    *,
    secret: str = "",
    born_host: str = "",
    late_ms: float = 0.0,
    algorithm: SignatureAlgorithm | None = None,
) -> RecordSigner:
    """Return what signs for an account, or tries to.

    Args:
        account: its access key.
        secret: another one than that of the account.
        born_host: the address to state.
        late_ms: how far the clock is behind.
        algorithm: another one than that of the account.
    """
    if algorithm is None:
        is_old = account == OLD_ADMIN
        algorithm = SignatureAlgorithm.HMAC_SHA1 if is_old else SignatureAlgorithm.HMAC_SHA256

    def now_ms() -> float:
        return time.time() * 1_000 - late_ms

    return RecordSigner(account, secret or secret_of(account), now_ms, born_host, algorithm)
