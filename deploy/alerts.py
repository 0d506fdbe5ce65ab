"""The alert rules for Prometheus: ``prometheus/checkback.rules.yml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

RULES: Final = Path(__file__).parent / "prometheus" / "checkback.rules.yml"


def rule_document(runbooks: str = "") -> dict[str, Any]:
    """Return the rules; with the address of the page of alerts, each links its section there."""
    document: dict[str, Any] = yaml.safe_load(RULES.read_text("utf-8"))
    for rule in document["groups"][0]["rules"] if runbooks else ():
        rule["annotations"]["runbook_url"] = f"{runbooks}#{rule['alert'].lower()}"
    return document


def rule_text(runbooks: str = "") -> str:
    """Return the text of a file with the rules; the links as in `rule_document`."""
    if not runbooks:
        return RULES.read_text("utf-8")
    return yaml.safe_dump(rule_document(runbooks), sort_keys=False, width=1_000)
