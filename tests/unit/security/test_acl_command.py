"""`checkback acl`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkback.commands.acl import command
from checkback.commands.shared.app import execute

RULES = """\
accounts:
- accessKey: orders-service
  secretKey: {env: ORDERS_SECRET}
  topicPerms: [paid=PUB]
  groupPerms: [orders=PUB|SUB]
- accessKey: operator
  secretKey: hunter2-hunter2
  admin: true
"""


@pytest.fixture
def rules(tmp_path: Path) -> str:
    file = tmp_path / "plain_acl.yml"
    file.write_text(RULES, "utf-8")
    return str(file)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = execute(command, arguments)
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code, printed = run(capsys, *arguments, "--output", "json")
    return code, json.loads(printed)


def test_a_half_is_explained_step_by_step(
    rules: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # a worker of pytest-xdist has 80
    asked = ["check", "--file", rules, "--access-key", "orders-service", "--topic", "paid"]
    asked += ["--group", "orders", "--perm", "PUB", "--address", "10.0.0.1"]
    code, told = run_json(capsys, *asked)

    assert (code, told["allowed"], told["denial"]) == (0, True, None)
    assert [step["rule"] for step in told["steps"]] == [
        "access key",
        "signature",
        "admin",
        "global white list",
        "white list of the account",
        "topic paid",
        "group orders",
        "permissions",
    ]
    code, text = run(capsys, *asked)
    assert code == 0
    assert "6.  topic paid" in text
    assert "Allowed, if the signature is right" in text


@pytest.mark.parametrize(
    ("asked", "denial", "says"),
    [
        (["--topic", "paid"], "no access key", "There is no access key."),
        (["--access-key", "x", "--topic", "paid"], "unknown access key", "No account has"),
        (["--access-key", "orders-service", "--admin"], "admin needed", "for admins"),
        (
            ["--access-key", "orders-service", "--topic", "paid", "--perm", "PUB|SUB"],
            "no permission",
            "It needs SUB and has PUB for 'paid'.",
        ),
    ],
)
def test_a_denial_is_an_exit_code_and_says_why(
    rules: str, capsys: pytest.CaptureFixture[str], asked: list[str], denial: str, says: str
) -> None:
    code, told = run_json(capsys, "check", "--file", rules, *asked)

    assert (code, told["allowed"], told["denial"]) == (1, False, denial)
    assert says in told["steps"][-1]["says"]


def test_lint_needs_the_secrets_unless_told_otherwise(
    rules: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, told = run_json(capsys, "lint", rules)
    assert (code, [one["line"] for one in told["mistakes"]]) == (1, [3])
    assert [one["line"] for one in told["warnings"]] == [7]

    code, told = run_json(capsys, "lint", rules, "--without-secrets")
    assert (code, told["mistakes"]) == (0, [])

    monkeypatch.setenv("ORDERS_SECRET", "hunter2-hunter2")
    code, told = run_json(capsys, "lint", rules)
    assert (code, told["mistakes"], told["accounts"]) == (0, [], ["orders-service", "operator"])
    assert "hunter2" not in str(told)


def test_a_file_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, "lint", str(tmp_path / "absent.yml"))

    assert code == 2
    assert "can't be read" in text


def test_groups_of_one_principal_share_their_topics(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["grants", "--principal", "User:shop", "--group", "orders", "--group", "stock"]
    code, told = run_json(capsys, *asked)
    found = [(one["resource"], one["name"], *one["operations"]) for one in told["grants"]]

    assert code == 0
    assert len(found) == len(set(found))
    names = {name for kind, name, *_ in found if kind == "group"}
    assert names == {f"RMQ_SYS_TRANS_CHECK_{one}" for one in ("orders", "stock")}


@pytest.mark.parametrize(
    "asked",
    [
        ["check", "--file", "RULES"],
        ["grants", "--group", "orders"],
        ["grants", "--principal", "User:x"],
        ["grants", "--principal", "User:x", "--pipeline"],
        ["grants", "--principal", "User:x", "--operators"],
        ["grants", "--principal", "User:x", "--operators", "--pipeline", "--topic", "paid"],
    ],
)
def test_what_is_wanted_and_for_whom_has_to_be_said(
    rules: str, capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    assert run(capsys, *(rules if word == "RULES" else word for word in asked))[0] == 2


@pytest.mark.parametrize("asked", [["--group", "*"], ["--topic", "*", "--pipeline"]])
def test_no_grant_is_for_every_topic_or_group(
    capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    """To Kafka the name * means all of them."""
    code, text = run(capsys, "grants", "--principal", "User:x", *asked)

    assert (code, "kafka-acls" in text) == (2, False)
    assert "'*' is the name of no topic and no group." in text


def test_who_reads_the_rules_from_a_topic_needs_the_right_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--principal", "User:pipeline", "--topic", "paid", "--output", "json"]

    def names(*more: str) -> list[str]:
        assert execute(command, ["grants", *options, *more]) == 0
        return [one["name"] for one in json.loads(capsys.readouterr().out)["grants"]]

    for who in ("--pipeline", "--operators"):
        assert {*names(who, "--set", "acl_file=kafka:rules")} - {*names(who)} == {"rules"}


def test_rules_for_a_topic_name_files_by_their_whole_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text("accounts:\n- accessKey: orders-service\n  secretKey: {file: orders}\n")

    code, text = run(capsys, "publish", str(file), "--set", "acl_file=kafka:rules")

    assert code == 2
    assert "line 3: The secret can't be read: orders is a relative path" in text
