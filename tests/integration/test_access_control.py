"""Two tenants of one deployment attack each other; Kafka lets both write to every topic."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator

import pytest
from tests.integration.client.playing import Scripted, producer_over
from tests.integration.running import Pipeline, Topics, wait_until
from tests.integration.tenants import ADMIN, ALICE, PATIENCE_S, SECRETS, Stage, forge, rules

from checkback.client import LocalTransactionState, Message
from checkback.commands.shared.app import NOUNS, LazyGroup, execute
from checkback.deploy.broker import EmbeddedBroker
from checkback.security import SignatureAlgorithm
from checkback.security.accounts import Secret
from checkback.streaming.source.verification import pads_of


@pytest.fixture(scope="module")
def stage(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    prefix, folder = f"t{uuid.uuid4().hex[:10]}-", tmp_path_factory.mktemp("access")
    topics = Topics(broker.bootstrap_servers, prefix)
    file = folder / "plain_acl.yml"
    file.write_text(rules(prefix))
    (folder / "events").mkdir()
    settings = topics.settings(
        folder / "checkpoint",
        application_id=prefix.rstrip("-"),
        trigger_interval_ms=200,
        progress_interval_ms=500,
        check_interval_ms=2_000,
        transaction_timeout_ms=1_000,
        acl_file=str(file),
        access_key=ADMIN,
        secret_key=SECRETS[ADMIN],
        spark={"eventLog.enabled": "true", "eventLog.dir": str(folder / "events")},
        log_file="-",
        log_level="DEBUG",
    )
    topics.create(settings, [f"{prefix}alice", f"{prefix}mallory"], [f"{prefix}a", f"{prefix}m"])
    with Pipeline(settings, folder) as pipeline:
        started = pipeline.wait_for("started")
        assert started["access_control"] == "on"
        yield Stage(topics, pipeline, prefix, file)


def test_a_tenant_that_signs_gets_its_messages_delivered(stage: Stage) -> None:
    listener = Scripted()
    own = {"access_key": ALICE, "secret_key": SECRETS[ALICE], "born_host": "10.0.0.1"}
    with producer_over(stage.topics, f"{stage.prefix}a", listener, **own) as producer:
        producer.send_message_in_transaction(Message(f"{stage.prefix}alice", b"paid"))
        listener.execute = lambda *_: LocalTransactionState.UNKNOW
        asked = producer.send_message_in_transaction(Message(f"{stage.prefix}alice", b"asked"))
        wait_until(
            lambda: sorted(stage.bodies()) == ["asked", "paid"], PATIENCE_S, what="both finals"
        )

    assert [one.transaction_id for one in listener.checked] == [asked.transaction_id]
    assert sorted(stage.bodies()) == ["asked", "paid"]
    [final] = [one for one in stage.topics.read(f"{stage.prefix}alice") if one.value() == b"paid"]
    assert {"Signature", "__BORNHOST"}.isdisjoint(dict(final.headers() or []))
    assert stage.refused() == []


def test_no_attack_has_an_effect(stage: Stage) -> None:
    forge(stage, stage.half("pending", stage.signer(ALICE)))

    assert sorted(stage.bodies()) == ["asked", "paid"]
    assert stage.bodies("mallory") == []


def test_an_operator_decides_as_an_admin_only(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    resolve = ["tx", "resolve", "pending", "--commit", "--operator", "ann", "--why", "paid"]
    config = ["--config", str(stage.pipeline.folder / "checkback.toml"), "--output", "json"]
    as_alice = [
        "--set",
        f"access_key={ALICE}",
        "--set",
        f"secret_key={SECRETS[ALICE]}",
        "--wait",
        "30",
    ]

    assert execute(LazyGroup(NOUNS), [*resolve, "--yes", *as_alice, *config]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["op_refused"]["reason"] == "ADMIN_NEEDED"

    assert execute(LazyGroup(NOUNS), [*resolve, "--yes", *config]) == 0
    assert sorted(stage.bodies()) == ["asked", "paid", "pending"]


def test_changed_rules_are_in_force_within_seconds_and_broken_ones_never(stage: Stage) -> None:
    alice = stage.signer(ALICE)
    stage.rules.write_text("accounts: [")
    broken = stage.pipeline.wait_for("access_rules_broken")
    stage.op(stage.half("under old rules", alice), "under old rules", alice)
    wait_until(lambda: "under old rules" in stage.bodies(), PATIENCE_S, what="the final")

    stage.rules.write_text(rules(stage.prefix, alices_topic="SUB"))
    changed = stage.pipeline.wait_for("access_rules", 20)
    stage.op(stage.half("under new rules", alice), "under new rules", alice)
    stage.wait_until_refused("under new rules", "TOPIC_NOT_PERMITTED")

    assert "no YAML" in broken["problem"]
    assert (changed["access_control"], changed["before"]) == ("on", "on")
    assert "under new rules" not in stage.bodies()


def test_no_secret_is_anywhere_but_in_the_rules(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stage.pipeline.folder
    config = ("--config", str(folder / "checkback.toml"))
    rules_here = ("--file", str(stage.rules), "--access-key", ALICE)
    for words in (
        ["doctor", *config],
        ["config", "show", *config],
        ["tx", "show", "pending", *config],
        ["refused", "list", *config],
        ["acl", "lint", str(stage.rules)],
        ["acl", "check", *rules_here, "--topic", "paid"],
    ):
        execute(LazyGroup(NOUNS), words)
    told = capsys.readouterr()
    assert stage.pipeline.terminate() == 0
    kept = {str(one): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    secret_holders = {str(stage.rules), str(folder / "checkback.toml")}
    for topic in (stage.topics.names.refused, stage.topics.names.settled):
        kept[topic] = b"".join(one.value() or b"" for one in stage.topics.read(topic))
    kept["commands"] = (told.out + told.err).encode()
    kept["events"] = json.dumps(stage.pipeline.drain()).encode()
    forms = [form for secret in SECRETS.values() for form in forms_of(secret)]

    leaks = [
        name
        for name, content in kept.items()
        if name not in secret_holders and any(form in content.lower() for form in forms)
    ]

    assert any("events/" in name for name in kept)
    assert any("/terms/" in name for name in kept)
    assert leaks == []


def forms_of(secret: str) -> list[bytes]:
    """Return a secret and its pads, raw, in hexadecimal digits and in Base64; in small letters."""
    pads = pads_of(Secret(secret, SignatureAlgorithm.HMAC_SHA256))
    raw = [secret.encode(), *pads]
    # Of a part of something larger Base64 shows the middle, in one of three ways.
    coded = [base64.b64encode(b"-" * at + one)[4:-4] for one in raw for at in range(3)]
    return [one.lower() for one in (*raw, *(one.hex().encode() for one in raw), *coded)]
