"""The console in a real browser: every page at two widths, light and dark, without barriers.

The screenshots lie in the folder that CONSOLE_SCREENSHOTS names, or in pytest's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, expect
from tests.integration.browsing import (
    NEEDS_BROWSER,
    barriers,
    loaded,
    opened,
    served,
    sign_in,
    started,
)
from tests.unit.console.console_stage import Stage, make_stage

from checkback.console.app import new_application
from checkback.console.overview import Snapshot

PAGES: Final = {
    "overview": "/",
    "pending": "/pending",
    "pending-transaction": "/transactions/0:4",
    "decided-transaction": "/transactions/1:5",
    "discarded": "/discarded",
    "refused": "/refused",
    "record": "/records/discarded/0:6",
    "checkpoint": "/checkpoint",
    "actions": "/actions",
    "sign-in": "/sign-in",
    "not-found": "/nothing",
}
pytestmark = NEEDS_BROWSER


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    folder = tmp_path_factory.mktemp("console")
    made = make_stage(folder, checkpoint=str(folder / "checkpoint"))
    for number in range(1, 121):
        made.console.history.add(busy_snapshot(made, number))
    return made


def busy_snapshot(stage: Stage, number: int) -> Snapshot:
    """A snapshot of a pipeline at work."""
    wave = abs((number * 7) % 40 - 20)
    return Snapshot(
        stage.console.facts.now_ms() - (120 - number) * 2_000,
        "orders",
        pending=1_000_000 + 1_800 * wave,
        oldest_age_ms=780_000 + number * 2_000,
        totals={
            "prepared": number * 20_000 + wave * 300, "committed": number * 18_500 + wave * 200,
            "rolled_back": number * 900 + wave * 20, "checked": number * 60 + wave,
            "discarded": 14, "refused": 3,
        },
        batch_s=(number * 0.8 + wave / 50, number),
        lag=1_312,
        refused={"OP_WITHOUT_HALF": 2, "NOT_A_HALF": 1},
    )  # fmt: skip


@pytest.fixture(scope="module")
def address(stage: Stage) -> Iterator[str]:
    with served(new_application(stage.console)) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("CONSOLE_SCREENSHOTS")
    folder = Path(named).resolve() if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),  # the narrowest, where most is cut off; the other forms take as long
        pytest.param(1280, "light", marks=pytest.mark.nightly),
        pytest.param(1280, "dark", marks=pytest.mark.nightly),
        pytest.param(390, "light", marks=pytest.mark.nightly),
    ],
)
def test_every_page_is_whole_and_without_barriers(
    browser: Browser, address: str, stage: Stage, pictures: Path, width: int, scheme: str
) -> None:
    page, complaints = opened(browser, width, scheme)
    sign_in(page, address)
    found = {}
    for name, path in PAGES.items():
        page.goto(f"{address}{path}")
        loaded(page)
        found[name] = barriers(page)
        page.screenshot(path=pictures / f"{name}-{width}-{scheme}.png", full_page=True)

    assert {name: told for name, told in found.items() if told} == {}
    # A page that does not exist is an error of the network, not of the page.
    assert [one for one in complaints if "404" not in one and "503" not in one] == []
    page.context.close()


def test_an_operator_decides_a_transaction_by_keyboard_alone(
    browser: Browser, address: str, stage: Stage, pictures: Path
) -> None:
    page, complaints = opened(browser, 1280)
    sign_in(page, address)
    page.goto(f"{address}/pending")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_label("Transaction id or position").focus()
    page.keyboard.type("0:4")
    page.keyboard.press("Enter")
    page.wait_for_url("**/transactions/0:4")
    loaded(page)

    page.get_by_label("Commit: deliver its message").focus()
    page.keyboard.press("Space")
    page.get_by_label("Reason").focus()
    page.keyboard.type("paid by phone")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing was done yet.")).to_be_visible()
    assert barriers(page) == []
    page.screenshot(path=pictures / "preview.png")
    page.get_by_label("I have read this").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Committed; the final message is")).to_be_visible()
    assert barriers(page) == []
    page.screenshot(path=pictures / "deed.png")

    [wish] = stage.action.performed
    assert (wish.target, wish.choice, wish.reason) == ("0:4", "commit", "paid by phone")
    assert complaints == []
    page.context.close()


def test_the_overview_follows_the_pipeline_and_can_be_paused(
    browser: Browser, address: str, stage: Stage
) -> None:
    page, complaints = opened(browser, 1280)
    page.goto(address)
    expect(page.get_by_role("button", name="Pause")).to_be_visible()

    stage.console.history.add(busy_snapshot(stage, 121))
    pending = page.locator("#live dd").first
    expect(pending).to_have_text(f"{busy_snapshot(stage, 121).pending:,}")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Go on")).to_be_visible()

    assert complaints == []
    page.context.close()
