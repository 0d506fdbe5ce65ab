"""The pages, as a browser asks for them; nothing here needs Kafka or Spark."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.programs import output_of
from tests.unit.console.console_stage import (
    OPERATOR,
    TOKEN,
    Stage,
    make_stage,
)

from checkback.console.access import AccessRules, digest
from checkback.console.app import SECURITY_HEADERS, new_application
from checkback.console.context import FORM_BYTES_MAX, SESSION_COOKIE
from checkback.console.pages import reading as pages
from checkback.console.pages.acting import _own_path
from checkback.console.pending_view import PendingView

ROOT = Path(__file__).parents[3]
PAGES = (
    "/", "/pending", "/transactions?name=x", "/transactions/0:4", "/discarded", "/refused",
    "/checkpoint", "/actions", "/records/refused/0:5", "/sign-in",
)  # fmt: skip
PARTS = (
    "/parts/live", "/parts/groups", "/parts/lag", "/parts/doctor", "/parts/transactions/0:4",
    "/parts/discarded", "/parts/refused", "/parts/records/discarded/0:6", "/parts/pending",
)  # fmt: skip
WISH = {"target": "0:4", "choice": "commit", "reason": "paid by phone"}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = make_stage(tmp_path)
    made.look()
    return made


@pytest.mark.parametrize("path", [*PAGES, *PARTS, "/nothing", "/static/console.js"])
def test_every_answer_carries_the_headers_that_protect_it(stage: Stage, path: str) -> None:
    answer = stage.client().get(path)

    assert answer.status_code == (404 if path == "/nothing" else 200), answer.text
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    for told in ("<script>", " style=", " onclick", 'src="http', 'href="http'):
        assert told not in answer.text, told


def test_pending_is_listed_chosen_and_paged(stage: Stage) -> None:
    client = stage.client()
    shell = client.get("/pending?sort=checks").text
    assert 'data-load="/parts/pending?group=&amp;older_than=&amp;sort=checks&amp;number=1"' in shell
    every = client.get("/parts/pending").text

    assert "1 to 11 of 11" in every
    assert "As of batch 17 of the checkpoint." in every
    assert every.index("0A0000000013C0FFEE00112233445566") < every.index(
        "0A0000000003C0FFEE00112233445566"
    ), "oldest first"
    chosen = client.get("/parts/pending?group=stock-service&older_than=6m").text
    assert "1 to 2 of 2" in chosen
    assert "Nothing that is chosen" in client.get("/parts/pending?group=none").text
    for path in ("/pending", "/parts/pending"):
        for wrong in ("older_than=soon", "sort=password", "number=x", "number=0"):
            assert client.get(f"{path}?{wrong}").status_code == 400, wrong


def test_a_transaction_is_found_by_id_and_by_position(stage: Stage) -> None:
    client = stage.client()

    answer = client.get("/transactions", params={"name": "0:4"}, follow_redirects=False)
    assert answer.headers["location"] == "/transactions/0:4"
    assert 'data-load="/parts/transactions/0A00"' in client.get("/transactions?name=0A00").text
    for nowhere in ("nowhere", "9999999999:0", "0:9223372036854775808"):
        assert client.get(f"/transactions/{nowhere}").status_code == 404
    assert client.get("/pending", params={"older_than": "9" * 5_000 + "d"}).status_code == 400
    part = client.get("/parts/transactions/9:9")
    assert (part.status_code, "Check the id." in part.text) == (404, True)


def test_a_checkpoint_that_can_not_be_read_hides_nothing_of_what_kafka_knows(
    tmp_path: Path,
) -> None:
    stage = make_stage(tmp_path)
    facts = stage.console.facts
    facts.pending = PendingView(facts.settings)  # without the setting `checkpoint`
    stage.look()
    client = stage.client()

    overview = client.get("/").text
    assert "checkpoint is not set" in overview
    assert "plots" not in overview, "there is nothing to draw"
    assert client.get("/pending").status_code == 200
    assert "checkpoint is not set" in client.get("/parts/pending").text
    assert "order-service" in client.get("/parts/groups").text
    assert "Half message stored" in client.get("/parts/transactions/0:4").text
    assert "checkpoint is not set" in client.get("/parts/checkpoint").text


def test_a_broker_that_does_not_answer_is_said_in_its_part(stage: Stage) -> None:
    answer = stage.client().get("/parts/records/refused/0:666")

    assert answer.status_code == 503
    assert "The brokers do not answer." in answer.text
    assert "<html" not in answer.text


def test_a_defect_is_a_page_without_a_trace(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(type(stage.console.facts), "groups", lambda _: broken())
    answer = stage.client(raise_server_exceptions=False).get("/parts/groups")

    assert (answer.status_code, "defect of Checkback" in answer.text) == (500, True)
    assert "secret detail" not in answer.text
    assert answer.headers["x-frame-options"] == "DENY"


def test_who_has_not_signed_in_can_do_nothing(stage: Stage) -> None:
    client = stage.client()

    assert "Preview" not in client.get("/parts/transactions/0:4").text
    for path in ("/actions/resolve/preview", "/actions/resolve", "/sign-out"):
        answer = client.post(path, data={**WISH, "confirmed": "yes"})
        assert answer.status_code == 403, path
    assert stage.action.performed == []
    assert [(one.action, one.operator, one.result, one.target) for one in stage.told] == [
        ("resolve", "", "refused", WISH["target"]), ("resolve", "", "refused", WISH["target"]),
        ("sign out", "", "refused", WISH["target"]),
    ]  # fmt: skip
    assert stage.console.audit.newest() == [], "strangers push no operator's deed off the page"


def test_an_operator_previews_confirms_and_is_noted(stage: Stage) -> None:
    client = stage.signed_in()
    page = client.get("/parts/transactions/0:4").text
    token = page.split('name="forgery_token" value="')[1].split('"')[0]
    wish = {**WISH, "forgery_token": token}

    shown = client.post("/actions/resolve/preview", data=wish)
    assert "Nothing was done yet" in shown.text
    assert "Appends an op that says commit." in shown.text
    assert stage.action.performed == []
    assert client.post("/actions/resolve", data=wish).status_code == 400, "not confirmed"
    done = client.post("/actions/resolve", data={**wish, "confirmed": "yes"})

    assert "Committed; the final message is orders-paid 1:78." in done.text
    [made] = stage.action.performed
    assert (made.target, made.choice, made.reason, made.operator) == (*WISH.values(), OPERATOR)
    assert [(one.action, one.operator, one.result) for one in stage.told] == [
        ("sign in", OPERATOR, "done"), ("resolve", OPERATOR, "refused"),
        ("resolve", OPERATOR, "done"),
    ]  # fmt: skip
    assert stage.told[1].says == "The action was not confirmed."
    assert "paid by phone" in client.get("/actions").text


def test_only_an_operator_may_send_a_refused_final_and_only_once(stage: Stage) -> None:
    form = 'action="/actions/resend/preview"'
    listed = stage.signed_in().get("/parts/refused").text

    assert listed.count(form) == 1
    assert listed.split(form)[1].split('name="target" value="')[1].startswith("0:6")
    assert "orders-paid:1:78" in listed
    assert form not in stage.client().get("/parts/refused").text


@pytest.mark.parametrize(
    "wrong", [{"reason": " "}, {"choice": "delete"}, {"target": ""}, {"reason": "x" * 501}]
)
def test_a_wish_that_lacks_something_is_refused(stage: Stage, wrong: dict[str, str]) -> None:
    client = stage.signed_in()
    token = stage.console.access.visitor(client.cookies[SESSION_COOKIE], []).forgery_token
    form = {**WISH, "confirmed": "yes", "forgery_token": token, **wrong}

    assert client.post("/actions/resolve", data=form).status_code == 400
    assert client.post("/actions/explode", data=form).status_code == 404
    assert stage.action.performed == []


def test_a_form_of_another_site_or_session_does_nothing(stage: Stage) -> None:
    client, other = stage.signed_in(), stage.signed_in()
    own, others = (
        stage.console.access.visitor(one.cookies[SESSION_COOKIE], []).forgery_token
        for one in (client, other)
    )
    form = {**WISH, "confirmed": "yes"}
    tried = [
        ({**form, "forgery_token": others}, {}),
        (form, {}),
        ({**form, "forgery_token": own}, {"origin": "http://evil.example"}),
        ({**form, "forgery_token": own}, {"origin": "http://["}),
        ({**form, "forgery_token": own}, {"sec-fetch-site": "cross-site"}),
    ]

    for data, headers in tried:
        assert client.post("/actions/resolve", data=data, headers=headers).status_code == 403
    assert stage.action.performed == []
    assert [one.result for one in stage.told if one.action == "resolve"] == ["refused"] * 5
    large = client.post("/sign-in", data={"token": "x" * FORM_BYTES_MAX})
    assert large.status_code == 413


def test_signing_in_and_out(stage: Stage) -> None:
    client = stage.client()
    wrong = client.post("/sign-in", data={"token": "no"})
    assert (wrong.status_code, "Unknown token" in wrong.text) == (403, True)
    assert stage.told[0].result == "refused"

    form = {"token": "correct-horse-battery-staple", "next": "//evil.example"}
    answer = client.post("/sign-in", data=form, follow_redirects=False)
    assert answer.headers["location"] == "/", "never to another site"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie

    token = stage.console.access.visitor(client.cookies[SESSION_COOKIE], []).forgery_token
    client.post("/sign-out", data={"forgery_token": token})
    assert "Sign in" in client.get("/").text
    for _ in range(10):
        client.post("/sign-in", data={"token": "no"})
    assert client.post("/sign-in", data={"token": "no"}).status_code == 429
    assert stage.told[-1].says == "Too many wrong tokens; wait a minute."


def test_where_strangers_may_not_read_they_are_asked_to_sign_in(tmp_path: Path) -> None:
    stage = make_stage(tmp_path, rules=AccessRules({"x": "kim"}, anybody_reads=False))
    client = stage.client()

    asked = client.get("/pending?group=a", follow_redirects=False)
    assert asked.headers["location"] == "/sign-in?next=/pending%3Fgroup%3Da"
    assert client.get("/parts/groups").status_code == 401
    assert client.get("/parts/live").status_code == 401
    assert client.get("/healthz").json() == {"alive": True}


def test_a_name_that_leads_here_by_trickery_is_refused(stage: Stage) -> None:
    app = new_application(stage.console, hosts=["localhost"])
    from fastapi.testclient import TestClient

    assert TestClient(app, base_url="http://localhost:8484").get("/").status_code == 200
    assert TestClient(app, base_url="http://evil.example").get("/").status_code == 400


@pytest.mark.parametrize(
    "path", ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "", "/a\nb"]
)
def test_nobody_is_sent_to_another_site_after_signing_in(path: str) -> None:
    assert _own_path(path) == "/"
    assert _own_path("/pending?group=a") == "/pending?group=a"


def test_every_page_and_part_wants_a_reader() -> None:
    for routes in (pages.router, pages.parts):
        for route in routes.routes:
            assert "visitor" in route.endpoint.__annotations__, route  # type: ignore[attr-defined]


def test_the_console_needs_no_spark() -> None:
    program = """
import sys
import checkback.console.app, checkback.commands.console
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"pyspark", "py4j", "pandas"}, loaded
"""
    output_of(program)


def test_a_checkpoint_on_this_machine_is_read_where_only_the_console_is_installed(
    tmp_path: Path,
) -> None:
    """As after `pip install checkback[web]`, which brings neither Spark nor pandas."""
    with ZipFile(ROOT / "tests" / "data" / "releases" / "641b9cc" / "checkpoint.zip") as stored:
        stored.extractall(tmp_path)
    program = f"""
import sys
for name in ("pyspark", "py4j", "pandas", "delta", "deltalake"):
    sys.modules[name] = None
from checkback.checkpoints.spark_files.state_rows import read_state
from checkback.console.pending_view import PendingView, checkpoint_readable
from checkback.operations.checkpoint.open import open_state
from checkback.protocol.configuration import Settings
settings = Settings(bootstrap_servers="127.0.0.1:1", checkpoint={str(tmp_path)!r})
with open_state(settings) as store:
    assert read_state(store).pages
assert len(PendingView(settings).refresh().table.rows)
with checkpoint_readable(settings):
    import checkback.operations.checkpoint.inspect
"""
    output_of(program)


def test_a_browser_that_sends_a_proxys_header_itself_is_not_signed_in(tmp_path: Path) -> None:
    rules = AccessRules(
        proxy_header="X-User",
        proxy_secret=digest(TOKEN),
        anybody_reads=False,
    )
    client = make_stage(tmp_path, rules=rules).client()
    sent = {"X-User": "kim"}

    assert "/sign-in" in str(client.get("/", headers=sent).url)
    proved = client.get("/", headers={**sent, "X-Checkback-Proxy-Secret": TOKEN})
    assert "/sign-in" not in str(proved.url)
    assert "kim" in proved.text
