"""HDFS and YARN in one process of Hadoop's own mini clusters, beside pyspark's Hadoop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway
from tests.integration.running import wait_until

from checkback.deploy.jars import ensure_jars
from checkback.deploy.java import find_java

PYSPARK_JARS = Path(pyspark.__file__).parent / "jars"
SETTINGS = {
    "dfs.replication": "1",
    "yarn.nodemanager.resource.memory-mb": "6144",
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    "yarn.resourcemanager.am.max-attempts": "4",
    # Of a queue's memory a tenth by default: less than one driver.
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
}


ONLY_HERE = "net.topology.node.switch.mapping.impl"
"""A setting of the mini cluster's that names a class that clients don't have."""


@dataclass(frozen=True)
class Hadoop:
    """A running HDFS and YARN.

    Args:
        folder: its folder; ``conf`` in it has the clients' configuration.
        namenode: HDFS's URI.
        client: YARN's client, in Java.
    """

    folder: Path
    namenode: str
    client: Any

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to find it."""
        return {"HADOOP_CONF_DIR": str(self.folder / "conf")}

    def masters(self) -> list[int]:
        """Return the process ids of Spark's application masters, found by their own folders."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().decode(errors="replace").split("\0")
                is_master = any(word.endswith("yarn.ApplicationMaster") for word in words)
                if is_master and words[0].endswith("java") and str(self.folder) in " ".join(words):
                    found.append(int(path.parent.name))
        return found

    def end_applications(self) -> list[str]:
        """End all applications; return what YARN said of each before, as its diagnostics."""
        said = []
        for report in self.client.getApplications():
            said.append(str(report.getDiagnostics()))
            self.client.killApplication(report.getApplicationId())
        wait_until(lambda: not self.masters(), 30, "the end of the application masters")
        return said

    def attempts(self) -> int:
        """Return the number of the newest attempt of the only application."""
        (report,) = self.client.getApplications()
        return int(report.getCurrentApplicationAttemptId().getAttemptId())

    def logs(self) -> str:
        """Return what the containers wrote."""
        files = sorted(self.folder.rglob("container_*/std*"))
        return "\n".join(f"{file}:\n{file.read_text('utf-8', 'replace')}" for file in files)


@contextmanager
def mini_hadoop(folder: Path) -> Iterator[Hadoop]:
    """Run HDFS with one data node and YARN with one node manager."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "hadoop.log").open("w") as log:
        jvm = JavaGateway.launch_gateway(
            classpath=os.pathsep.join([*map(str, ensure_jars("hadoop")), f"{PYSPARK_JARS}/*"]),
            javaopts=["-Xmx768m", "-XX:+UseSerialGC", f"-Duser.dir={folder}"],
            java_path=str(find_java()),
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
        )
        try:
            yield _start(jvm.jvm, folder)
        finally:
            jvm.shutdown()
            process: Any = jvm.java_process
            process.kill()
            process.wait()


def _start(jvm: Any, folder: Path) -> Hadoop:
    settings = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for key, value in {**SETTINGS, "hadoop.tmp.dir": str(folder / "tmp")}.items():
        settings.set(key, value)
    builder = jvm.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(
        settings, jvm.java.io.File(str(folder / "hdfs"))
    )
    namenode = str(builder.numDataNodes(1).build().getFileSystem().getUri())
    settings.set("fs.defaultFS", namenode)
    yarn = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("checkback", 1, 1, 1)
    yarn.init(settings)
    yarn.start()
    (folder / "conf").mkdir()
    clients = jvm.org.apache.hadoop.conf.Configuration(yarn.getConfig())
    clients.unset(ONLY_HERE)
    for name in ("core-site.xml", "hdfs-site.xml", "yarn-site.xml"):
        stream = jvm.java.io.FileOutputStream(str(folder / "conf" / name))
        clients.writeXml(stream)
        stream.close()
    client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
    client.init(yarn.getConfig())
    client.start()
    return Hadoop(folder, namenode, client)
