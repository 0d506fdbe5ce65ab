"""The jars: which there have to be, with their checksums, and fetching them.

``ivy.xml`` names them, ``jars.lock`` holds what ``sha256sum`` prints for them, and the Ivy inside
pyspark fetches them, so Python and Java are all that a machine needs. They live in
``<environment>/share/checkback/jars/<conf>/``; ``CHECKBACK_JARS`` names another folder.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, cast, get_args

from checkback.deploy.java import find_java
from checkback.protocol.errors import OperationalError, PrerequisiteError

Conf = Literal["spark", "kafka", "streams"]
CONFS: Final[tuple[Conf, ...]] = get_args(Conf)
"""spark: what a Spark driver needs beside pyspark's own jars. kafka: a broker. streams: what Kafka
Streams needs beside a broker's jars."""
USUAL_CONFS: Final[tuple[Conf, ...]] = ("spark", "kafka")
"""Fetched by the setup; Kafka Streams is for a benchmark, and 70 MB, and waits until it is run."""

LOCK_FILE: Final = Path(__file__).with_name("jars.lock")
IVY_FILE: Final = Path(__file__).with_name("ivy.xml")
FETCH_TIMEOUT_S: Final = 1_800

_LOCK_LINE: Final = re.compile(rf"([0-9a-f]{{64}})  ({'|'.join(CONFS)})/([\w.+-]+\.jar)")


def jars_folder() -> Path:
    """Return the folder of all jars: CHECKBACK_JARS, else one inside the Python environment."""
    chosen = os.environ.get("CHECKBACK_JARS")
    return Path(chosen) if chosen else Path(sys.prefix) / "share" / "checkback" / "jars"


def jar_paths(conf: Conf) -> list[Path]:
    """Return where the jars of a conf are, whether or not they have been fetched yet."""
    return [jars_folder() / conf / name for name in read_lock()[conf]]


def ensure_jars(conf: Conf) -> list[Path]:
    """Return the jars of a conf, fetched if one is missing, each with the locked checksum.

    Raises:
        PrerequisiteError: no Java, no pyspark, no network or no room on the disk.
        OperationalError: a jar is not the one that the lock names.
    """
    paths = jar_paths(conf)
    if not _all_exist(paths):
        folder = jars_folder()
        with file_errors(folder), _only_one_process(folder):
            if not _all_exist(paths):  # another process may have fetched them while we waited
                _fetch(folder, conf)
    verify(paths, read_lock()[conf])
    return paths


def read_lock(lock: Path = LOCK_FILE) -> dict[Conf, dict[str, str]]:
    """Return file name to sha256 for each conf.

    Raises:
        OperationalError: the lock can't be read.
    """
    jars: dict[Conf, dict[str, str]] = {conf: {} for conf in CONFS}
    for line in lock.read_text("ascii").splitlines():
        match = _LOCK_LINE.fullmatch(line)
        if match is None:
            raise OperationalError(
                f"{lock} has a line that is no checksum: {line[:100]!r}.",
                remedy="Install Checkback again.",
            )
        digest, conf, name = match.groups()
        jars[cast("Conf", conf)][name] = digest
    return jars


def verify(paths: Sequence[Path], digests: Mapping[str, str]) -> None:
    """Compare jars with the checksums that belong to their file names.

    Raises:
        OperationalError: one differs; the message names it.
    """
    for path in paths:
        found = sha256(path)
        if found != digests[path.name]:
            raise OperationalError(
                f"The jar {path} has the sha256 {found}, the lock says {digests[path.name]}.",
                remedy="Delete the file and run `checkback jars fetch`.",
                path=str(path),
            )


def sha256(path: Path) -> str:
    """Return a file's sha256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def renew_lock() -> int:
    """Resolve ivy.xml anew, write the checksums of what came, and return how many jars there are.

    Raises:
        PrerequisiteError: no Java, no pyspark, no network or no room on the disk.
    """
    folder = jars_folder()
    with file_errors(folder), _only_one_process(folder), _scratch(folder) as scratch:
        _run_ivy(folder, scratch, CONFS)
        found = sorted(scratch.glob("*/*.jar"))
        lines = [f"{sha256(jar)}  {jar.relative_to(scratch).as_posix()}\n" for jar in found]
        LOCK_FILE.write_text("".join(lines), "ascii")
    return len(lines)


def _all_exist(paths: Sequence[Path]) -> bool:
    return all(path.is_file() for path in paths)


def _fetch(folder: Path, conf: Conf) -> None:
    """Fetch into a scratch folder, verify there, then move: a name in place is a jar in full."""
    with _scratch(folder) as scratch:
        _run_ivy(folder, scratch, [conf])
        digests = read_lock()[conf]
        fetched = [scratch / conf / name for name in digests]
        missing = [jar.name for jar in fetched if not jar.is_file()]
        if missing:
            raise OperationalError(
                f"ivy.xml does not lead to these jars of the lock: {', '.join(missing)}.",
                remedy="After a change of ivy.xml, run `checkback jars lock`.",
            )
        verify(fetched, digests)
        (folder / conf).mkdir(exist_ok=True)
        for jar in fetched:
            jar.replace(folder / conf / jar.name)


def _run_ivy(folder: Path, into: Path, confs: Sequence[Conf]) -> None:
    settings = os.environ.get("CHECKBACK_IVY_SETTINGS")
    # fmt: off
    command: list[str | Path] = [
        find_java(), "-Xmx256m",
        # Otherwise ~/.ivy2/local is asked first, whose jars nobody has checked.
        f"-Divy.default.ivy.user.dir={folder / 'ivy'}",
        "-cp", f"{_spark_jars()}/*", "org.apache.ivy.Main",
        "-ivy", IVY_FILE, "-confs", *confs, "-cache", folder / "ivy" / "cache",
        "-retrieve", f"{into}/[conf]/[artifact]-[revision].[ext]", "-types", "jar", "bundle",
        "-warn", *(["-settings", settings] if settings else []),
    ]
    # fmt: on
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _no_network() from error
    if ran.returncode != 0:
        raise _ivy_error(ran.stdout + ran.stderr, folder)


def _ivy_error(said: str, folder: Path) -> OperationalError:
    if "No space left" in said:
        return _no_room(folder)
    if re.search(r"UnknownHost|ConnectException|Connection|timed out|SSL|Network", said):
        return _no_network()
    unresolved = re.findall(r":: ([\w.-]+#[\w.-]+;[\w.-]+): not found", said)
    if unresolved:
        # Ivy says the same of a module that no repository has and of a network that is down.
        names = ", ".join(dict.fromkeys(unresolved))
        return PrerequisiteError(
            f"These jars were not found: {names}.", remedy=_NETWORK_REMEDY, unresolved=names
        )
    lines = [line.strip() for line in said.splitlines() if line.strip(" .\t:")]
    return OperationalError(
        f"Ivy failed: {lines[-1] if lines else 'it said nothing'}.", remedy=_NETWORK_REMEDY
    )


_NETWORK_REMEDY: Final = (
    "Check the network; behind a mirror, let CHECKBACK_IVY_SETTINGS name an ivysettings.xml."
)


def _no_network() -> PrerequisiteError:
    return PrerequisiteError("The jars can't be fetched: no connection.", remedy=_NETWORK_REMEDY)


def _no_room(folder: Path) -> PrerequisiteError:
    return PrerequisiteError(
        f"No space is left on the disk of {folder}.",
        remedy="Free about 300 MB or let CHECKBACK_JARS name a folder elsewhere.",
        folder=str(folder),
    )


def _spark_jars() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise PrerequisiteError(
            "pyspark is not installed.", remedy="Run `pip install checkback[spark]`."
        )
    return Path(found.submodule_search_locations[0]) / "jars"


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    with TemporaryDirectory(prefix="fetching-", dir=folder) as name:
        yield Path(name)


@contextmanager
def _only_one_process(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "fetch.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # freed by closing, and so by any death
        yield


@contextmanager
def file_errors(folder: Path) -> Iterator[None]:
    """Turn what can be wrong with the folder into one sentence.

    Raises:
        PrerequisiteError: it can't be written, or its disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(folder) from error
        raise PrerequisiteError(
            f"The folder {folder} can't be written: {error.strerror or error}.",
            remedy="Let CHECKBACK_JARS name a folder that can.",
            folder=str(folder),
        ) from error
