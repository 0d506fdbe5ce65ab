"""Stands in for a checkpoint in which the driver notes what a replay has to repeat."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Notes:
    """Of a checkpoint, what notes need: files that are created once."""

    files: dict[str, str] = field(default_factory=dict)

    def create_own(self, name: str, text: str) -> bool:
        return self.files.setdefault(name, text) is text

    def read_own(self, name: str) -> str | None:
        return self.files.get(name)

    def own_numbers(self, folder: str) -> list[int]:
        found = (name.partition("/") for name in self.files)
        return sorted(int(file.removesuffix(".json")) for at, _, file in found if at == folder)

    def replace_own(self, name: str, text: str) -> None:
        self.files[name] = text

    def delete_own(self, name: str) -> None:
        del self.files[name]
