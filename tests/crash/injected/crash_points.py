"""Named points at which a process of the pipeline kills itself or another with SIGKILL.

This module imports only the standard library, and nothing of Checkback. It puts the points around
what Checkback calls (confluent-kafka's producer, PySpark's state and foreachBatch), so that they
stay in place when Checkback's own code is rewritten.

The harness and these processes communicate through files in one folder:

- ``armed.json``: the case that is to happen next, see tests/crash/cases.py
- ``processes.json``: the pids of driver and broker, and where the checkpoint is
- ``fired-<case>.json``: written once, just before the kill, with what was on disk then
- ``task-<n>``, ``sink-<n>``: pids of those who work for state partition n
- ``committed-<n>-<batch>``: state partition n has committed that batch
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
else:
    # The mixins get their real base classes once those are imported.
    Consumer = Producer = object

FOLDER_VARIABLE = "CRASH_CONTROL_FOLDER"
RELAY_VARIABLE = "CRASH_RELAY"
"""The number of the relay whose process this is."""
RELAY = "relay: "
HOLD_S = 3.0
LOOK_S = 0.002
FLUSH_S = 5.0


class Control:
    """The orders of the harness, and the reports of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._armed: dict[str, Any] | None = None
        self._armed_stamp: tuple[int, int] | None = None

    def armed(self, point: str, state_partition: int | None = None) -> dict[str, Any] | None:
        """Return the armed case if it applies to this point, state partition and batch."""
        case = self._read_armed()
        if case is None or case["point"] != point:
            return None
        wanted = case["state_partition"]
        if wanted is not None and state_partition is not None and wanted != state_partition:
            return None
        if (self.folder / f"fired-{case['name']}.json").exists():
            return None
        planned = self.last_batch("offsets")
        return case if planned is None or planned >= case["from_batch"] else None

    def processes(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "processes.json").read_text()))

    def checkpoint(self) -> Path:
        return Path(self.processes()["checkpoint"])

    def last_batch(self, log: str) -> int | None:
        try:
            names = [one.name for one in (self.checkpoint() / log).iterdir()]
        except OSError:
            return None
        return max((int(name) for name in names if name.isdigit()), default=None)

    def note(self, name: str, text: str) -> None:
        draft = self.folder / f".{name}.{os.getpid()}"
        draft.write_text(text)
        draft.replace(self.folder / name)

    def noted_pid(self, name: str) -> int | None:
        try:
            return int((self.folder / name).read_text())
        except (OSError, ValueError):
            return None

    def fire(self, case: dict[str, Any], state_partition: int | None) -> None:
        """Record that the case happens, once among all processes, and kill its victims."""
        facts = {
            "point": case["point"],
            "victims": case["victims"],
            "state_partition": state_partition,
            "pid": os.getpid(),
            "planned": self.last_batch("offsets"),
            "committed": self.last_batch("commits"),
            "at_s": time.time(),
        }
        draft = self.folder / f".fired.{os.getpid()}.{threading.get_ident()}"
        draft.write_text(json.dumps(facts))
        try:
            os.link(draft, self.folder / f"fired-{case['name']}.json")
        except FileExistsError:
            return
        for victim in case["victims"]:
            kill(self, victim, state_partition)

    def _read_armed(self) -> dict[str, Any] | None:
        path = self.folder / "armed.json"
        try:
            status = path.stat()
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp != self._armed_stamp:
            self._armed, self._armed_stamp = json.loads(path.read_text()), stamp
        return self._armed


def kill(control: Control, victim: str, state_partition: int | None) -> None:
    """Kill the victims with SIGKILL; this process last, if it is one of them."""
    match victim:
        case "broker":
            os.kill(control.processes()["broker"], signal.SIGKILL)
        case "relay":
            os.kill(os.getpid(), signal.SIGKILL)
        case "paused relay":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "machine":
            _kill_all(list(own_processes(control.folder)))
        case "driver":
            _kill_all([control.processes()["driver"]])
        case "jvm" | "executor":
            wanted = b"SparkSubmit" if victim == "jvm" else b"CoarseGrainedExecutorBackend"
            _kill_all(_java_processes(control.folder, wanted)[:1])
        case "sink" | "worker":
            name = "sink" if victim == "sink" else "task"
            pid = control.noted_pid(f"{name}-{state_partition or 0}")
            # Skip a process id that now belongs to a foreign process.
            _kill_all([one for one in own_processes(control.folder) if one == pid])
        case _:
            raise ValueError(victim)


def own_processes(folder: Path) -> Iterator[int]:
    """Yield the processes that were started with this control folder in their environment."""
    mark = f"{FOLDER_VARIABLE}={folder}\0".encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                environment = (process / "environ").read_bytes()
            except OSError:
                continue
            if mark in environment + b"\0":
                yield int(process.name)


def _java_processes(folder: Path, wanted: bytes) -> list[int]:
    """Return the processes that run this class, this process's own ancestor first."""
    ancestors = set(_ancestors(os.getpid()))
    found = [pid for pid in own_processes(folder) if wanted in _command(pid)]
    return sorted(found, key=lambda pid: pid not in ancestors)


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        text = Path("/proc", str(pid), "stat").read_text()
        pid = int(text.rpartition(")")[2].split()[1])


def _command(pid: int) -> bytes:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return b""


def _kill_all(pids: Sequence[int]) -> None:
    for pid in sorted(pids, key=lambda pid: pid == os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if os.getpid() in pids:
        signal.pause()  # never to return


def reach(control: Control, point: str, state_partition: int | None = None) -> None:
    """Report that a point is reached; the process may end here."""
    case = control.armed(point, state_partition)
    if case is not None:
        control.fire(case, state_partition)


def hold_until(holds: Callable[[], bool]) -> bool:
    """Wait for another process, but no longer than a normal batch may take."""
    deadline = time.monotonic() + HOLD_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


class ProducerPoints(Producer):
    """Mixin for confluent-kafka's producer: points around the calls of a transaction."""

    control: Control
    initialised: list[int]
    """State partitions whose producer was initialised and whose marker was not read after that."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        settings = {**(arguments[0] if arguments else {}), **options}
        number = str(settings.get("transactional.id", "")).rpartition("-")[2]
        number = os.environ.get(RELAY_VARIABLE, number)
        self.state_partition = int(number) if number.isdigit() else None
        # The driver writes, too, when it takes over the checkpoint at its start.
        is_driver = os.getpid() == self.control.processes()["driver"]
        self.prefix = RELAY if RELAY_VARIABLE in os.environ else "fencing: " if is_driver else ""
        self.records = 0
        self.batch_id = -1

    def init_transactions(self, *arguments: Any, **options: Any) -> None:
        if not self.prefix:
            self.control.note(f"sink-{self.state_partition}", str(os.getpid()))
        super().init_transactions(*arguments, **options)
        if self.state_partition is not None and not self.prefix:
            self.initialised[:] = [self.state_partition]
        self._reach("initialised")

    def begin_transaction(self, *arguments: Any, **options: Any) -> None:
        super().begin_transaction(*arguments, **options)
        self.records = 0
        self._reach("begun")

    def produce(self, *arguments: Any, **options: Any) -> None:
        super().produce(*arguments, **options)
        if self.state_partition is None:
            return
        self.records += 1
        case = self.control.armed(f"{self.prefix}mid-produce", self.state_partition)
        if case is not None and self.records >= case["records"]:
            # Now the broker's log holds this many records of an open transaction.
            self.flush(FLUSH_S)
            self.control.fire(case, self.state_partition)

    def send_offsets_to_transaction(self, positions: Any, *rest: Any, **options: Any) -> None:
        self._reach("flushed")
        super().send_offsets_to_transaction(positions, *rest, **options)
        self.batch_id = positions[0].offset - 1

    def commit_transaction(self, *arguments: Any, **options: Any) -> None:
        self._reach("before commit")
        if not self.prefix:
            self._hold_for_another()
        case = self.control.armed(f"{self.prefix}mid-commit", self.state_partition)
        if case is not None:
            fire = (case, self.state_partition)
            threading.Timer(case["after_ms"] / 1_000, self.control.fire, fire).start()
        super().commit_transaction(*arguments, **options)
        if not self.prefix:
            self.control.note(f"committed-{self.state_partition}-{self.batch_id}", "")
        self._reach("committed")

    def _reach(self, point: str) -> None:
        reach(self.control, self.prefix + point, self.state_partition)

    def _hold_for_another(self) -> None:
        case = self.control.armed("some committed", self.state_partition)
        if case is not None:
            own = f"committed-{self.state_partition}-{self.batch_id}"
            pattern, folder = f"committed-*-{self.batch_id}", self.control.folder
            if hold_until(lambda: any(one.name != own for one in folder.glob(pattern))):
                self.control.fire(case, self.state_partition)


class ConsumerPoints(Consumer):
    """Mixin for confluent-kafka's consumer: a point after the marker or a position is read."""

    control: Control
    initialised: list[int]

    def committed(self, *arguments: Any, **options: Any) -> Any:
        result = super().committed(*arguments, **options)
        if RELAY_VARIABLE in os.environ:
            reach(self.control, f"{RELAY}position fetched", int(os.environ[RELAY_VARIABLE]))
        elif self.initialised:
            reach(self.control, "marker read", self.initialised.pop())
        return result

    def consumer_group_metadata(self) -> Any:
        if RELAY_VARIABLE in os.environ:
            reach(self.control, f"{RELAY}joined", int(os.environ[RELAY_VARIABLE]))
        return super().consumer_group_metadata()


def patch_confluent_kafka(module: ModuleType, control: Control) -> None:
    """Put points around the calls of producers and consumers."""
    shared = {"control": control, "initialised": []}
    for name, points in (("Producer", ProducerPoints), ("Consumer", ConsumerPoints)):
        setattr(module, name, type(name, (points, getattr(module, name)), shared))


def patch_state(module: ModuleType, control: Control) -> None:
    """Put points after the decisions of a page, in the Python worker of the stateful operator."""
    update = module.GroupState.update

    def crashing_update(self: Any, new_value: Any) -> None:
        update(self, new_value)
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            return
        number = context._partitionId  # the method itself has a point
        case = control.armed("decided", number)
        if case is not None:
            control.note(f"task-{number}", str(os.getpid()))
            control.fire(case, number)
        case = control.armed("state upload", number)
        if case is not None:
            version = (control.last_batch("offsets") or 0) + 1
            folders = (control.checkpoint() / "state" / "0").glob("[0-9]*")
            others = [one / f"{version}.changelog" for one in folders if one.name != str(number)]
            if hold_until(lambda: any(one.exists() for one in others)):
                control.fire(case, number)

    module.GroupState.update = crashing_update


def patch_task_context(module: ModuleType, control: Control) -> None:
    """Put a point where the sink's task has read its input and asks for its state partition."""
    partition_id = module.TaskContext.partitionId

    def crashing_partition_id(self: Any) -> int:
        number = int(partition_id(self))
        control.note(f"task-{number}", str(os.getpid()))
        reach(control, "input read", number)
        return number

    module.TaskContext.partitionId = crashing_partition_id


def patch_foreach_batch(module: ModuleType, control: Control) -> None:
    """Put points around what Spark calls in the driver for each batch."""
    call = module.ForeachBatchFunction.call

    def crashing_call(self: Any, frame: Any, batch_id: int) -> None:
        reach(control, "planned")
        case = control.armed("moment")
        if case is not None:
            fire = (case, case["state_partition"])
            threading.Timer(case["after_ms"] / 1_000, control.fire, fire).start()
        call(self, frame, batch_id)
        reach(control, "all committed")

    module.ForeachBatchFunction.call = crashing_call


PATCHES: dict[str, Callable[[ModuleType, Control], None]] = {
    "confluent_kafka": patch_confluent_kafka,
    "pyspark.sql.streaming.state": patch_state,
    "pyspark.taskcontext": patch_task_context,
    "pyspark.sql.utils": patch_foreach_batch,
}


class PatchingLoader(Loader):
    """Executes a module with its own loader, then puts the points in."""

    def __init__(self, inner: Any, patch: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._patch = patch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._patch(module)


class PatchingFinder(MetaPathFinder):
    """Finds the modules that get points; the other finders handle all other modules."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._looking = threading.local()

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        patch = PATCHES.get(name)
        if patch is None or getattr(self._looking, "on", False):
            return None
        self._looking.on = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.on = False
        if spec is not None and spec.loader is not None:
            spec.loader = PatchingLoader(spec.loader, lambda found: patch(found, self._control))
        return spec


def install() -> None:
    """Put the points into the modules that this process imports; without a folder do nothing."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        # Before the harness gives up, it asks where the process hangs.
        faulthandler.register(signal.SIGUSR1)
        sys.meta_path.insert(0, PatchingFinder(Control(Path(folder))))
