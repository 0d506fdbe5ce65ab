"""What Spark and py4j write down shows no secret, in no form that is enough to sign with."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import NAMES, kafka_rows
from tests.spark.test_verification import RULES, half, refusals, signer

from checkback.security import AccessControl, SignatureAlgorithm
from checkback.security.accounts import Secret
from checkback.streaming.source.decode import decode
from checkback.streaming.source.verification import RecordVerification, pads_of

SECRETS = [f"secret-of-{one}" for one in ("orders", "stock-new", "stock-old", "rocketmq")]


def test_no_plan_shows_a_secret(spark: SparkSession) -> None:
    verification = RecordVerification(spark, AccessControl.parse(RULES, "rules"))
    lines = spark.createDataFrame([(half(signer()).to_json(),)], "value string")
    frame: Any = decode(kafka_rows(lines), NAMES, 1024, verification)
    query = frame._jdf.queryExecution()
    jvm: Any = spark._jvm
    modes = jvm.org.apache.spark.sql.execution.ExplainMode
    shown = {
        mode: query.explainString(modes.fromString(mode))
        for mode in ("simple", "extended", "codegen", "formatted")
    }
    shown["json"] = query.executedPlan().toJSON()
    shown["representation"] = repr(verification)

    assert "RecordVerifier of 5 accounts" in shown["extended"]
    assert {where: secrets_in(text) for where, text in shown.items()} == {key: [] for key in shown}


def secrets_in(text: str) -> list[str]:
    """Return the secrets that a text shows, in any form that is enough to sign with."""
    found = []
    for secret in SECRETS:
        pads = pads_of(Secret(secret, SignatureAlgorithm.HMAC_SHA256))
        raw = (secret.encode(), *pads)
        forms = (secret, *(one.hex() for one in raw), *(str(list(one))[1:-1] for one in raw))
        found += [secret for form in forms if form in text.lower()]
        found += [secret for one in raw if base64.b64encode(one).decode() in text]
    return found


def test_no_log_shows_what_the_jvm_is_given(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """At DEBUG py4j wrote each secret's pads, from which anybody has the secret, in Base64."""
    caplog.set_level(logging.DEBUG, "py4j")
    py4j = logging.getLogger("py4j")
    py4j.addHandler(caplog.handler)  # it may not tell the root logger
    try:
        rules = AccessControl.parse(RULES, "rules")
        verification = RecordVerification(spark, rules)
        assert refusals(spark, verification, [half(signer())]) == [0]
        logging.getLogger("py4j.clientserver").info("what is no command")
    finally:
        py4j.removeHandler(caplog.handler)

    assert "what is no command" in caplog.text
    assert secrets_in(caplog.text) == []
