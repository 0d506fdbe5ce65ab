"""What a driver makes for its executors is gone when the driver is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MAKES: dict[str, str] = {
    "folder": "from checkback.streaming.spark.jars import temporary_folder; "
    "(temporary_folder('jars') / 'file').touch()",
    "zip": "from checkback.streaming.spark.shipped_package import package_zip; "
    "assert package_zip().is_file()",
}


@pytest.mark.parametrize("what", MAKES)
def test_a_process_that_ends_leaves_no_temporary_file(what: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    subprocess.run([sys.executable, "-c", MAKES[what]], env=environment, check=True)

    assert list(tmp_path.iterdir()) == []
