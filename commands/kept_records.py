"""What the commands about discarded and about refused records share: choosing and showing them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from checkback.commands.options import Decorator
from checkback.operations.record_filter import RecordFilter
from checkback.operations.scanning import FoundRecord
from checkback.operations.timestamps import now_ms
from checkback.protocol.errors import NotFoundError, UsageError
from checkback.protocol.records import OperatorFacts


def filter_options(options: list[Decorator], reasons: Mapping[str, str]) -> Decorator:
    """Return a decorator that adds options; they reach the command as one filter, ``wanted``.

    Args:
        options: click's options: group, topic, older_than, reason, and newer_than if there is one.
        reasons: by the reason as users write it, the reason as the records do.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def chosen(*args: Any, group: str, topic: str, reason: str | None, **rest: Any) -> Any:
            until_ms, from_ms = (_ago(rest.pop(age, None)) for age in ("older_than", "newer_than"))
            code, name = reasons[reason] if reason else "", rest.get("name", "")
            wanted = RecordFilter(name, group, topic, code, until_ms, from_ms)
            return function(*args, wanted=wanted, **rest)

        result: Callable[..., Any] = chosen
        for option in reversed(options):
            result = option(result)
        return result

    return add


def _ago(age_ms: int | None) -> int | None:
    return None if age_ms is None else now_ms() - age_ms


def operator_facts(
    wanted: RecordFilter, operator: str, why: str, *, everything: bool
) -> OperatorFacts:
    """Return who acts on the records that a filter chooses, why, and when: now.

    Raises:
        UsageError: nothing chooses the records, or name or reason is missing.
    """
    if wanted.is_open != everything:
        raise UsageError("Give an ID, filters or --all; --all excludes the others.")
    if not operator or not why.strip():
        raise UsageError("Give your name with --operator and the reason with --why.")
    return OperatorFacts(operator, why, now_ms())


def content_data(record: FoundRecord) -> dict[str, object]:
    """Return key and body as plain data."""
    return {
        "key_base64": None if record.key is None else _base64(record.key),
        "body_base64": _base64(record.value or b""),
    }


def content_rows(record: FoundRecord) -> list[tuple[str, str]]:
    """Return the headers, the key and the body as rows of a table."""
    rows = [*record.headers, ("(key)", record.key or b""), ("(body)", record.value or b"")]
    return [(name, content_text(value)) for name, value in rows]


def content_text(content: bytes) -> str:
    """Return bytes as text; those that are not UTF-8 are escaped."""
    return content.decode("utf-8", "backslashreplace")


def not_found(topic: str, name: str, noun: str) -> NotFoundError:
    """Return the error that a topic has no such record.

    Args:
        topic: the topic.
        name: what the user asked for.
        noun: the command that lists the topic's records.
    """
    return NotFoundError(
        f"{topic} has no record {name}.",
        remedy=f"Run `checkback {noun} list` to see the records.",
        name=name,
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
