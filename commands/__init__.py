"""The command line: ``checkback <noun> <verb>``.

A noun is a module in this folder that has a ``command``. The module is imported only when the noun
is run, so that ``checkback --help`` does not wait for Spark.

Exit codes: 0 done · 1 done, and something was found (an audit that fails, a topic that differs) ·
2 used wrongly · 3 the environment is not as needed · 4 refused, because going on could break the
guarantee · 70 a defect of Checkback · 130 interrupted · 141 the reader of the output closed it.
"""

from __future__ import annotations

import os
import sys

from checkback.commands.shared.errors import asks_for_json, error_document, missing_package
from checkback.commands.version import version_text


def main() -> None:
    """Run the command line and leave with its exit code."""
    open_missing_streams()
    try:
        from checkback.commands.shared.app import NOUNS, LazyGroup, execute  # click is in an extra
    except ModuleNotFoundError as error:
        sys.exit(_without_click(error))
    sys.exit(execute(LazyGroup(NOUNS), sys.argv[1:]))


def open_missing_streams() -> None:
    """Open /dev/null in place of standard streams that the parent process closed.

    Python has None for such a stream, which can't be written to. And the next file or connection
    would get the stream's number: the JVM and other children would write into that.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            lowest_free = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(lowest_free, True)
            setattr(sys, name, open(lowest_free, mode, closefd=False))  # noqa: SIM115


def _without_click(error: ModuleNotFoundError) -> int:
    """Print the version, or say that the client alone has no commands."""
    if sys.argv[1:] == ["--version"]:
        print(version_text())
        return 0
    missing = missing_package(error)
    if missing is None:
        raise error
    as_json = asks_for_json(sys.argv[1:])
    print(error_document(missing) if as_json else f"checkback: {missing}", file=sys.stderr)
    return missing.exit_code
