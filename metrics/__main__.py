"""Writes the files made from the table of metrics: `python -m checkback.metrics [FOLDER]`.

FOLDER is the top of a checkout, this one if it is left out. A test compares the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from checkback.metrics.dashboard import dashboard_document
from checkback.metrics.page import page_text


def made_files() -> dict[str, str]:
    """Return the text of each file by its path in a checkout."""
    return {
        "deploy/grafana/checkback.json": json.dumps(dashboard_document(), indent=1) + "\n",
        "docs/operating/metrics.md": page_text(),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name, text in made_files().items():
        (folder / name).write_text(text, "utf-8")
