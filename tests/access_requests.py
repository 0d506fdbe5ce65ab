"""What each kind of record needs, as the pipeline asks it in Java."""

from __future__ import annotations

from checkback.security.accounts import Permission
from checkback.security.decision import AccessRequest, Need, ResourceKind


def half_request(access_key: str, address: str, *, real_topic: str, group: str) -> AccessRequest:
    """Return what a half needs: PUB on the topic it goes to, and PUB on its producer group."""
    topic = Need(ResourceKind.TOPIC, real_topic, Permission.PUB)
    return AccessRequest(access_key, address, (topic, _group(group, Permission.PUB)))


def op_request(access_key: str, address: str, *, group: str) -> AccessRequest:
    """Return what an op needs: PUB on the group whose transaction it ends."""
    return AccessRequest(access_key, address, (_group(group, Permission.PUB),))


def check_answer_request(access_key: str, address: str, *, group: str) -> AccessRequest:
    """Return what an op needs that answers a check: SUB on the group that is asked, and PUB.

    To read the check request, which stands on a topic, is Kafka's to allow.
    """
    needs = _group(group, Permission.PUB), _group(group, Permission.SUB)
    return AccessRequest(access_key, address, needs)


def operator_request(access_key: str, address: str) -> AccessRequest:
    """Return what an operator's record needs: an admin."""
    return AccessRequest(access_key, address, needs_admin=True)


def _group(group: str, permission: Permission) -> Need:
    return Need(ResourceKind.GROUP, group, permission)
