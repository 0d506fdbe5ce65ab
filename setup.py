"""The one thing that pyproject.toml can't say: how the compiled part of the sink is named.

It is no Python module, so it needs neither Python's headers nor a name that Python would import.
"""

from __future__ import annotations

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FORWARD = "checkback.sinks.forward"


class BuildNative(build_ext):
    """Builds it as `sinks/forward.native.so`, whatever Python it is built with."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the file's path below the folder that is built into."""
        return fullname.replace(".", "/") + ".native.so"


setup(
    ext_modules=[
        # Optional: without a C compiler the package is built without it, and the sink is slower.
        Extension(
            FORWARD, ["sinks/forward.c"], optional=True, extra_compile_args=["-O2", "-std=c11"]
        )
    ],
    cmdclass={"build_ext": BuildNative},
)
