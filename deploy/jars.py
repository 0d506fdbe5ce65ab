"""Fetches the jars that Checkback needs, and verifies their checksums.

``ivy.xml`` names the jars, and ``jars.lock`` holds their checksums.
The Ivy inside pyspark fetches them, so a machine needs only Python and Java. The jars are in
``<environment>/share/checkback/jars/<conf>/``; ``CHECKBACK_JARS`` names another folder.
"""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, NamedTuple, cast, get_args

from checkback.deploy.java import find_java
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import OperationalError, PrerequisiteError
from checkback.streaming.spark.jars import is_submitted, jars_folder, sha256
from checkback.streaming.spark.java_classes import compiled_jar
from checkback.streaming.spark.s3_files import is_on_s3

Conf = Literal[
    "spark", "kafka", "kafka-3.9", "kafka-4.0", "kafka-4.4",
    "connect", "delta", "streams", "s3", "hadoop",
]  # fmt: skip
CONFS: Final[tuple[Conf, ...]] = get_args(Conf)
"""spark: a Spark driver's jars besides pyspark's own. kafka: a broker's jars; with a version: those
of another broker, for tests. connect: a Kafka Connect, for tests. delta: jars for a Spark session
that reads the ledger; the pipeline writes the ledger without them. streams: Kafka Streams' jars
besides a broker's. s3: S3A besides spark's. hadoop: an HDFS and a YARN for tests."""
LOCK_FILE: Final = Path(__file__).with_name("jars.lock")

_LINE: Final = re.compile(
    rf"([0-9a-f]{{64}})  ({'|'.join(CONFS)})/([\w.+-]+\.jar)  ([\w.-]+):([\w.-]+):([\w.+-]+)"
)
USUAL_CONFS: Final[tuple[Conf, ...]] = ("spark", "kafka")
"""The setup fetches these. The others are fetched on first use: Delta for readers of the ledger
with Spark, Kafka Streams for a benchmark."""

BROKER_VERSION: Final = "CHECKBACK_BROKER_VERSION"
"""The variable that chooses another Kafka for every embedded broker: 3.9, 4.0 or 4.4."""

IVY_FILE: Final = Path(__file__).with_name("ivy.xml")
FETCH_TIMEOUT_S: Final = 1_800
BY_CONF: Final = "[conf]/[artifact]-[revision].[ext]"
"""Where Ivy puts jars."""


class LockedJar(NamedTuple):
    """One jar."""

    sha256: str
    conf: Conf
    file: str
    group: str
    artifact: str
    version: str

    def line(self) -> str:
        """Return it as a line of the lock."""
        coordinates = f"{self.group}:{self.artifact}:{self.version}"
        return f"{self.sha256}  {self.conf}/{self.file}  {coordinates}\n"


def jar_paths(conf: Conf) -> list[Path]:
    """Return the paths of a conf's jars, whether or not they are already fetched."""
    return [jars_folder() / conf / name for name in read_lock()[conf]]


def ensure_jars(conf: Conf) -> list[Path]:
    """Return the jars of a conf, verified against the lock; fetch them if one is missing.

    Raises:
        PrerequisiteError: no Java, no pyspark, no network or no room on the disk.
        OperationalError: a jar's checksum differs from the lock.
    """
    paths = jar_paths(conf)
    if not _all_exist(paths):
        folder = jars_folder()
        with file_errors(folder), only_one_process(folder):
            if not _all_exist(paths):  # another process may have fetched them while we waited
                _fetch(folder, conf)
    verify(paths, read_lock()[conf])
    return paths


def broker_conf() -> Conf:
    """Return the conf of the embedded broker: that of the version which the environment names.

    Raises:
        PrerequisiteError: there are no jars of that version.
    """
    version = os.environ.get(BROKER_VERSION)
    if not version:
        return "kafka"
    found = {one.removeprefix("kafka-"): one for one in CONFS if one.startswith("kafka-")}
    if version not in found:
        raise PrerequisiteError(
            f"There is no embedded broker of Kafka {version}.",
            remedy=f"Set {BROKER_VERSION} to one of {', '.join(found)}, or unset it.",
        )
    return found[version]


def pipeline_jars(settings: Settings) -> list[Path]:
    """Return the jars of a driver, fetched; none where spark-submit has them."""
    if is_submitted():
        return []
    return [*ensure_jars("spark"), *store_jars(settings)]


def store_jars(settings: Settings) -> list[Path]:
    """Return the jars with which a JVM reaches the checkpoint; none for a folder or HDFS."""
    return ensure_jars("s3") if is_on_s3(settings.checkpoint) else []


def locked_jars(lock: Path = LOCK_FILE) -> Iterator[LockedJar]:
    """Yield every jar of the lock."""
    for line in lock.read_text("ascii").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise OperationalError(
                f"{lock} has a line that is not a checksum of a jar: {line[:100]!r}.",
                remedy="Install Checkback again.",
            )
        digest, conf, *names = match.groups()
        yield LockedJar(digest, cast("Conf", conf), *names)


def read_lock(lock: Path = LOCK_FILE) -> dict[Conf, dict[str, str]]:
    """Return file name to sha256 for each conf."""
    jars: dict[Conf, dict[str, str]] = {conf: {} for conf in CONFS}
    for one in locked_jars(lock):
        jars[one.conf][one.file] = one.sha256
    return jars


def verify(paths: Sequence[Path], digests: Mapping[str, str]) -> None:
    """Compare jars with the checksums of their file names.

    Raises:
        OperationalError: a jar differs; the message names it.
    """
    for path in paths:
        found = sha256(path)
        if found != digests[path.name]:
            raise OperationalError(
                f"The jar {path} has the sha256 {found}, the lock says {digests[path.name]}.",
                remedy="Delete the file and run `checkback jars fetch`.",
                path=str(path),
            )


def ensure_classes() -> Path:
    """Return the jar of Checkback's Java classes, compiled if there is none for this Spark.

    Raises:
        PrerequisiteError: no Java or no pyspark.
        OperationalError: the compiler failed.
    """
    jars = sorted(_spark_jars().glob("*.jar"))
    return compiled_jar(find_java, ":".join(map(str, jars)))


def _all_exist(paths: Sequence[Path]) -> bool:
    return all(path.is_file() for path in paths)


def _fetch(folder: Path, conf: Conf) -> None:
    """Fetch and verify in a scratch folder, then move: no partial jar is ever in place."""
    with scratch_folder(folder) as scratch:
        run_ivy(folder, scratch, [conf])
        digests = read_lock()[conf]
        fetched = [scratch / conf / name for name in digests]
        missing = [jar.name for jar in fetched if not jar.is_file()]
        if missing:
            raise OperationalError(
                f"ivy.xml does not resolve to these jars of the lock: {', '.join(missing)}.",
                remedy="After a change of ivy.xml, run `python -m tools.lock_jars`.",
            )
        verify(fetched, digests)
        (folder / conf).mkdir(exist_ok=True)
        for jar in fetched:
            jar.replace(folder / conf / jar.name)


def run_ivy(folder: Path, into: Path, confs: Sequence[Conf], places: str = BY_CONF) -> None:
    """Let Ivy fetch the jars of ivy.xml.

    Raises:
        PrerequisiteError: no Java, no pyspark, no network or no room on the disk.
        OperationalError: Ivy failed.
    """
    settings = os.environ.get("CHECKBACK_IVY_SETTINGS")
    # fmt: off
    command: list[str | Path] = [
        find_java(), "-Xmx256m",
        # Otherwise Ivy would first use the unverified jars of ~/.ivy2/local.
        f"-Divy.default.ivy.user.dir={folder / 'ivy'}",
        "-cp", f"{_spark_jars()}/*", "org.apache.ivy.Main",
        "-ivy", IVY_FILE, "-confs", *confs, "-cache", folder / "ivy" / "cache",
        "-retrieve", f"{into}/{places}", "-types", "jar", "bundle",
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
        # Ivy reports a module that no repository has and an unreachable network in the same way.
        names = ", ".join(dict.fromkeys(unresolved))
        return PrerequisiteError(
            f"These jars were not found: {names}.", remedy=_NETWORK_REMEDY, unresolved=names
        )
    lines = [line.strip() for line in said.splitlines() if line.strip(" .\t:")]
    return OperationalError(
        f"Ivy failed: {lines[-1] if lines else 'it said nothing'}.", remedy=_NETWORK_REMEDY
    )


_NETWORK_REMEDY: Final = (
    "Check the network. To use a mirror, set CHECKBACK_IVY_SETTINGS to an ivysettings.xml."
)


def _no_network() -> PrerequisiteError:
    return PrerequisiteError("The jars can't be fetched: no connection.", remedy=_NETWORK_REMEDY)


def _no_room(folder: Path) -> PrerequisiteError:
    return PrerequisiteError(
        f"No space is left on the disk of {folder}.",
        remedy="Free about 300 MB, or set CHECKBACK_JARS to a folder elsewhere.",
        folder=str(folder),
    )


def _spark_jars() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise PrerequisiteError(
            "pyspark is not installed.", remedy="Run `pip install 'checkback[spark]'`."
        )
    return Path(found.submodule_search_locations[0]) / "jars"


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder on the disk of the jars."""
    with TemporaryDirectory(prefix="fetching-", dir=folder) as name:
        yield Path(name)


@contextmanager
def only_one_process(folder: Path) -> Iterator[None]:
    """Keep other processes from fetching into the folder inside the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "fetch.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # closing frees it, and so does the end of the process
        yield


@contextmanager
def file_errors(folder: Path) -> Iterator[None]:
    """Translate the folder's file errors into one sentence.

    Raises:
        PrerequisiteError: the folder can't be written, or its disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(folder) from error
        raise PrerequisiteError(
            f"The folder {folder} can't be written: {error.strerror or error}.",
            remedy="Set CHECKBACK_JARS to a writable folder.",
            folder=str(folder),
        ) from error
