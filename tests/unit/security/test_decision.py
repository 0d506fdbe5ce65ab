"""The order of the rules: which one decides, and what was looked at before."""

from __future__ import annotations

import pytest
from tests.access_requests import half_request, op_request, operator_request

from checkback.security import AccessControl
from checkback.security.accounts import Permission
from checkback.security.decision import AccessRequest, Denial, Need, ResourceKind, StepOutcome

RULES = """
globalWhiteRemoteAddresses:
- 10.9.*.*
accounts:
- accessKey: orders-service
  secretKey: secret-of-orders
  whiteRemoteAddress: 10.8.0.1
  defaultTopicPerm: DENY
  defaultGroupPerm: PUB|SUB
  topicPerms:
  - paid=PUB
  - read=SUB
  - any=ANY
  - RMQ_SYS_TRACE_TOPIC=PUB
  groupPerms:
  - billing=DENY
  - quiet=SUB
- accessKey: stock-service
  secretKey: secret-of-stock
  defaultTopicPerm: PUB
- accessKey: operator
  secretKey: secret-of-operator
  whiteRemoteAddress: 10.8.0.2
  admin: true
  topicPerms:
  - paid=DENY
"""
ACCESS = AccessControl.parse(RULES, "plain_acl.yml")
KNOWN = "10.1.1.1"


def half(key: str, address: str, topic: str = "paid", group: str = "orders") -> AccessRequest:
    return half_request(key, address, real_topic=topic, group=group)


ORDERS, STOCK, OPERATOR = "orders-service", "stock-service", "operator"
CASES = [
    # request, is signed, the rule that decides, why it denies
    (half("", KNOWN), True, "access key", Denial.NO_ACCESS_KEY),
    (half("nobody", KNOWN), True, "access key", Denial.UNKNOWN_ACCESS_KEY),
    (half("Orders-Service", KNOWN), True, "access key", Denial.UNKNOWN_ACCESS_KEY),
    (half(OPERATOR, KNOWN), False, "signature", Denial.WRONG_SIGNATURE),
    (half(OPERATOR, KNOWN), True, "admin", None),
    (operator_request(OPERATOR, KNOWN), True, "admin", None),
    (operator_request(ORDERS, KNOWN), True, "admin", Denial.ADMIN_NEEDED),
    # RocketMQ lets whoever may write to the trace topic do everything with the same request.
    (half(ORDERS, KNOWN, "RMQ_SYS_TRACE_TOPIC"), True, "admin", Denial.ADMIN_NEEDED),
    (half(ORDERS, KNOWN, "RMQ_SYS_TRANS_OP_HALF_TOPIC"), True, "admin", Denial.ADMIN_NEEDED),
    (half(ORDERS, KNOWN, "__consumer_offsets"), True, "admin", Denial.ADMIN_NEEDED),
    (half(ORDERS, KNOWN), True, "permissions", None),
    (half(ORDERS, KNOWN, "unnamed"), True, "topic unnamed", Denial.NO_PERMISSION),
    (half(ORDERS, KNOWN, "read"), True, "topic read", Denial.NO_PERMISSION),
    (half(ORDERS, KNOWN, "any"), True, "topic any", Denial.NO_PERMISSION),
    (half(ORDERS, KNOWN, "PAID"), True, "topic PAID", Denial.NO_PERMISSION),
    # A named permission replaces the default, it is not added to it.
    (half(ORDERS, KNOWN, group="billing"), True, "group billing", Denial.NO_PERMISSION),
    (half(ORDERS, KNOWN, group="quiet"), True, "group quiet", Denial.NO_PERMISSION),
    (op_request(ORDERS, KNOWN, group="orders"), True, "permissions", None),
    (op_request(ORDERS, KNOWN, group="billing"), True, "group billing", Denial.NO_PERMISSION),
    # What is not given is denied.
    (half(STOCK, KNOWN), True, "group orders", Denial.NO_PERMISSION),
    (op_request(STOCK, KNOWN, group="stock"), True, "group stock", Denial.NO_PERMISSION),
    (AccessRequest(STOCK, KNOWN), True, "permissions", None),
    (AccessRequest(STOCK, ""), False, "signature", Denial.WRONG_SIGNATURE),
    # White lists take the place of permissions, and of no more.
    (half("", "10.9.0.1"), True, "access key", Denial.NO_ACCESS_KEY),
    (half(ORDERS, "10.9.0.1", "unnamed"), False, "signature", Denial.WRONG_SIGNATURE),
    (half(ORDERS, "10.8.0.1", "unnamed"), False, "signature", Denial.WRONG_SIGNATURE),
    (half(ORDERS, "10.9.0.1", "unnamed"), True, "global white list", None),
    (half(ORDERS, "10.8.0.1", "unnamed"), True, "white list of the account", None),
    (half(STOCK, "10.8.0.1", "unnamed"), True, "group orders", Denial.NO_PERMISSION),
    (operator_request(ORDERS, "10.8.0.1"), True, "admin", Denial.ADMIN_NEEDED),
    (half(ORDERS, "10.9.0.1", "__consumer_offsets"), True, "admin", Denial.ADMIN_NEEDED),
]  # fmt: skip
ORDER = ["access key", "signature", "admin", "global white list", "white list of the account"]


@pytest.mark.parametrize(("request_", "is_signed", "rule", "denial"), CASES)
def test_the_first_rule_that_knows_decides(
    request_: AccessRequest, is_signed: bool, rule: str, denial: Denial | None
) -> None:
    decision = ACCESS.decide(request_, lambda _: is_signed)

    assert (decision.steps[-1].rule, decision.denial) == (rule, denial)
    assert decision.is_allowed is (denial is None)
    rules = [step.rule for step in decision.steps]
    assert rules[: len(ORDER)] == ORDER[: len(rules)]
    assert all(step.outcome is StepOutcome.NEXT for step in decision.steps[:-1])
    assert decision.says == decision.steps[-1].says != ""


def test_every_need_has_its_step() -> None:
    decision = ACCESS.decide(half(ORDERS, KNOWN), lambda _: True)

    assert [step.says for step in decision.steps[5:]] == [
        "It needs PUB and has PUB for 'paid'.",
        "It needs PUB and has PUB|SUB by default.",
        "Every permission that it needs is there.",
    ]


def test_one_refusal_among_several_needs_denies() -> None:
    needs = [Need(ResourceKind.TOPIC, one, Permission.PUB) for one in ("paid", "read", "paid")]
    decision = ACCESS.decide(AccessRequest(ORDERS, KNOWN, tuple(needs)), lambda _: True)

    assert decision.says == "It needs PUB and has SUB for 'read'."


def test_no_step_shows_a_secret() -> None:
    for request, *_ in CASES:
        assert "secret-of" not in repr(ACCESS.decide(request, lambda _: True))
