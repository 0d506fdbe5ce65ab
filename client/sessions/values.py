"""Makes a message from the arguments of `Producer.send`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from checkback.client.message import Message
from checkback.protocol.errors import InvalidMessageError

Serializer = Callable[[Any], bytes]


def message_of(
    topic: str,
    body: Any,
    key: str | bytes | None,
    headers: Mapping[str, str | bytes] | None,
    serializer: Serializer | None,
) -> Message:
    """Return the message.

    Raises:
        InvalidMessageError: a value has a type that can't be sent.
    """
    if isinstance(key, str):
        key = _utf8(key, "key")
    # A copy: in an event loop the half is made at the commit.
    return Message(topic, _body(body, serializer), key=key, properties=dict(headers or {}))


def _body(body: Any, serializer: Serializer | None) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    if serializer is not None:
        return serializer(body)
    if isinstance(body, str):
        return _utf8(body, "body")
    if isinstance(body, dict):
        return _json(body)
    raise InvalidMessageError(
        f"The body is a {type(body).__name__}.",
        remedy="Give bytes, a text, a dict, which is sent as JSON, or the producer a serializer.",
    )


def _json(body: dict[Any, Any]) -> bytes:
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (TypeError, ValueError) as error:
        raise InvalidMessageError(
            f"The body can't be sent as JSON: {error}.",
            remedy="Give the producer a serializer, or values that JSON has.",
        ) from error


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessageError(
            f"The {what} is no text that UTF-8 has: {error.reason}.",
            remedy="Give bytes, or a text without halves of surrogate pairs.",
        ) from error
