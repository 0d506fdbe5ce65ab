"""What the commands for discarded and for refused records share."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from checkback.commands.shared.output import CommandOutput, list_text, table_text
from checkback.metrics.printable import printable
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.noted_transaction import ActionReport, Parked
from checkback.operations.topics.scanner import FoundRecord


@dataclass(frozen=True, slots=True)
class ParkedText(Generic[Parked]):
    """How the commands print one kind of parked record.

    Args:
        name: returns a record's place, and more that people know it by.
        data: returns a record for programs.
    """

    kind: str
    does: str
    done: str
    name: Callable[[Parked], str]
    data: Callable[[Parked], dict[str, Any]]
    headings: Sequence[str]
    cells: Callable[[Parked], Sequence[object]]

    def show_list(
        self, output: CommandOutput, found: Sequence[Parked], wanted: RecordFilter
    ) -> None:
        """Print records, a row for each."""
        nothing, rows = f"Nothing was {self.kind}.", list(map(self.cells, found))
        text = list_text(self.headings, rows, nothing, is_filtered=not wanted.is_open)
        output.show({self.kind: list(map(self.data, found))}, text)

    def show_whole(
        self,
        output: CommandOutput,
        found: Sequence[Parked],
        headers_data: Callable[[FoundRecord], dict[str, object]],
        column: str,
    ) -> None:
        """Print whole records, with headers, keys and bodies."""
        rows = [
            {**self.data(one), **content_data(one.record), **headers_data(one.record)}
            for one in found
        ]
        output.show({self.kind: rows}, "\n\n".join(self._whole(one, column) for one in found))

    def show_action(
        self, output: CommandOutput, report: ActionReport[Parked], *, is_certain: bool
    ) -> None:
        """Print what was done with records, or would be."""
        to, verb = f"{self.done}_to", f"{self.done} to" if is_certain else f"would be {self.done}"
        rows = [{**self.data(one.parked), to: one.to} for one in report.done]
        lines = [f"{self.name(one.parked)}: {verb} {one.to}".rstrip() for one in report.done]
        already = [(one, self.data(one)) for one in report.already]
        lines += [f"{self.name(one)}: already {self.done} to {data[to]}" for one, data in already]
        lines += [
            f"{self.name(one.parked)}: can't be {self.done}: {one.obstacle}" for one in report.stuck
        ]
        if report.skipped:
            lines.append(f"{report.skipped:,} skipped: there is no final message of them to send.")
        if report.done and not is_certain:
            lines.append("Run again with --yes to do it.")
        data: dict[str, object] = {
            "dry_run": not is_certain,
            self.done: rows if is_certain else [],
            f"would_{self.does}": [] if is_certain else rows,
            f"already_{self.done}": [data for _, data in already],
        }
        stuck = [{**self.data(one.parked), "obstacle": one.obstacle} for one in report.stuck]
        data |= {f"cannot_{self.does}": stuck, "skipped": report.skipped}
        output.show(data, "\n".join(lines) or f"No {self.kind} record matches.")

    def _whole(self, parked: Parked, column: str) -> str:
        record = parked.record
        rows = [*record.headers, ("(key)", record.key or b""), ("(body)", record.value or b"")]
        cells = [(name, content_text(value)) for name, value in rows]
        if to := self.data(parked)[f"{self.done}_to"]:
            cells.append((f"({self.done} to)", str(to)))
        return f"{self.kind} {self.name(parked)}\n{table_text((column, 'value'), cells)}"


def content_data(record: FoundRecord) -> dict[str, object]:
    """Return key and body for programs."""
    return {
        "key_base64": None if record.key is None else base64.b64encode(record.key).decode(),
        "body_base64": base64.b64encode(record.value or b"").decode(),
    }


def content_text(content: bytes) -> str:
    """Return bytes as text; those that are not UTF-8 are escaped."""
    return content.decode("utf-8", "backslashreplace")


def called(at: object, *names: str) -> str:
    """Return what people call a record: its place, and what it says of itself."""
    return printable(f"{at} ({', '.join(filter(None, names))})")
