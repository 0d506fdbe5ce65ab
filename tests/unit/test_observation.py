"""The running job as others see it, without a broker."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from checkback.deploy.broker import free_ports
from checkback.protocol.configuration import Settings
from checkback.streaming.reports.observation import Observation
from checkback.streaming.reports.progress import Progress


def observed(port: int) -> Observation:
    settings = Settings(bootstrap_servers="127.0.0.1:1", metrics_port=port)
    return Observation(settings, Progress(), lambda: 0)


def ask(
    job: Observation, path: str, method: str = "GET", body: str | None = None
) -> tuple[int, str]:
    address = urlsplit(job.url or "")
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
    connection.request(method, path, body)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.fixture
def job() -> Iterator[Observation]:
    made = observed(free_ports(1)[0])
    yield made
    made.close()


def test_without_a_port_only_this_machine_may_ask() -> None:
    job = observed(0)

    assert job.url is not None
    assert job.url.startswith("http://127.0.0.1:")
    job.close()


def test_a_taken_port_is_one_sentence_and_the_job_goes_on(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        job = observed(port)

    assert job.url is None
    # Kafka clients of tests before this one may write there, too.
    said = (capsys.readouterr().err + caplog.text).splitlines()
    assert sum(f": 127.0.0.1:{port} can't be listened at" in line for line in said) == 1


def test_brokers_that_are_gone_make_the_job_unready_and_not_dead(job: Observation) -> None:
    job.started(lambda _: None)
    ready, says = ask(job, "/readyz")

    assert ready == 503
    assert says.startswith("the brokers can't be reached: ")
    assert ask(job, "/healthz")[0] == 200
    assert "checkback_ready 0.0" in ask(job, "/metrics")[1]


def test_log_levels_change_at_run_time(job: Observation) -> None:
    spark: list[str] = []
    before = ask(job, "/loglevel/spark", "PUT", "INFO")[0]
    job.started(spark.append)
    own = ask(job, "/loglevel/checkback", "PUT", "DEBUG")
    ask(job, "/loglevel/spark", "PUT", "WARNING")
    level = job.log_level
    ask(job, "/loglevel/checkback", "PUT", "WARNING")

    assert before == 404
    assert own == (200, "checkback logs DEBUG\n")
    assert level == "DEBUG"
    assert spark == ["WARN"]


@pytest.mark.parametrize(("now", "before"), [("on", "off"), ("off", "on"), ("on", "on")])
def test_a_change_of_access_control_is_in_the_log_at_any_level(
    job: Observation,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    now: str,
    before: str,
) -> None:
    version = "abc" if now == "on" else ""
    facts = {"access_control": now, "before": before, "version": version, "from_batch": 7}
    job.rules_changed(facts)

    told = capsys.readouterr().err + caplog.text
    assert f"Access control is {now} and was {before}" in told
    assert "from batch 7 on" in told


def test_broken_access_rules_are_a_metric_and_one_line_of_the_log(
    job: Observation, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def value() -> str:
        text = ask(job, "/metrics")[1]
        return text.split("\ncheckback_access_rules_broken ")[1].split("\n")[0]

    assert value() == "0.0"
    for _ in range(3):
        job.access_looked("plain_acl.yml has a mistake: line 3")
    assert value() == "1.0"
    job.access_looked("")
    assert value() == "0.0"
    told = capsys.readouterr().err + caplog.text
    assert told.count("stay in force: plain_acl.yml has a mistake: line 3") == 1
