"""Who may do what: the rules of RocketMQ's PlainPermissionManager, in an order for records.

1. There is no access key, or it is unknown: denied.
2. The signature is not the account's: denied.
3. The account is an admin: allowed. The request needs one: denied.
4. A global white list, or that of the account, has the address: allowed.
5. Each topic and group: the permission for its name, else the default. One refusal denies all.

RocketMQ looks at white lists first: its broker sees where a request comes from. A record's address
is what its sender states, so any sender could state one of a white list. The signature covers the
address, and white lists only take the place of permissions.

Two rules differ from RocketMQ's. A request for a system topic needs an admin; there, a
writer to the trace topic may do everything with the same request. And every request has needs,
where RocketMQ takes a valid signature as enough to end a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from checkback.protocol.topics import is_system_topic
from checkback.security.accounts import Account, Permission, is_granted, word_of
from checkback.security.addresses import RemoteAddressStrategy


class ResourceKind(Enum):
    """What a permission is for."""

    TOPIC = "topic"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Need:
    """A permission that a request needs."""

    kind: ResourceKind
    name: str
    permission: Permission


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Who wants what.

    Args:
        address: where from, as its sender states, without a port; empty if it is not known.
    """

    access_key: str
    address: str
    needs: tuple[Need, ...] = ()
    needs_admin: bool = False


class Denial(Enum):
    """Why a request is denied."""

    NO_ACCESS_KEY = "no access key"
    UNKNOWN_ACCESS_KEY = "unknown access key"
    WRONG_SIGNATURE = "wrong signature"
    ADMIN_NEEDED = "admin needed"
    NO_PERMISSION = "no permission"


class StepOutcome(Enum):
    """What a step leads to."""

    ALLOWED = "allowed"
    DENIED = "denied"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class DecisionStep:
    """One rule, and what it said.

    Args:
        outcome: the last step's is the decision.
    """

    rule: str
    outcome: StepOutcome
    says: str
    denial: Denial | None = None


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Whether a request is allowed, and how that was found.

    Args:
        steps: the rules that were looked at, in their order; the last one decided.
    """

    steps: tuple[DecisionStep, ...]

    @property
    def is_allowed(self) -> bool:
        """Whether the request is allowed."""
        return self.steps[-1].outcome is StepOutcome.ALLOWED

    @property
    def denial(self) -> Denial | None:
        """Why it is denied; None if it is allowed."""
        return self.steps[-1].denial

    @property
    def says(self) -> str:
        """What the deciding rule found."""
        return self.steps[-1].says


def decide(
    global_white_addresses: Sequence[RemoteAddressStrategy],
    accounts: Mapping[str, Account],
    request: AccessRequest,
    is_signed_by: Callable[[Account], bool],
) -> AccessDecision:
    """Decide whether a request is allowed."""
    steps = []
    for step in _steps(global_white_addresses, accounts, request, is_signed_by):
        steps.append(step)
        if step.outcome is not StepOutcome.NEXT:
            break
    return AccessDecision(tuple(steps))


def _steps(
    global_white_addresses: Sequence[RemoteAddressStrategy],
    accounts: Mapping[str, Account],
    request: AccessRequest,
    is_signed_by: Callable[[Account], bool],
) -> Iterator[DecisionStep]:
    yield _known(accounts, request.access_key)
    account = accounts[request.access_key]
    yield _signature(is_signed_by(account))
    yield _admin(account, request)
    yield _white("global white list", global_white_addresses, request.address)
    yield _white("white list of the account", [account.white_addresses], request.address)
    for need in request.needs:
        yield _permission(account, need)
    yield DecisionStep(
        "permissions", StepOutcome.ALLOWED, "Every permission that it needs is there."
    )


def _white(rule: str, patterns: Sequence[RemoteAddressStrategy], address: str) -> DecisionStep:
    shown = repr(address) if address else "an unknown address"
    for one in patterns:
        if one.match(address):
            return DecisionStep(rule, StepOutcome.ALLOWED, f"{one.pattern!r} has {shown}.")
    return DecisionStep(rule, StepOutcome.NEXT, f"It does not have {shown}.")


def _known(accounts: Mapping[str, Account], access_key: str) -> DecisionStep:
    if not access_key:
        says, why = "There is no access key.", Denial.NO_ACCESS_KEY
    elif access_key not in accounts:
        says, why = f"No account has the access key {access_key!r}.", Denial.UNKNOWN_ACCESS_KEY
    else:
        return DecisionStep("access key", StepOutcome.NEXT, f"There is an account {access_key!r}.")
    return DecisionStep("access key", StepOutcome.DENIED, says, why)


def _signature(is_right: bool) -> DecisionStep:
    if is_right:
        return DecisionStep("signature", StepOutcome.NEXT, "It was made with the account's secret.")
    says = "It was not made with a secret of the account, or something else was signed."
    return DecisionStep("signature", StepOutcome.DENIED, says, Denial.WRONG_SIGNATURE)


def _admin(account: Account, request: AccessRequest) -> DecisionStep:
    if account.is_admin:
        return DecisionStep("admin", StepOutcome.ALLOWED, "The account is an admin.")
    system = [one.name for one in request.needs if _is_system_topic(one)]
    if system:
        says = f"{system[0]!r} is a system topic, and the account is no admin."
    elif request.needs_admin:
        says = "This is for admins, and the account is none."
    else:
        return DecisionStep(
            "admin", StepOutcome.NEXT, "The account is no admin, and need not be one."
        )
    return DecisionStep("admin", StepOutcome.DENIED, says, Denial.ADMIN_NEEDED)


def _is_system_topic(need: Need) -> bool:
    return need.kind is ResourceKind.TOPIC and is_system_topic(need.name)


def _permission(account: Account, need: Need) -> DecisionStep:
    is_topic = need.kind is ResourceKind.TOPIC
    named = account.topic_permissions if is_topic else account.group_permissions
    default = account.default_topic_permission if is_topic else account.default_group_permission
    owned, where = named.get(need.name), f"for {need.name!r}"
    if owned is None:
        owned, where = default, "by default"
    rule = f"{need.kind.value} {need.name}"
    says = f"It needs {word_of(need.permission)} and has {word_of(owned)} {where}."
    if is_granted(need.permission, owned):
        return DecisionStep(rule, StepOutcome.NEXT, says)
    return DecisionStep(rule, StepOutcome.DENIED, says, Denial.NO_PERMISSION)
