"""Looks at the console's pages in a real browser.

Needs Chromium (Debian's package `chromium`); without one, tests that use it are skipped.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Final

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.unit.console.console_stage import TOKEN

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM: Final = next(filter(None, map(shutil.which, BROWSERS)), None)
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
CUT_OFF: Final = """[...document.querySelectorAll(".scroll")]
    .filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel)"""
"""A column beside the screen is one that nobody looks for."""
NEEDS_CHROMIUM: Final = "no Chromium on this machine: apt-get install chromium"

NEEDS_BROWSER: Final = pytest.mark.skipif(CHROMIUM is None, reason=NEEDS_CHROMIUM)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application at a free port for the block; yield its address."""
    server = uvicorn.Server(
        uvicorn.Config(app, "127.0.0.1", 0, log_level="warning", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until_s = time.monotonic() + 20
    while not server.started and time.monotonic() < until_s:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@contextmanager
def started() -> Iterator[Browser]:
    """Start the browser for the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


def opened(browser: Browser, width: int, scheme: Any = "light") -> tuple[Page, list[str]]:
    """Return a page in a fresh browser context, and what its console complains about."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(90_000)  # a busy machine is no fault of the page
    page, complaints = context.new_page(), []
    page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page, complaints


def loaded(page: Page) -> None:
    expect(page.locator("[aria-busy]")).to_have_count(0, timeout=90_000)


def sign_in(page: Page, address: str) -> None:
    page.goto(f"{address}/sign-in")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def barriers(page: Page) -> list[str]:
    """Return what axe-core finds, and what is wider than its window."""
    # Evaluated, not added to the page: its own policy forbids foreign scripts.
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    told = [
        f"{one['id']}: {node['html'][:120]} {node.get('failureSummary', '')}"
        for one in found
        for node in one["nodes"]
    ]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        told.append("the page scrolls sideways")
    return told + [f"{name} is cut off" for name in page.evaluate(CUT_OFF)]
