"""The lock of the jars: which there are, by whom, in which version, with which checksum.

Each line has what ``sha256sum`` prints of a jar below the folder of the jars, and its coordinates
in Maven's repositories. It imports little: the SBOM is made in an environment without Checkback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast, get_args

from checkback.protocol.errors import OperationalError

Conf = Literal["spark", "kafka", "delta", "streams", "s3", "hadoop"]
CONFS: Final[tuple[Conf, ...]] = get_args(Conf)
"""spark: a Spark driver's jars besides pyspark's own. kafka: a broker's jars. delta: jars for a
Spark session that reads the ledger; the pipeline writes the ledger without them. streams: Kafka
Streams' jars besides a broker's. s3: S3A besides spark's. hadoop: an HDFS and a YARN for tests."""
LOCK_FILE: Final = Path(__file__).with_name("jars.lock")

_LINE: Final = re.compile(
    rf"([0-9a-f]{{64}})  ({'|'.join(CONFS)})/([\w.+-]+\.jar)  ([\w.-]+):([\w.-]+):([\w.+-]+)"
)


class LockedJar(NamedTuple):
    """One jar.

    Args:
        sha256: its checksum.
        conf: what it is for.
        file: the file's name.
        group: who publishes it.
        artifact: its name there.
        version: its version.
    """

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


def locked_jars(lock: Path = LOCK_FILE) -> Iterator[LockedJar]:
    """Yield every jar of the lock.

    Raises:
        OperationalError: the lock can't be read.
    """
    for line in lock.read_text("ascii").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise OperationalError(
                f"{lock} has a line that is not a checksum of a jar: {line[:100]!r}.",
                remedy="Install Checkback again.",
            )
        digest, conf, *names = match.groups()
        yield LockedJar(digest, cast("Conf", conf), *names)
