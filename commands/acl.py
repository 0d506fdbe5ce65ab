"""``checkback acl``: explain decisions of access control, check its rules, print Kafka's grants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from checkback.commands.shared.errors import EXIT_FOUND, EXIT_OK
from checkback.commands.shared.output import CommandOutput, output_option, table_text
from checkback.commands.shared.settings import settings_options
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError, UsageError
from checkback.protocol.topics import (
    RULES_ON_KAFKA,
    is_kafka_topic_name,
    rules_topic,
)
from checkback.security import AccessControl
from checkback.security.access_control import rules_text
from checkback.security.accounts import Permission, SecretReference
from checkback.security.decision import AccessDecision, AccessRequest, Need, ResourceKind
from checkback.security.grants import (
    READ,
    Grant,
    Resource,
    kafka_acls_command,
    operator_grants,
    pipeline_grants,
    producer_grants,
    relay_grants,
)

Central = Callable[[Settings, Sequence[str], Sequence[str]], list[Grant]]
PERMISSIONS: Final[dict[str, tuple[Permission, ...]]] = {
    "PUB": (Permission.PUB,),
    "SUB": (Permission.SUB,),
    "PUB|SUB": (Permission.PUB, Permission.SUB),
}


@click.group(help="Explain access control, check its rules, print Kafka's grants.")
def command() -> None:
    """Group the verbs."""


@command.command()
@click.option("--file", "file", required=True, type=click.Path(path_type=Path), help="The rules.")
@click.option("--access-key", default="", help="The account that asks; default: none.")
@click.option("--topic", "topics", multiple=True, help="A topic; can be repeated.")
@click.option("--group", "groups", multiple=True, help="A producer group; can be repeated.")
@click.option(
    "--perm",
    type=click.Choice(list(PERMISSIONS)),
    default="PUB",
    show_default=True,
    metavar="PERM",  # a list of the choices would have a bar too many
    help="What is needed on each topic and group: PUB, SUB or 'PUB|SUB'.",
)
@click.option("--address", default="", help="The address that it states; default: none.")
@click.option("--admin", "needs_admin", is_flag=True, help="Ask for what only admins may do.")
@output_option
def check(
    output: CommandOutput,
    file: Path,
    access_key: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    perm: str,
    address: str,
    needs_admin: bool,
) -> int:
    """Explain step by step whether somebody may do something.

    A half message needs PUB on its topic and on its group, an op PUB on its group, an op that
    answers a check PUB|SUB, and an operator's command --admin. The signature counts as the
    account's. No half message gets to a system topic, whatever the rules say: the pipeline refuses
    it.

    Exit code 1: denied.
    """
    named = [(ResourceKind.TOPIC, topic) for topic in topics]
    named += [(ResourceKind.GROUP, group) for group in groups]
    if not (named or needs_admin):
        raise UsageError("Say what is wanted: --topic, --group or --admin.")
    needs = tuple(Need(kind, name, right) for kind, name in named for right in PERMISSIONS[perm])
    request = AccessRequest(access_key, address, needs, needs_admin)
    access = AccessControl.from_file(file, reads_secrets=False)
    decision = access.decide(request, lambda _: True)
    output.show(_decision_data(decision), decision_text(decision))
    return EXIT_OK if decision.is_allowed else EXIT_FOUND


def _decision_data(decision: AccessDecision) -> dict[str, Any]:
    steps = [
        {"rule": step.rule, "outcome": step.outcome.value, "says": step.says}
        for step in decision.steps
    ]
    return {
        "allowed": decision.is_allowed,
        "denial": None if decision.denial is None else decision.denial.value,
        "steps": steps,
    }


def decision_text(decision: AccessDecision) -> str:
    """Return the steps and the decision for people."""
    rows = [
        (f"{number}.", step.rule, step.outcome.value, step.says)
        for number, step in enumerate(decision.steps, 1)
    ]
    said = "Allowed" if decision.is_allowed else "Denied"
    table = table_text(("", "rule", "outcome", ""), rows)
    return f"{table}\n{said}, if the signature is right: {decision.says}"


@command.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--without-secrets", is_flag=True, help="Do not read the secrets that the file refers to."
)
@output_option
def lint(output: CommandOutput, file: Path, without_secrets: bool) -> int:
    """Say what is wrong or unwise in a file of rules, by line.

    Exit code 1: the file has mistakes; the pipeline would refuse it.
    """
    try:
        access = AccessControl.from_file(file, reads_secrets=not without_secrets)
    except ConfigurationError as error:
        if "mistakes" not in error.fields:
            raise  # it can't be read
        found: dict[str, Any] = error.fields
    else:
        found = {"mistakes": [], "warnings": [asdict(warning) for warning in access.warnings]}
        found["accounts"] = list(access.accounts)
    mistakes, warnings = found["mistakes"], found["warnings"]
    lines = [*_lines("mistake", mistakes), *_lines("warning", warnings)]
    said = f"{_counted(mistakes, 'mistake')}, {_counted(warnings, 'warning')}."
    output.show({**found, "source": str(file)}, "\n".join([*lines, said]))
    return EXIT_FOUND if mistakes else EXIT_OK


@command.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@output_option
@settings_options
def publish(settings: Settings, output: CommandOutput, file: Path) -> None:
    """Write a file of rules to the topic that has the rules.

    The topic is the one that acl_file names as kafka:TOPIC. A file with mistakes is not written.
    The topic is created if it is missing: compacted, with one partition. A running pipeline takes
    the rules over within seconds.
    """
    # Imported late: what reads Kafka loads slowly.
    from checkback.operations.topics.append import publish_rules

    topic = rules_topic(settings.acl_file)
    if not topic:
        raise UsageError(
            f"acl_file is {settings.acl_file!r}, which is no topic.",
            remedy=f"Give --set acl_file={RULES_ON_KAFKA}TOPIC.",
        )
    text = rules_text(file)  # once: what is written there is what was checked
    access = AccessControl.parse(text, str(file), _of_any_machine)
    at = publish_rules(settings, topic, text.encode())
    data = {"topic": topic, "partition": at.partition, "offset": at.offset,
            "accounts": len(access.accounts)}  # fmt: skip
    output.show(data, f"Rules with {_counted(access.accounts, 'account')} are at {topic} {at}.")


def _of_any_machine(reference: SecretReference) -> None:
    """Leave a secret out; refuse a reference that means nothing where the rules are read."""
    if reference.kind == "file" and not reference.name.startswith("/"):
        raise LookupError(f"{reference.name} is a relative path; on a topic give the whole path")


def _counted(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}" + ("" if len(things) == 1 else "s")


def _lines(kind: str, found: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{kind} in line {finding['line']}: {finding['says']} {finding['remedy']}"
        for finding in found
    ]


@command.command()
@click.option("--principal", required=True, help="Who gets the rights, by Kafka: User:orders.")
@click.option("--group", "groups", multiple=True, help="A producer group; can be repeated.")
@click.option("--topic", "topics", multiple=True, help="A real topic; can be repeated.")
@click.option("--pipeline", is_flag=True, help="For the pipeline, not for a producer group.")
@click.option("--relay", "relay", is_flag=True, help="For `checkback relay`.")
@click.option("--operators", is_flag=True, help="For operators' commands and the console.")
@click.option(
    "--command-config",
    default="",
    help="File for kafka-acls: the login of a user who may grant rights.",
)
@output_option
@settings_options
def grants(
    settings: Settings,
    output: CommandOutput,
    principal: str,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    pipeline: bool,
    relay: bool,
    operators: bool,
    command_config: str,
) -> None:
    """Print the kafka-acls commands for the rights that are needed.

    They give a principal what it needs, and no more. What is optional is printed as a comment. With
    --pipeline, name every real topic, and with --group the pipeline may ask only those groups. The
    same holds for --operators; --relay needs the real topics.
    """
    chosen = {pipeline_grants: pipeline, relay_grants: relay, operator_grants: operators}
    if sum(chosen.values()) > 1:
        raise UsageError(
            "Give --pipeline, --relay or --operators, each for a principal of its own."
        )
    central = next((one for one, is_chosen in chosen.items() if is_chosen), None)
    found = _grants(settings, groups, topics, central)
    commands = [
        kafka_acls_command(grant, principal, settings.bootstrap_servers, command_config)
        for grant in found
    ]
    data, text = map(_grant_data, found, commands), map(_grant_text, found, commands)
    output.show({"grants": list(data)}, "\n".join(text), is_folded=False)


def _grants(
    settings: Settings,
    groups: Sequence[str],
    topics: Sequence[str],
    central: Central | None,
) -> list[Grant]:
    names = settings.topics
    for name in (*groups, *topics):
        if not is_kafka_topic_name(name):  # * would be all of them
            raise UsageError(f"{name!r} is the name of no topic and no group.")
    if central is not None:
        if not topics:
            raise UsageError("Name the real topics that the pipeline delivers to: --topic.")
        found = central(settings, topics, groups)
        rules = rules_topic(settings.acl_file)
        return [*found, Grant(Resource.TOPIC, rules, (READ,), "read the rules")] if rules else found
    if not groups:
        raise UsageError("Name the producer group with --group, or give --pipeline or --operators.")
    found = [grant for group in groups for grant in producer_grants(names, group, topics)]
    return list(dict.fromkeys(found))  # groups share topics


def _grant_data(grant: Grant, kafka_acls: str) -> dict[str, Any]:
    return {
        "command": kafka_acls,
        "resource": grant.resource.value,
        "name": grant.name,
        "prefixed": grant.is_prefix,
        "operations": list(grant.operations),
        "purpose": grant.purpose,
        "optional": grant.is_optional,
    }


def _grant_text(grant: Grant, kafka_acls: str) -> str:
    if grant.is_optional:
        return f"# optional, to {grant.purpose}:\n# {kafka_acls}"
    return f"# to {grant.purpose}:\n{kafka_acls}"
