"""Writes docs/operating/metrics.md in the checkout: ``python -m checkback.metrics``."""

from __future__ import annotations

from pathlib import Path

from checkback.metrics.page import page_text

if __name__ == "__main__":
    Path("docs/operating/metrics.md").write_text(page_text(), "utf-8")
