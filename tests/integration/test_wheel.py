"""What is installed: the wheel has every module, and what it is used for works from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.integration.wheels import FOLDERS, ROOT, built_wheel, copy_checkout

pytestmark = pytest.mark.nightly  # tests/unit/test_packaging.py holds its list of packages by day

CHECKOUT_ONLY = {ROOT / "bench", ROOT / "tools", ROOT / "deploy" / "grafana"}
DATA = {".json", ".xml", ".lock", ".properties", ".java", ".html", ".css", ".js", ".svg"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it is published."""
    return built_wheel(tmp_path_factory.mktemp("wheel"))


def test_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    found = {
        name
        for name in zipfile.ZipFile(wheel).namelist()
        if not name.split("/")[0].endswith("-info")
    }
    expected = {
        "checkback/__init__.py",
        "checkback/py.typed",
        "checkback/sinks/native/forward.native.so",
    }
    for folder in FOLDERS:
        expected |= {
            f"checkback/{path.relative_to(ROOT).as_posix()}"
            for path in (ROOT / folder).rglob("*")
            if path.suffix in DATA | {".py"}
            and "__pycache__" not in path.parts
            and not CHECKOUT_ONLY & set(path.parents)
        }

    for pattern in ("*.md", "operating/*.md"):
        expected |= {f"checkback/docs/{path.relative_to(ROOT / 'docs').as_posix()}"
                     for path in (ROOT / "docs").glob(pattern)}  # fmt: skip

    assert {name for name in found if not name.endswith("/")} == expected


def test_client_imports_from_the_wheel_as_a_zip_without_spark_or_numpy(wheel: Path) -> None:
    """Spark sends code to executors as a zip; an application has no Spark."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
sys.meta_path[:] = [one for one in sys.meta_path if "editable" not in str(one)]
import checkback.client, checkback.protocol.connection
assert checkback.__file__.startswith(sys.argv[1]), checkback.__file__
heavy = {"pyspark", "numpy", "pandas", "pyarrow", "click", "pydantic", "kafka"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(wheel)], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr


def test_compiled_part_loads_from_the_wheel_as_a_zip(wheel: Path) -> None:
    """As the sink's process of an executor does, which has the package from Spark."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
sys.meta_path[:] = [one for one in sys.meta_path if "editable" not in str(one)]
from checkback.sinks.native.library import native
assert native.__wrapped__.__code__.co_filename.startswith(sys.argv[1])
found = native()
assert found is not None
assert found.client_settings
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(wheel)], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr


def test_package_is_built_without_a_compiler(tmp_path: Path) -> None:
    copy_checkout(tmp_path)
    build = "import sys; from setuptools import build_meta; print(build_meta.build_wheel('built'))"
    ran = subprocess.run(
        [sys.executable, "-c", build],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CC": str(tmp_path / "no-compiler")},
    )

    assert ran.returncode == 0, ran.stderr
    [built] = (tmp_path / "built").glob("*.whl")
    names = zipfile.ZipFile(built).namelist()
    assert "checkback/sinks/native/library.py" in names
    assert not [name for name in names if name.endswith(".so")]
    falls_back = """
import sys
sys.path.insert(0, sys.argv[1])
sys.meta_path[:] = [one for one in sys.meta_path if "editable" not in str(one)]
from checkback.sinks.native.library import native
assert native.__wrapped__.__code__.co_filename.startswith(sys.argv[1])
assert native() is None
"""
    subprocess.run([sys.executable, "-c", falls_back, str(built)], check=True)


def test_no_folder_is_imported_under_its_bare_name() -> None:
    """`streaming` is pre-installed on Databricks ML; a second module tree would not be ours."""
    program = """
import importlib, pkgutil, sys
import checkback

for module in pkgutil.walk_packages(checkback.__path__, "checkback."):
    importlib.import_module(module.name)
bare = set(sys.argv[1:]) & sys.modules.keys()
assert not bare, bare
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, *FOLDERS], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr


def test_one_wheel_serves_a_platform_and_a_pure_one_the_others(wheel: Path, tmp_path: Path) -> None:
    """What they are called decides who may install them; the commit travels in the archive."""
    variables = {"CHECKBACK_PURE": "1", "CHECKBACK_COMMIT": "0123456789ab"}
    pure = built_wheel(tmp_path, variables)

    assert re.fullmatch(r"checkback-[\d.]+-py3-none-(linux|macosx)_\w+\.whl", wheel.name)
    assert re.fullmatch(r"checkback-[\d.]+-py3-none-any\.whl", pure.name)
    with zipfile.ZipFile(pure) as archive:
        assert archive.read("checkback/commit.txt") == b"0123456789ab\n"
        assert not [name for name in archive.namelist() if name.endswith(".so")]
