"""What operators do, against a pipeline at work."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.client.playing import Scripted, producer_over
from tests.integration.runbooks import RUNBOOKS, TOLD_BY_RUNBOOKS
from tests.integration.running import (
    COMMIT,
    ROLLBACK,
    Pipeline,
    Topics,
    executed,
    wait_until,
)
from tests.integration.shared_jvm import SharedJvm
from tests.programs import checkback
from tests.unit.test_documented_commands import command_lines

from checkback.deploy.broker import EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.protocol.properties import HALF_PROTOCOL_ORDER, RESUME_HEADER_PREFIX, text_value

NEVER_ASKED = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "3600"}


@dataclass
class Stage:
    """A running pipeline over topics with transactions of many fates."""

    topics: Topics
    settings: Settings
    pipeline: Pipeline
    real: str
    halves: dict[str, tuple[int, int]]

    def checkback(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Run a command with the pipeline's settings; return its JSON."""
        left_with, out, errors = executed([*arguments, *self.shared])
        assert left_with == code, out + errors
        return dict(json.loads(out or errors))

    def checkback_process(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Do the same in a process of its own: for what starts Spark."""
        ran = checkback(*arguments, *self.shared)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return dict(json.loads(ran.stdout))

    @property
    def shared(self) -> tuple[str, ...]:
        config = str(self.pipeline.folder / "checkback.toml")
        return ("--config", config, "--output", "json")

    def only(self, name: str) -> dict[str, Any]:
        """The history of the only transaction of that id."""
        (found,) = self.checkback("tx", "show", name)["transactions"]
        return dict(found)

    def ends(self, topic: str) -> int:
        return len(self.topics.read(topic))


@pytest.fixture(scope="module")
def stage(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, shared_jvm: SharedJvm
) -> Iterator[Stage]:
    prefix, folder = f"t{uuid.uuid4().hex[:10]}-", tmp_path_factory.mktemp("operations")
    topics = Topics(broker.bootstrap_servers, prefix)
    settings = topics.settings(
        folder / "checkpoint",
        application_id=prefix.rstrip("-"),
        trigger_interval_ms=500,  # leaves the processor to what is tested
    )
    real = f"{prefix}orders"
    topics.create(settings, [real], ["g"])
    halves = {
        name: topics.send_half(name.encode(), real, key=b"k", properties={"mine": "1", **more})
        for name, more in {
            "paid": {}, "undone": {}, "silent": {},
            "to commit": NEVER_ASKED, "to roll back": NEVER_ASKED,
        }.items()
    }  # fmt: skip
    topics.send_op(halves["paid"], "paid", COMMIT)
    topics.send_op(halves["undone"], "undone", ROLLBACK)
    topics.send_op(halves["undone"], "undone", COMMIT)
    halves["nowhere"] = topics.send_half(b"nowhere", f"{prefix}no-such-topic", partition=1)
    topics.send_op(halves["nowhere"], "nowhere", COMMIT)
    halves["unheard"] = topics.send_half(b"unheard", real, partition=1, group=f"{prefix}n")
    with shared_jvm.pipeline(settings, folder) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: topics.bodies(real) == ["paid"], what="the first final")
        # Written by the other state partition, perhaps later.
        wait_until(lambda: len(topics.reasons()) >= 2, what="both refusals")
        yield Stage(topics, settings, pipeline, real, halves)


def test_a_history_is_told_from_half_to_final(stage: Stage) -> None:
    paid = stage.only("paid")
    by_place = stage.checkback("tx", "show", "{}:{}".format(*stage.halves["paid"]))

    assert [event["kind"] for event in paid["events"]] == ["half", "op", "mark", "final"]
    assert paid["verdict"] == "commit"
    assert (paid["group"], paid["real_topic"]) == ("g", stage.real)
    half, op, mark, final = paid["events"]
    assert half["properties"]["mine"] == "1"
    assert (op["says"], op["manual"]) == ("commit", False)
    assert mark["mark"] == "commit"
    assert final["topic"] == stage.real
    assert by_place["transactions"] == [paid]


def test_a_history_tells_what_was_refused(stage: Stage) -> None:
    undone, nowhere = stage.only("undone"), stage.only("nowhere")

    assert undone["verdict"] == "rollback"
    assert [one["says"] for one in undone["events"] if one["kind"] == "op"] == [
        "rollback", "commit",
    ]  # fmt: skip
    refused = [one["reason"] for one in undone["events"] if one["kind"] == "refused"]
    assert refused == ["COMMIT_AFTER_ROLLBACK"]
    assert nowhere["verdict"] == "commit"
    refused = [one["reason"] for one in nowhere["events"] if one["kind"] == "refused"]
    assert refused == ["REAL_TOPIC_MISSING"]


def test_what_was_never_sent_is_not_found(stage: Stage) -> None:
    for name in ("no such id", "0:1000000", "77:0"):
        told = stage.checkback("tx", "show", name, code=2)
        assert told["error"]["kind"] == "NotFoundError"


def test_pending_lists_what_waits_while_the_pipeline_runs(stage: Stage) -> None:
    told = stage.checkback_process("pending", "--group", "g", "--older-than", "1s")
    rows = told["pending"]
    found = {row["transaction_id"]: row for row in rows}

    assert {"to commit", "to roll back"} <= found.keys()
    assert not {"paid", "undone", "nowhere", "unheard"} & found.keys()
    row = found["to commit"]
    assert (row["half_partition"], row["half_offset"]) == stage.halves["to commit"]
    assert (row["check_times"], row["real_topic"]) == (0, stage.real)
    assert row["next_check_ms"] == row["half_time_ms"] + 3_600_000
    assert row["age_ms"] > 0


def test_a_person_commits_and_rolls_back_and_the_pipeline_decides(stage: Stage) -> None:
    commit = ("tx", "resolve", "to commit", "--commit", "--why", "seen in the books")
    planned = stage.checkback(*commit)
    assert (planned["dry_run"], planned["appended"]) == (True, False)
    assert [one["kind"] for one in stage.only("to commit")["events"]] == ["half"]

    done = stage.checkback(*commit, "--yes", "--operator", "ann")

    assert done["verdict"] == "commit"
    assert done["final"]["topic"] == stage.real
    assert "to commit" in stage.topics.bodies(stage.real)
    (op,) = [one for one in stage.only("to commit")["events"] if one["kind"] == "op"]
    assert (op["manual"], op["operator"], op["remark"]) == (True, "ann", "seen in the books")
    again = stage.checkback(*commit, "--yes")
    assert (again["appended"], list(again["verdicts"].values())) == (False, ["commit"])
    place = "{}:{}".format(*stage.halves["to roll back"])
    undone = stage.checkback("tx", "resolve", place, "--rollback", "--why", "no", "--yes")
    assert (undone["verdict"], undone["final"]) == ("rollback", None)
    late = stage.checkback(*commit[:2], place, *commit[3:], "--yes", code=1)
    assert late["verdicts"] == {place: "rollback"}
    assert "to roll back" not in stage.topics.bodies(stage.real)


def test_a_discarded_half_begins_anew_once(stage: Stage) -> None:
    names = stage.topics.names
    wait_until(lambda: "silent" in stage.topics.bodies(names.discarded), what="a discard")
    history = stage.only("silent")
    asked = [one["check_times"] for one in history["events"] if one["kind"] == "check request"]
    assert (history["verdict"], asked) == ("discard", [1, 2, 3])
    (listed,) = stage.checkback("discarded", "list", "--group", "g", "--reason", "check-limit")[
        "discarded"
    ]
    assert (listed["transaction_id"], listed["resumed_to"]) == ("silent", "")
    for wrong in (("--group", "x"), ("--topic", "x"), ("--older-than", "1d")):
        assert stage.checkback("discarded", "list", *wrong)["discarded"] == []
    (shown,) = stage.checkback("discarded", "show", "silent")["discarded"]
    assert base64.b64decode(shown["body_base64"]) == b"silent"
    halves_before = stage.ends(names.half)
    resume = ("discarded", "resume", "silent", "--why", "the bank was down")
    planned = stage.checkback(*resume)
    assert (len(planned["would_resume"]), stage.ends(names.half)) == (1, halves_before)

    done = stage.checkback(*resume, "--yes", "--operator", "ann")
    again = stage.checkback(*resume, "--yes")

    (resumed,) = done["resumed"]
    assert stage.ends(names.half) == halves_before + 1
    assert again["resumed"] == []
    assert again["already_resumed"][0]["resumed_to"] == resumed["resumed_to"]
    partition, offset = (int(part) for part in resumed["resumed_to"].split(":"))
    (half,) = [
        one
        for one in stage.topics.read(names.half)
        if (one.partition(), one.offset()) == (partition, offset)
    ]
    headers = half.headers() or []
    assert tuple(name for name, _ in headers[:5]) == HALF_PROTOCOL_ORDER
    assert (half.key(), half.value()) == (b"k", b"silent")
    assert text_value(headers, f"{RESUME_HEADER_PREFIX}operator") == "ann"
    assert text_value(headers, f"{RESUME_HEADER_PREFIX}reason") == "the bank was down"
    assert text_value(headers, "TRANSACTION_CHECK_TIMES") is None
    stage.topics.send_op((partition, offset), "silent", COMMIT)
    wait_until(lambda: "silent" in stage.topics.bodies(stage.real), what="its final")
    (final,) = [one for one in stage.topics.read(stage.real) if one.value() == b"silent"]
    kept = {name for name, _ in final.headers() or []}
    assert kept == {
        "PGROUP", "UNIQ_KEY", "mine", "TRAN_PREPARED_QUEUE_OFFSET", "TRAN_HALF_QUEUE_ID",
    }  # fmt: skip
    both = stage.checkback("tx", "show", "silent")["transactions"]
    assert [one["verdict"] for one in both] == ["discard", "commit"]
    assert both[0]["events"][-1]["resumed_to"] == resumed["resumed_to"]
    assert both[1]["events"][0]["resumed_from"] == f"{shown['partition']}:{shown['offset']}"


def test_a_group_that_never_registered_burns_no_checks(stage: Stage) -> None:
    group = f"{stage.topics.prefix}n"

    def undelivered() -> int:
        events = stage.only("unheard")["events"]
        return sum(one["kind"] == "check undelivered" for one in events)

    wait_until(lambda: undelivered() > stage.settings.check_max, what="more tries than checks")
    assert stage.only("unheard")["verdict"] == "pending"
    told = stage.checkback_process("doctor")
    by_check = {one["check"]: one for one in told["checks"]}
    assert (told["failed"], by_check["brokers"]["result"]) == (0, "ok")
    assert by_check[f"group {group}"]["result"] == "warning"
    assert "no check topic" in by_check[f"group {group}"]["says"]
    assert by_check["half retention"]["result"] == "ok"
    assert by_check["checkpoint"]["says"].endswith("markers there")
    assert by_check["pipeline"]["result"] == "ok"

    listener = Scripted()
    with producer_over(stage.topics, group, listener):
        wait_until(lambda: "unheard" in stage.topics.bodies(stage.real), what="its final")

    assert [request.check_times for request in listener.checked] == [1]


def test_every_command_of_the_runbooks_does_what_its_page_says(
    stage: Stage, tmp_path: Path
) -> None:
    """A page that somebody reads at night must not tell them what does not work."""
    rules = tmp_path / "plain_acl.yml"
    rules.write_text("accounts:\n- {accessKey: orders-service, secretKey: secret-of-orders}\n")
    stuck, late = f"{stage.topics.prefix}stuck", f"{stage.topics.prefix}late"
    stage.topics.create(stage.settings, [stuck])
    stage.topics.send_half(b"stuck", stuck, partition=1, properties=NEVER_ASKED)
    at = stage.topics.send_half(b"late", late, partition=1)
    stage.topics.send_op(at, "late", COMMIT)
    names = stage.topics.names
    wait_until(lambda: "late" in stage.topics.bodies(names.refused), what="a refusal")
    meant = {
        "GROUP": "g",
        "NAME": late,
        "TOPIC": late,
        "TEXT": "told so",
        "FILE": str(rules),
        "N": "2",
    }
    found = {}
    for line in dict.fromkeys(command_lines(RUNBOOKS)):
        ids = {"ID": "late" if "refused" in line else "stuck"}
        words = [{**meant, **ids}.get(word, word) for word in line.split()[1:]]
        config = () if words[0] == "acl" else stage.shared[:2]
        code, said = TOLD_BY_RUNBOOKS[line]
        if words[0] == "checkpoint":  # that starts Spark
            ran = checkback(*words, *config)
            left_with, out, errors = ran.returncode, ran.stdout, ran.stderr
        else:
            left_with, out, errors = executed([*words, *config])
        told = " ".join((out + errors).split())  # lines are folded
        if left_with != code or said not in told:
            found[line] = (left_with, out, errors)

    assert found == {}
    assert stage.topics.bodies(stuck) == ["stuck"], "resolved"
    assert stage.topics.bodies(late) == ["late"], "sent again"


@pytest.mark.parametrize(
    ("option", "other"), [("--set", "state_partitions=7"), ("--application-id", "another")]
)
def test_the_doctor_names_a_setting_that_the_checkpoint_was_not_made_with(
    stage: Stage, option: str, other: str
) -> None:
    """It said that markers are gone, and to rebuild a whole checkpoint."""
    told = stage.checkback("doctor", option, other, code=1)

    by_check = {one["check"]: one for one in told["checks"]}
    assert "The checkpoint was made with" in by_check["checkpoint"]["says"]
    assert "rebuild" not in by_check["checkpoint"]["remedy"]
    assert "markers" not in by_check


def test_the_doctor_fails_where_topics_are_missing(stage: Stage) -> None:
    told = stage.checkback("doctor", "--topic-prefix", "nobodys-", "--checkpoint", "", code=1)

    results = {one["check"]: one["result"] for one in told["checks"]}
    missing = [name for name, result in results.items() if result == "failed"]
    assert len(missing) == told["failed"] == 7
    assert all(name.startswith("topic nobodys-") for name in missing)


def test_the_doctor_warns_of_a_checkpoint_that_no_pipeline_made_yet(
    stage: Stage, tmp_path: Path
) -> None:
    told = stage.checkback("doctor", "--checkpoint", str(tmp_path / "new"))

    by_check = {one["check"]: one for one in told["checks"]}
    assert told["failed"] == 0
    assert by_check["checkpoint"]["result"] == "warning"
    assert by_check["checkpoint"]["says"] == "not started yet"


def test_only_what_was_committed_was_ever_on_the_real_topic(stage: Stage) -> None:
    """Not even to a consumer that reads what was aborted."""
    committed = ["paid", "silent", "to commit", "unheard"]
    written = {one.value() for one in stage.topics.read(stage.real, "read_uncommitted")}

    assert stage.topics.bodies(stage.real) == committed
    assert written == {name.encode() for name in committed}


def test_a_refused_final_is_sent_once_when_its_topic_is_there(stage: Stage) -> None:
    real = f"{stage.topics.prefix}no-such-topic"
    wait_until(lambda: "nowhere" in stage.topics.bodies(stage.topics.names.refused))
    chosen = ("refused", "resend", "--topic", real, "--why", "the topic is there now")
    (listed,) = stage.checkback("refused", "list", "--topic", real)["refused"]
    assert (listed["reason"], listed["resent_to"]) == ("REAL_TOPIC_MISSING", "")
    early = stage.checkback(*chosen, "--yes", code=1)
    assert early["cannot_resend"][0]["obstacle"].startswith("REAL_TOPIC_MISSING")
    stage.topics.create(stage.settings, [real], [])
    planned = stage.checkback(*chosen)
    assert (len(planned["would_resend"]), stage.topics.bodies(real)) == (1, [])

    done = stage.checkback(*chosen, "--yes", "--operator", "ann")
    again = stage.checkback(*chosen, "--yes")

    (resent,) = done["resent"]
    assert (again["resent"], again["already_resent"][0]["resent_to"]) == ([], resent["resent_to"])
    (final,) = stage.topics.read(real)
    assert resent["resent_to"] == f"{real}:{final.partition()}:{final.offset()}"
    partition, offset = stage.halves["nowhere"]
    (half,) = [
        one
        for one in stage.topics.read(stage.topics.names.half)
        if (one.partition(), one.offset()) == (partition, offset)
    ]
    assert (final.value(), final.timestamp()[1]) == (b"nowhere", half.timestamp()[1])
    headers = dict(final.headers() or [])
    assert headers["TRAN_PREPARED_QUEUE_OFFSET"] == str(offset).encode()
    assert headers["__checkback.resend.operator"] == b"ann"
    assert headers["__checkback.resend.reason"] == b"the topic is there now"
    assert "REAL_TOPIC" not in headers
    assert stage.only("nowhere")["events"][-1]["resent_to"] == resent["resent_to"]
    stage.checkback(*chosen, "--yes", "--force")
    assert stage.topics.bodies(real) == ["nowhere", "nowhere"]
    op = stage.checkback("refused", "resend", "undone", "--why", "no", "--yes", code=1)
    assert op["cannot_resend"][0]["obstacle"] == "it is no half message"
    everything = stage.checkback("refused", "resend", "--all", "--why", "all that is left")
    assert (everything["cannot_resend"], everything["skipped"] > 0) == ([], True)
    (shown,) = stage.checkback("refused", "show", "nowhere")["refused"]
    assert base64.b64decode(shown["body_base64"]) == b"nowhere"
