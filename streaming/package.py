"""Checkback as a zip, which is what executors can be given.

Spark ignores wheels among its Python files (SparkContext.PACKAGE_EXTENSIONS), and the folders of a
checkout are not laid out as they are imported; so the zip is made from what is imported here.
"""

from __future__ import annotations

import pkgutil
import tempfile
import zipfile
from pathlib import Path

import checkback


def package_zip(folder: Path | None = None) -> Path:
    """Write ``checkback-<version>.zip`` and return where it is.

    Args:
        folder: where to; a new temporary folder when not given.
    """
    target = folder or Path(tempfile.mkdtemp(prefix="checkback-package-"))
    path = target / f"checkback-{checkback.__version__}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(package_folders().items()):
            for file in sorted(source.iterdir()):
                if file.is_file() and file.suffix != ".pyc":
                    archive.write(file, f"{name.replace('.', '/')}/{file.name}")
    return path


def package_folders() -> dict[str, Path]:
    """Return where each package of ours lies, by import name."""
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
