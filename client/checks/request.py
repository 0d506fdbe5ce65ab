"""Reads a check request: the half message again, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence

from checkback.client.message import MessageExt
from checkback.protocol import properties as names
from checkback.protocol.errors import InvalidMessageError


def read_check_request(
    key: bytes | None,
    body: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    requested_at_ms: int,
) -> MessageExt:
    """Return the half message that a record on a check topic asks about.

    Raises:
        InvalidMessageError: it does not say which half it asks about, so there is no answer.
    """
    transaction_id = _text(headers, names.UNIQ_KEY)
    if not transaction_id:
        raise InvalidMessageError("The check request has no UNIQ_KEY.")
    return MessageExt(
        topic=_text(headers, names.REAL_TOPIC),
        body=body,
        tags=_text(headers, names.TAGS),
        keys=_text(headers, names.KEYS),
        key=key,
        properties=_user_properties(headers),
        queue_id=names.whole_number(_text(headers, names.REAL_QID)),
        transaction_id=transaction_id,
        producer_group=_text(headers, names.PGROUP),
        msg_id=transaction_id,
        half_queue=_number(headers, names.TRAN_HALF_QUEUE_ID),
        queue_offset=_number(headers, names.TRAN_PREPARED_QUEUE_OFFSET),
        check_times=_number(headers, names.TRANSACTION_CHECK_TIMES),
        requested_at_ms=requested_at_ms,
        check_interval_ms=names.whole_number(_text(headers, names.TRANSACTION_CHECK_INTERVAL_MS)),
    )


def _user_properties(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str | bytes]:
    found = {
        name: _text_or_bytes(value or b"")
        for name, value in headers
        if name not in names.RESERVED_PROPERTIES
    }
    if not found.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS):
        # The client writes it always, empty when the application set none.
        found.pop(names.CHECK_IMMUNITY_TIME_IN_SECONDS, None)
    return found


def _text_or_bytes(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _text(headers: Sequence[tuple[str, bytes | None]], name: str) -> str:
    return names.text_value(headers, name) or ""


def _number(headers: Sequence[tuple[str, bytes | None]], name: str) -> int:
    text = _text(headers, name)
    number = names.whole_number(text)
    if number is None:
        raise InvalidMessageError(f"The check request's {name} is {text!r}, not a whole number.")
    return number
