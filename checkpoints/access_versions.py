"""Which rules of access control decided which batches; a replayed batch is decided by the same.

Each change writes a file ``access/<number>.json`` before the first batch that it holds for is
planned. The number begins with the epoch of the start, so that a fenced older job changes nothing.
A checkpoint without such a file never had access control.

A file holds the rules without their secrets. Their version is there as a slow, salted hash: it
tells whether rules are the same, and nobody finds a secret from it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from checkback.protocol.errors import CheckpointError

if TYPE_CHECKING:  # the console reads checkpoints where Spark is not installed
    from checkback.checkpoints.store import CheckpointStore

FOLDER: Final = "access"
CHANGES_PER_EPOCH: Final = 1_000_000
FILES_KEPT: Final = 10
OFF: Final = ""
"""The version of a checkpoint without access control."""
_HASH_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class AccessVersion:
    """The rules that decide the batches from one number on.

    Args:
        from_batch: the first batch.
        version: names the rules; OFF for none.
        salt: of the version's hash.
        rules: what they say, without secrets.
    """

    from_batch: int
    version: str = OFF
    salt: str = ""
    rules: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> AccessVersion:
        """Return what a checkpoint of this, an earlier or a later version holds.

        Raises:
            TypeError: a field without a default is missing.
        """
        names = {known.name for known in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in names})

    def is_of(self, version: str) -> bool:
        """Tell whether these are the rules with that own version."""
        return self.version == named_version(version, self.salt)


def named_version(version: str, salt: str) -> str:
    """Return the name under which rules are recorded.

    Args:
        version: of the rules, from their text and secrets; OFF for none.
        salt: chance.
    """
    if version == OFF:
        return OFF
    cost = {"n": 2**14, "r": 8, "p": 1, "dklen": _HASH_BYTES}
    return hashlib.scrypt(version.encode(), salt=salt.encode(), **cost).hex()


def read_access_version(store: CheckpointStore) -> AccessVersion:
    """Return the rules that were recorded last.

    Raises:
        CheckpointError: the record can't be read.
    """
    numbers = store.own_numbers(FOLDER)
    if not numbers:
        return AccessVersion(0)
    name = f"{FOLDER}/{numbers[-1]}.json"
    try:
        return AccessVersion.from_stored(json.loads(store.read_own(name) or ""))
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"The checkpoint's {name} can't be read: {error}.",
            remedy="Restore it from a backup; see `checkback docs recovering`.",
        ) from error


def record_access_version(
    store: CheckpointStore,
    epoch: int,
    version: str,
    rules: Mapping[str, Any],
    is_begun: Callable[[int], bool],
) -> tuple[AccessVersion, AccessVersion]:
    """Record that these rules hold for every batch that is not begun; return the old and the new.

    Args:
        store: the checkpoint; no query runs over it.
        epoch: this start's epoch.
        version: of the rules, OFF for none.
        rules: what they say, without secrets.
        is_begun: tells whether anything of a planned batch may be written.

    Raises:
        CheckpointError: a batch is begun under other rules.
    """
    had = read_access_version(store)
    if had.is_of(version):
        return had, had
    planned, committed = (store.last_batch(log) for log in ("offsets", "commits"))
    next_batch = 0 if committed is None else committed + 1
    if planned == next_batch and is_begun(next_batch):
        raise _begun(store, next_batch, had.version)
    salt = secrets.token_hex(8)
    now = AccessVersion(next_batch, named_version(version, salt), salt, rules)
    numbers = [one for one in store.own_numbers(FOLDER) if one < (epoch + 1) * CHANGES_PER_EPOCH]
    number = max([epoch * CHANGES_PER_EPOCH, *(one + 1 for one in numbers)])
    if not store.create_own(f"{FOLDER}/{number}.json", json.dumps(asdict(now))):
        raise CheckpointError(
            f"Another job records rules of access control in {store.path}.",
            remedy="Run one job per checkpoint.",
        )
    for old in store.own_numbers(FOLDER)[:-FILES_KEPT]:
        store.delete_own(f"{FOLDER}/{old}.json")
    return had, now


def _begun(store: CheckpointStore, batch: int, version: str) -> CheckpointError:
    had = f"the rules of version {version}" if version else "access control off"
    return CheckpointError(
        f"Batch {batch} of {store.path} is written in part, and was begun with {had}: under other "
        "rules it could be decided in two ways.",
        remedy="Start with acl_file and its secrets as they were, and change them while the job"
        " runs; it takes them over between two batches.",
        batch_id=batch,
        version=version,
    )
