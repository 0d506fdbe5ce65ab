"""Exit codes, errors as JSON, and a sentence for the user instead of a library's trace.

A library's exception that reaches the command line has one of three causes: a setting that the
library rejects, a problem in the environment, or a defect of Checkback. This module explains the
first two. Everything else is a defect and keeps its trace (exit code 70).

Classes are compared by name and module, so none of these libraries has to be imported or even
installed.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from checkback.protocol.errors import (
    BrokerError,
    CheckbackError,
    ConfigurationError,
    OperationalError,
    PrerequisiteError,
)

EXIT_OK: Final = 0
EXIT_FOUND: Final = 1
"""Done, and the command found something: an audit fails, a topic differs from its plan."""
EXIT_DEFECT: Final = 70
EXIT_INTERRUPTED: Final = 130
EXIT_WITHOUT_READER: Final = 141

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
EXTRAS: Final = {
    "spark": frozenset(
        {
            "click", "confluent_kafka", "delta", "deltalake", "kafka", "numpy", "pandas",
            "prometheus_client", "py4j", "pyarrow", "pydantic", "pyspark", "rich", "rocksdict",
            "yaml",
        }
    ),
    "web": frozenset(
        {
            "click", "fastapi", "jinja2", "kafka", "numpy",
            "prometheus_client", "pyarrow", "pydantic", "rich", "rocksdict", "starlette", "uvicorn",
            "yaml",
        }
    ),
}  # fmt: skip
"""The modules that each extra brings."""

_REJECTED_SETTING: Final = re.compile(r'(?:property:? "|`)([\w.]+)["`]')


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Return whether the raw arguments choose JSON: an error may come before click reads them."""
    return "--output=json" in arguments or ("--output", "json") in pairwise(arguments)


def error_document(error: CheckbackError, *, kind: str = "", exit_code: int | None = None) -> str:
    """Return the JSON object ``{"error": ...}``."""
    document = {
        "kind": kind or type(error).__name__,
        "message": error.message,
        "remedy": error.remedy,
        "fields": error.fields,
        "exit_code": error.exit_code if exit_code is None else exit_code,
    }
    return json.dumps({"error": document}, default=str)


def explained(error: BaseException) -> CheckbackError | None:
    """Return the error that tells the user what to do; None for a defect of Checkback."""
    for kind in type(error).__mro__:
        explain = _EXPLANATIONS.get(f"{kind.__module__.partition('.')[0]}.{kind.__name__}")
        if explain is not None:
            return explain(error)
    return None


def missing_package(error: ModuleNotFoundError) -> CheckbackError | None:
    """Return the error for a package that is not installed; None for a module of Checkback."""
    package = (error.name or "").partition(".")[0]
    extras = [extra for extra, packages in EXTRAS.items() if package in packages]
    if not extras:
        return None
    remedy = f"It comes with an extra of Checkback: pip install 'checkback[{extras[0]}]'"
    if len(extras) > 1:  # Spark is large, and who looks after a pipeline from elsewhere needs none
        remedy += ", or 'checkback[web]' for the console and operators' commands without Spark"
    return PrerequisiteError(
        f"The package {package}, which this command needs, is not installed.",
        remedy=f"{remedy}.",
        package=package,
    )


def _of_librdkafka(error: Any) -> CheckbackError:
    cause = error.args[0] if error.args else error
    said = cause.str() if hasattr(cause, "str") else str(cause)
    if getattr(cause, "name", str)() == "_INVALID_ARG":
        named = _REJECTED_SETTING.search(said)
        return ConfigurationError(
            f"librdkafka rejects a kafka.* setting: {said.strip().rstrip('.')}.",
            remedy="Correct the setting; kafka.* takes librdkafka's names.",
            **({} if named is None else {"key": f"kafka.{named[1]}"}),
        )
    return _refused_by_kafka(said)


def _refused_by_kafka(said: str) -> CheckbackError:
    return BrokerError(
        f"Kafka refused: {said.rstrip('.')}.",
        remedy="Run `checkback doctor`: it looks at brokers, topics and rights.",
    )


def _failed_in_spark(text: str) -> CheckbackError:
    said = text.strip().partition("\n")[0].removesuffix(".")
    return OperationalError(
        f"Spark failed: {said}.", remedy="Check master and the spark.* settings."
    )


def _of_connection(error: Any) -> CheckbackError:
    return OperationalError(
        f"A connection failed: {error.strerror or type(error).__name__}.",
        remedy="Check that the other side still runs.",
    )


def _of_silence(error: Any) -> CheckbackError:
    what = f" ({error.strerror})" if error.strerror else ""
    return OperationalError(
        f"No answer came in time{what}.",
        remedy="Check the brokers and the network, then try again.",
    )


def _of_files(error: Any) -> CheckbackError:
    if error.errno in FULL:
        return PrerequisiteError(
            "No space is left on the disk.", remedy="Free some space and try again."
        )
    named = f"{error.filename}: " if error.filename else ""
    return PrerequisiteError(
        f"{named}{error.strerror or error}.", remedy="Check the path and its permissions."
    )


_EXPLANATIONS: Final[dict[str, Callable[[Any], CheckbackError | None]]] = {
    "cimpl.KafkaException": _of_librdkafka,
    "kafka.KafkaError": lambda error: _refused_by_kafka(str(error) or type(error).__name__),
    "pyspark.PySparkException": lambda error: _failed_in_spark(str(error)),
    "py4j.Py4JJavaError": lambda error: _failed_in_spark(error.java_exception.toString()),
    "builtins.ConnectionError": _of_connection,
    "builtins.TimeoutError": _of_silence,
    "builtins.OSError": _of_files,
    "builtins.ModuleNotFoundError": missing_package,
}
"""By top module and class."""
