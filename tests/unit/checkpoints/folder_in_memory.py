"""A checkpoint folder as a dict, with the files of a whole one with two state partitions."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.unit.state.building import RULES

from checkback.checkpoints.files import UnreadableFileError
from checkback.checkpoints.own_files.batch_terms import BatchTerms, TermsNote
from checkback.checkpoints.own_files.identity import CheckpointIdentity
from checkback.checkpoints.spark_files.logs import SHUFFLE_PARTITIONS

TERMS = TermsNote(1_000, BatchTerms(RULES))
END_BLOCK = b"LZ4Block\x15" + bytes(12)
CHANGELOG = b"LZ4Block" + struct.pack("<Biii", 0x15, 4, 4, 0) + struct.pack(">i", -1) + END_BLOCK
"""The changes of a batch that changed nothing."""


@dataclass
class FilesInMemory:
    """FolderFiles over a dict; names in ``unreadable`` can't be read."""

    contents: dict[str, bytes] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)

    def sizes(self) -> Mapping[str, int]:
        return {name: len(content) for name, content in self.contents.items()}

    def read(self, name: str) -> bytes:
        if name in self.unreadable:
            raise UnreadableFileError("the disk says no")
        return self.contents[name]


def plan(partitions: int = 2, timestamp_ms: int = 1_000, ends: str = "") -> bytes:
    conf = {SHUFFLE_PARTITIONS: str(partitions)}
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": timestamp_ms, "conf": conf}
    return f"v1\n{json.dumps(metadata)}\n{ends or '-'}".encode()


COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'


def identity(partitions: int = 2) -> bytes:
    bound = CheckpointIdentity(
        1, "app", "cluster", 1024, partitions, "half", "op", "settled", 4, "key"
    )
    return bound.to_json().encode()


def operator(partitions: int = 2) -> bytes:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}
    name = {"operatorId": 0, "operatorName": "applyInPandasWithState"}
    return f"v1\n{json.dumps({'operatorInfo': name, 'stateStoreInfo': [store]})}".encode()


def snapshot(**tables: int) -> bytes:
    """A snapshot that needs these table files, with these sizes."""
    listed = [
        {"localFileName": name, "dfsSstFileName": f"{name}.sst", "sizeBytes": size}
        for name, size in tables.items()
    ]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("metadata", f"v1\n{json.dumps({'sstFiles': listed})}")
    return content.getvalue()


def sound(*, committed: int = 3, planned: int = 4) -> FilesInMemory:
    """A checkpoint with batches from 0 on, without snapshots."""
    files = FilesInMemory(
        {
            "metadata": b'{"id":"6a5b"}',
            "checkback/identity.json": identity(),
            "checkback/terms/4.json": TERMS.to_json().encode(),
            "state/0/_metadata/metadata": operator(),
            "state/0/0/_metadata/schema": b"schema",
        }
    )
    for batch in range(planned + 1):
        files.contents[f"offsets/{batch}"] = plan(timestamp_ms=1_000 * batch)
    for batch in range(committed + 1):
        files.contents[f"commits/{batch}"] = COMMIT
        for number in range(2):
            files.contents[f"state/0/{number}/{batch + 1}.changelog"] = CHANGELOG
    return files
