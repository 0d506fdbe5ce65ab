"""The console against a pipeline at work: what an operator finds and does in the browser."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.integration.browsing import NEEDS_BROWSER, loaded, opened, served, started
from tests.integration.running import COMMIT, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.console.access import Access, AccessRules, digest
from checkback.console.actions import Resend, Resolve, Resume, parse_request
from checkback.console.app import new_application
from checkback.console.audit import Audit, AuditEntry
from checkback.console.context import Console
from checkback.console.facts import KafkaFacts
from checkback.console.overview import UNKNOWN, SnapshotReader, sampling
from checkback.console.pending_view import PendingView
from checkback.console.rendering import breakable
from checkback.deploy.broker import EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import UsageError

TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of a console that lives for one test
NEVER_ASKED = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "3600"}


@dataclass
class Stage:
    """A running pipeline of default settings, and a console that an operator signed in to."""

    settings: Settings
    topics: Topics
    folder: Path
    real: str
    halves: dict[str, tuple[int, int]]
    client: TestClient
    told: list[AuditEntry]

    def at(self, name: str) -> str:
        return "{}:{}".format(*self.halves[name])

    def text(self, path: str) -> str:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def act(self, action: str, page: str, target: str, choice: str) -> str:
        """Preview, confirm, and return the page that says what became of it."""
        token = self.text(page).split('name="forgery_token" value="')[1].split('"')[0]
        form = {"target": target, "choice": choice, "reason": "told so", "forgery_token": token}
        shown = self.client.post(f"/actions/{action}/preview", data=form)
        assert "Nothing was done yet" in shown.text
        done = self.client.post(f"/actions/{action}", data={**form, "confirmed": "yes"})
        return str(done.text)


@pytest.fixture(scope="module")
def stage(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, shared_jvm: SharedJvm
) -> Iterator[Stage]:
    prefix, folder = f"t{uuid.uuid4().hex[:10]}-", tmp_path_factory.mktemp("console")
    topics = Topics(broker.bootstrap_servers, prefix)
    settings = topics.settings(
        folder / "checkpoint", application_id=prefix.rstrip("-"), trigger_interval_ms=500
    )
    real = f"{prefix}orders"
    topics.create(settings, [real], ["g"])
    halves = {
        name: topics.send_half(name.encode(), real, properties=properties)
        for name, properties in {"paid": {}, "silent": {}, "stuck": NEVER_ASKED}.items()
    }
    topics.send_op(halves["paid"], "paid", COMMIT)
    halves["nowhere"] = topics.send_half(b"nowhere", f"{prefix}no-such-topic")
    topics.send_op(halves["nowhere"], "nowhere", COMMIT)
    with shared_jvm.pipeline(settings, folder) as pipeline:
        pipeline.wait_for("started")
        facts = KafkaFacts.open(settings)
        told: list[AuditEntry] = []
        rules = AccessRules({digest(TOKEN): "kim"})
        console = Console(facts, Access(rules), Audit(told.append))
        wait_until(lambda: topics.bodies(real) == ["paid"], what="the first final")
        sampler = sampling(SnapshotReader(facts, ""), console.history, interval_s=0.3)
        app = new_application(console, sampler)
        with TestClient(app, base_url="http://localhost") as client:
            client.post("/sign-in", data={"token": TOKEN})
            yield Stage(settings, topics, folder, real, halves, client, told)


def test_a_stuck_transaction_is_found_explained_and_decided(stage: Stage) -> None:
    wait_until(lambda: stage.at("stuck") in stage.text("/parts/pending"), what="a batch")
    page = f"/parts/transactions/{stage.at('stuck')}"
    assert "Half message stored" in stage.text(page)
    assert "has not asked about it yet. g has no live member." in stage.text(page)
    assert "stuck" in stage.text(page), "its body, for the operator"

    said = stage.act("resolve", page, stage.at("stuck"), "commit")

    assert f"Committed; the final message is {stage.real}" in said
    assert "operator kim" in stage.text(page)
    assert "told so" in stage.text(page)
    assert stage.topics.bodies(stage.real).count("stuck") == 1
    wait_until(lambda: stage.at("stuck") not in stage.text("/parts/pending"), what="the verdict")
    assert stage.told[-1].result == "done"


def test_a_discarded_message_is_resumed_once(stage: Stage) -> None:
    wait_until(lambda: "silent" in stage.text("/parts/discarded"), what="the discard")
    listed = stage.text("/parts/discarded")
    record = listed.split("/records/discarded/")[1].split('"')[0]

    said = stage.act("resume", "/parts/discarded", record, "resume")

    assert "Resumed: the new half is" in said
    facts = KafkaFacts(stage.settings, PendingView(stage.settings), lambda: 0)
    wish = parse_request(
        Resume(facts), {"target": record, "choice": "resume", "reason": "again"}, "kim"
    )
    with pytest.raises(UsageError, match="resumed already"):
        Resume(facts).perform(wish)
    decided = parse_request(
        Resolve(facts),
        {"target": stage.at("paid"), "choice": "rollback", "reason": "too late"},
        "kim",
    )
    with pytest.raises(UsageError, match="its verdict already"):
        Resolve(facts).preview(decided)


def test_a_refused_final_is_sent_once_when_its_topic_is_there(stage: Stage) -> None:
    real = f"{stage.topics.prefix}no-such-topic"
    wait_until(lambda: "REAL_TOPIC_MISSING" in stage.text("/parts/refused"), what="the refusal")
    record = stage.text("/parts/refused").split("/records/refused/")[1].split('"')[0]
    facts = KafkaFacts(stage.settings, PendingView(stage.settings), lambda: 0)
    wish = parse_request(
        Resend(facts), {"target": record, "choice": "resend", "reason": "it is there"}, "kim"
    )
    with pytest.raises(UsageError, match=r"can't be sent: REAL_TOPIC_MISSING"):
        Resend(facts).preview(wish)
    stage.topics.create(stage.settings, [real], [])

    said = stage.act("resend", "/parts/refused", record, "resend")

    assert f"Sent: the final message is {real}:" in said
    assert stage.topics.bodies(real) == ["nowhere"]
    listed = stage.text("/parts/refused")
    assert f"{real}:" in listed
    assert "/actions/resend/preview" not in listed
    with pytest.raises(UsageError, match="sent already"):
        Resend(facts).perform(wish)
    assert (stage.told[-1].action, stage.told[-1].operator) == ("resend", "kim")


def test_every_part_is_filled_from_kafka(stage: Stage) -> None:
    assert ">g<" in stage.text("/parts/groups")
    assert str(breakable(stage.settings.topics.half)) in stage.text("/parts/lag")
    assert "reachable, cluster" in stage.text("/parts/doctor")
    assert "nowhere" in stage.text("/parts/refused")
    found = stage.text("/parts/checkpoint")
    assert "Last batch written" in found
    assert "its files are whole" in found or "problems" in found
    assert stage.settings.application_id in found


def test_with_default_settings_the_overview_knows_every_figure(stage: Stage) -> None:
    """There were seven dashes and two boxes that asked for settings."""
    stage.topics.send_half(b"forgotten", stage.real, properties=NEVER_ASKED)
    wait_until(lambda: "forgotten" in stage.text("/parts/pending?group=g"), what="a batch")
    assert "forgotten" not in stage.text("/parts/pending?group=other")
    wait_until(lambda: UNKNOWN not in stage.text("/parts/live"), what="two looks at the job")

    shown = stage.text("/parts/live")

    assert "notice" not in shown
    assert ">1</a></dd>" in shown.split("Discarded")[1]
    row = next(one for one in stage.text("/parts/groups").split("<tr>") if ">g<" in one)
    assert UNKNOWN not in row
    assert "not known" not in stage.text("/parts/groups")


@NEEDS_BROWSER
@pytest.mark.nightly  # by day test_console_browser.py has the browser, the test before the figures
def test_with_default_settings_no_cell_of_a_page_is_a_dash(stage: Stage) -> None:
    stage.topics.send_half(b"left", stage.real, properties=NEVER_ASKED)
    wait_until(lambda: UNKNOWN not in stage.text("/parts/live"), what="two looks at the job")
    app = new_application(stage.client.app.state.console)  # type: ignore[attr-defined]
    with served(app) as address, started() as browser:
        page, complaints = opened(browser, 1280)
        for path in ("/", "/pending", "/checkpoint"):
            page.goto(f"{address}{path}")
            loaded(page)
            cells = page.locator("dd, td, figcaption strong").all_text_contents()
            assert cells, path
            assert UNKNOWN not in {cell.strip() for cell in cells}, path
            if folder := os.environ.get("CONSOLE_SCREENSHOTS"):
                name = f"defaults{path.replace('/', '-')}.png"
                page.screenshot(path=f"{folder}/{name}", full_page=True)
        assert complaints == []
