"""Every file of deploy/ for a platform: against its schema, and against the code that it names."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement
from tests.unit.deploy_fields import KINDS, vendored_schema

import checkback
from checkback.commands.console import command as console
from checkback.commands.relay import command as relay
from checkback.commands.run import command as run
from checkback.deploy.jars import read_lock
from checkback.deploy.settings import load_settings, read_environment
from checkback.protocol.configuration import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
KUBERNETES_VERSION = "1.34.0"
MANIFESTS = sorted(one for one in KUBERNETES.rglob("*.yaml") if one.stem != "kustomization")
KUSTOMIZATIONS = sorted(KUBERNETES.rglob("kustomization.yaml"))
UNITS = sorted((DEPLOY / "systemd").iterdir())
METRICS_PORT = 9404


def loaded(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one is not None]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield every mapping inside a document."""
    if isinstance(value, dict):
        yield value
    children: Iterable[object] = ()
    if isinstance(value, dict):
        children = value.values()
    elif isinstance(value, list):
        children = value
    for child in children:
        yield from mappings(child)


def command_lines() -> Iterator[list[str]]:
    """Yield the arguments of every `checkback` in the files."""
    for path in DEPLOY.rglob("*.y*ml"):
        for document in loaded(path):
            for one in mappings(document):
                for key in ("args", "arguments", "driverArgs", "command", "parameters"):
                    words = one.get(key)
                    if isinstance(words, list) and {"run", "console", "relay"} & set(words):
                        yield [str(word) for word in words]
    for unit in UNITS:
        yield re.findall(r"^ExecStart=\S+/checkback (.*)$", unit.read_text(), re.MULTILINE)[
            0
        ].split()


@pytest.mark.parametrize("path", MANIFESTS, ids=named)
def test_a_manifest_fits_its_schema(path: Path) -> None:
    for document in loaded(path):
        kind = f"{document['apiVersion']} {document['kind']}"
        if kind in KINDS:
            jsonschema.validate(document, KINDS[kind])
        else:
            kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=named)
def test_a_kustomization_names_what_is_there(path: Path) -> None:
    (document,) = loaded(path)
    jsonschema.validate(document, KINDS["kustomize.config.k8s.io/v1beta1 Kustomization"])
    generated = [name for one in document.get("configMapGenerator", []) for name in one["files"]]
    for name in [*document["resources"], *generated]:
        assert (path.parent / name).exists(), name
    in_folder = {one.name for one in path.parent.iterdir() if one.is_file()} - {path.name}
    assert in_folder <= {*document["resources"], *generated}


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=named)
def test_kubectl_builds_objects_with_names_of_their_own(path: Path) -> None:
    folder = path.parent
    if shutil.which("kubectl") is None:
        pytest.skip("this machine has no kubectl")
    ran = subprocess.run(
        ["kubectl", "kustomize", folder], capture_output=True, text=True, check=False, timeout=60
    )
    made = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(ran.stdout)]

    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(set(made)) == len(made)
    assert ("Deployment" if folder.name == "console" else "NetworkPolicy") in dict(made)


def test_what_objects_name_of_each_other_is_there() -> None:
    base = [one for path in KUBERNETES.glob("*.yaml") for one in loaded(path)]
    accounts = {one["metadata"]["name"] for one in base if one["kind"] == "ServiceAccount"}
    for path in MANIFESTS:
        text = path.read_text("utf-8")
        account = r"(?:serviceAccount(?:Name)?): (\w+)$"
        assert set(re.findall(account, text, re.MULTILINE)) <= accounts
        ports = re.findall(r"(?:containerPort|port): (94\d\d)$", text, re.MULTILINE)
        assert set(ports) <= {str(METRICS_PORT)}
    driver = (KUBERNETES / "driver.yaml").read_text("utf-8")
    for expected in ("runAsNonRoot: true", "drop: [ALL]", "terminationGrace", "name: metrics"):
        assert expected in driver, expected


def test_a_driver_mounts_the_rules_of_access_control_where_the_settings_name_them() -> None:
    """The secret may be missing: where access control is off, no one has to make it."""
    pod = loaded(KUBERNETES / "driver.yaml")[0]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [volume] = [one for one in pod["volumes"] if one["name"] == "access"]
    [mount] = [one for one in container["volumeMounts"] if one["name"] == "access"]
    settings = (KUBERNETES / "checkback.toml").read_text("utf-8")
    (named,) = re.findall(r'^# acl_file = "(.+)"$', settings, re.MULTILINE)
    page = (ROOT / "docs" / "operating" / "deploy.md").read_text("utf-8")

    assert volume["secret"] == {
        "secretName": "checkback-access", "optional": True, "defaultMode": 0o440,
    }  # fmt: skip
    assert mount["readOnly"]
    assert "subPath" not in mount, "what is mounted so is never renewed"
    assert Path(named).parent == Path(mount["mountPath"])
    assert f"create secret generic checkback-access --from-file={Path(named).name}" in page


def test_the_console_of_kubernetes_starts_and_reaches_what_it_shows() -> None:
    """Whoever may reach it, the rules of the network let it reach the driver's metrics."""
    folder = KUBERNETES / "console"
    [deployment] = loaded(folder / "console.yaml")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    services = {one["metadata"]["name"]: one["spec"] for one in loaded(folder / "services.yaml")}
    given = console.make_context("console", [*container["args"][1:]], resilient_parsing=True).params
    figures = services["checkback-figures"]
    (policy,) = loaded(KUBERNETES / "network-policy.yaml")
    asking = [one for rule in policy["spec"]["ingress"] if "ports" in rule for one in rule["from"]]
    label = deployment["spec"]["template"]["metadata"]["labels"]
    names = {one["name"] for one in container["env"]}

    assert given["host"] == "0.0.0.0"  # noqa: S104 - in its pod
    assert "CHECKBACK_CONSOLE_TOKENS" in names, "without tokens it does not start on this address"
    assert container["ports"][0]["containerPort"] == given["port"]
    assert given["metrics_url"] == f"http://checkback-figures:{METRICS_PORT}/metrics"
    assert figures["ports"][0]["port"] == METRICS_PORT
    assert figures["selector"] == {"app.kubernetes.io/name": "checkback", "spark-role": "driver"}
    assert {"podSelector": {"matchLabels": label}} in asking


def test_settings_of_kubernetes_are_settings() -> None:
    settings = load_settings(KUBERNETES / "checkback.toml", {}, {})

    assert settings.master.startswith("k8s://")
    assert settings.checkpoint.startswith("s3a://")


def test_options_in_the_files_are_options_of_the_command() -> None:
    options = {
        name: {opt for one in noun.params for opt in (*one.opts, *one.secondary_opts)}
        for name, noun in (("run", run), ("console", console), ("relay", relay))
    }
    lines = list(command_lines())

    assert sorted(words[0] for words in lines) == [*["console"] * 3, *["relay"] * 3, *["run"] * 3]
    for words in lines:
        assert {word for word in words if word.startswith("--")} <= options[words[0]]
        spark = [words[at + 1] for at, word in enumerate(words) if word == "--spark"]
        assert all(re.fullmatch(r"[a-z][A-Za-z.]+=.+", one) for one in spark), spark


def test_variables_in_the_files_are_settings() -> None:
    texts = [path for path in DEPLOY.rglob("*") if path.suffix in (".yaml", ".yml", ".service")]
    found = {
        name
        for path in texts
        for name in re.findall(r"\bCHECKBACK_[A-Z_]+\b", path.read_text("utf-8"))
    }
    known = set(Settings.__dataclass_fields__)

    assert len(found) > 5
    for key in read_environment(dict.fromkeys(found, "x")):
        assert key.partition(".")[0] in known, key


def test_images_and_class_paths_are_those_of_this_version() -> None:
    confs = read_lock()
    for path in [*MANIFESTS, DEPLOY / "compose" / "compose.yaml"]:
        text = path.read_text("utf-8")
        versions = re.findall(r"\bcheckback:(\d\S*)", text)
        assert set(versions) <= {checkback.__version__}, path
        for folders in re.findall(r"extraClassPath: (.*)", text):
            names = re.findall(r"/opt/checkback/jars/(\w+)/\*", folders)
            assert names == ["spark", "s3"]
            assert all(confs[name] for name in names)
    container = (DEPLOY / "container" / "Containerfile").read_text("utf-8")
    pinned = re.search(
        r"^pyspark==(\S+)", (ROOT / "requirements/spark.txt").read_text(), re.MULTILINE
    )
    assert pinned is not None
    assert f"/spark:{pinned[1]}\n" in container
    assert f"checkback:{checkback.__version__}" in container


def test_the_console_of_compose_starts_and_shows_what_the_pipeline_beside_it_does() -> None:
    """It listens for the port that compose publishes, on this machine's loopback address alone."""
    services = loaded(DEPLOY / "compose" / "compose.yaml")[0]["services"]
    found, pipeline = services["console"], services["pipeline"]
    given = console.make_context("console", found["command"][1:]).params
    (port,) = found["ports"]
    environment = dict(found["environment"])
    tokens = environment.pop("CHECKBACK_CONSOLE_TOKENS")

    assert found["image"] == pipeline["image"]
    assert environment == pipeline["environment"]
    assert port == f"127.0.0.1:{given['port']}:{given['port']}"
    assert given["host"] == "0.0.0.0"  # noqa: S104 - in its container
    assert given["anybody_reads"], "else it refuses to start without tokens"
    assert tokens == "${CONSOLE_TOKENS:-}"
    assert (
        f"http://pipeline:{environment['CHECKBACK_METRICS_PORT']}/metrics" == given["metrics_url"]
    )
    assert [f"{volume}:ro" for volume in pipeline["volumes"]] == found["volumes"]


def test_the_image_has_what_every_extra_brings() -> None:
    """The console runs in it, too; the SBOM and the audit are of the same packages."""
    extras = packages("extras")
    every = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    of_extras = [one for extra in every["optional-dependencies"].values() for one in extra]
    makefile = (ROOT / "Makefile").read_text("utf-8")

    for text in [*every["dependencies"], *of_extras]:
        one = Requirement(text)
        assert one.specifier.contains(extras[one.name]), text
    assert packages("spark").items() <= extras.items()
    for tool in ("cyclonedx-py", "pip-audit"):
        (line,) = re.findall(rf"/{tool} .*", makefile)
        assert "requirements/extras.txt" in line


def packages(lock: str) -> dict[str, str]:
    """Return the versions of a lock by name."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text("ascii")
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def test_compose_fits_its_schema_and_mounts_what_is_there() -> None:
    (document,) = loaded(DEPLOY / "compose" / "compose.yaml")
    jsonschema.validate(document, vendored_schema("compose-spec"))

    assert document["services"].keys() == {
        "kafka", "topics", "pipeline", "relay", "console", "prometheus", "grafana",
    }  # fmt: skip
    for service in document["services"].values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            is_there = (DEPLOY / "compose" / source).exists()
            assert is_there if source.startswith(".") else source in document["volumes"], volume


def test_what_our_services_mount_belongs_to_their_user() -> None:
    """Docker gives a new volume the owner of the image's folder, or root where there is none."""
    (document,) = loaded(DEPLOY / "compose" / "compose.yaml")
    container = (DEPLOY / "container" / "Containerfile").read_text("utf-8")
    (user,) = re.findall(r"^USER (\d+)$", container, re.MULTILINE)
    mounted = {
        volume.split(":")[1]
        for service in document["services"].values()
        if service["image"].startswith("checkback:")
        for volume in service.get("volumes", ())
    }

    assert mounted
    for folder in mounted:
        assert f"RUN install --directory --owner {user} {folder}\n" in container


@pytest.mark.parametrize("unit", UNITS, ids=named)
def test_a_unit_is_accepted_by_systemd(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text("utf-8")
    checked = tmp_path / unit.name
    checked.write_text(text.replace("/opt/checkback/bin/checkback", "/bin/true"), "utf-8")
    try:
        ran = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", checked],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("this machine has no systemd-analyze")

    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
