"""Packs Checkback as a zip, the form that Spark sends to executors.

Spark ignores wheels among its Python files (SparkContext.PACKAGE_EXTENSIONS), and the folders of a
checkout are not laid out like the import names. So the zip is made from the imported packages.
"""

from __future__ import annotations

import pkgutil
import shutil
import zipfile
from pathlib import Path
from typing import Final

import checkback
from checkback.streaming.spark.jars import temporary_folder

STAMP: Final = "checkback/commit.txt"
"""The commit, as wheels have it too; `checkback --version` reads it."""


def package_zip(folder: Path | None = None, commit: str = "") -> Path:
    """Write ``checkback-<version>.zip`` and return its path; of a zip that is imported, its own.

    Args:
        folder: the folder for the zip; default: a new temporary one.
        commit: what a checkout is at; an installed package has it in a file of its own.
    """
    imported = _imported_zip()
    if imported is not None:
        return imported if folder is None else Path(shutil.copy(imported, folder))
    target = folder or temporary_folder("package")
    path = target / f"checkback-{checkback.__version__}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(package_folders().items()):
            for file in sorted(source.iterdir()):
                if file.is_file() and file.suffix != ".pyc":
                    archive.write(file, f"{name.replace('.', '/')}/{file.name}")
        if commit and STAMP not in archive.namelist():
            archive.writestr(STAMP, f"{commit}\n")
    return path


def _imported_zip() -> Path | None:
    """Return the zip that Checkback is imported from; None if it is imported from folders."""
    folder = Path(checkback.__file__).parents[1]
    return folder if folder.is_file() else None


def package_folders() -> dict[str, Path]:
    """Return the folder of each of Checkback's packages, by import name."""
    folders = {"checkback": Path(checkback.__file__).parent}
    pending = [("checkback", list(checkback.__path__))]
    while pending:
        parent, paths = pending.pop()
        for module in pkgutil.iter_modules(paths, f"{parent}."):
            if not module.ispkg:
                continue
            spec = module.module_finder.find_spec(module.name, None)
            if spec is None or spec.origin is None:
                continue
            folders[module.name] = Path(spec.origin).parent.resolve()
            pending.append((module.name, list(spec.submodule_search_locations or [])))
    return folders
