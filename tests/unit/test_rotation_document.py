"""The exchange of secrets in docs/security.md, followed step by step over a running watch."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

from tests.signatures import has_signed
from tests.unit.test_access_watch import Watched

from checkback.security import SignatureAlgorithm, sign
from checkback.security.access_control import AccessControl
from checkback.sinks.kafka.read.rule_source import LOOK_S

DOCUMENT = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
SECTION = DOCUMENT.split("\n## Exchange secrets without a pause", 1)[1].split("\n## ", 1)[0]
BEFORE = "accounts:\n- accessKey: orders-service\n  secretKey: {file: secrets/orders}\n"


def documented() -> str:
    """Return the rules of the first step."""
    block = re.search(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    assert block is not None
    return "accounts:\n" + dedent(block[1])


def believed(watched: Watched, *secrets: str) -> list[bool]:
    """Tell of each secret whether the rules that the watch looks at believe it."""
    account = AccessControl.from_file(watched.file).accounts["orders-service"]
    made = [sign(one, b"content", SignatureAlgorithm.HMAC_SHA256) for one in secrets]
    return [has_signed(account, b"content", one) for one in made]


def test_both_secrets_are_right_until_the_old_one_is_taken_out(tmp_path: Path) -> None:
    """Its first step named a variable, which no pipeline that runs can get."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "orders").write_text("the-old-secret")
    watched = Watched(tmp_path, BEFORE)

    (tmp_path / "secrets" / "orders-new").write_text("the-new-secret\n")
    watched.later(documented())
    assert watched.later(), watched.watch.problem
    assert believed(watched, "the-new-secret", "the-old-secret") == [True, True]
    assert "env:" not in documented()

    watched.later(BEFORE.replace("secrets/orders", "secrets/orders-new"))
    assert watched.later(seconds=LOOK_S), watched.watch.problem
    assert believed(watched, "the-new-secret", "the-old-secret") == [True, False]
