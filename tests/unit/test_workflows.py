"""The workflows fit their schema."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from tests.unit.deploy_fields import vendored_schema

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_fits_its_schema(path: Path) -> None:
    text = re.sub(r"^on:", '"on":', path.read_text("utf-8"), flags=re.MULTILINE)

    jsonschema.validate(yaml.safe_load(text), vendored_schema("github-workflows"))
    assert all(re.search(r"@[0-9a-f]{40} # v", use) for use in re.findall(r"uses: .*", text))
