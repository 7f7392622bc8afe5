"""The manifest for Kubernetes: valid, in agreement with itself, and its commands train. No cluster runs it here."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.conftest import ROOT, environment
from tests.support.cluster_tasks import wait_for
from tmflow.training.cluster.addresses import Addresses, on_this_machine

FOLDER = ROOT / "profiles" / "kubernetes"
SCHEMA = json.loads((Path(__file__).parent / "kubernetes" / "schema.json").read_text())
DEFINITIONS = {
    "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "Service": "io.k8s.api.core.v1.Service",
    "StatefulSet": "io.k8s.api.apps.v1.StatefulSet",
}
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER / "cluster.yaml").read_text()))
SPEC = "/etc/tmflow/cluster.yaml"


def require_valid(document: dict[str, Any]) -> None:
    """Raise ValidationError if Kubernetes would not accept the document."""
    reference = {"$ref": f"#/$defs/{DEFINITIONS[document['kind']]}"}
    jsonschema.Draft202012Validator({**SCHEMA, **reference}).validate(document)


def named(kind: str) -> dict[str, dict[str, Any]]:
    """The documents of a kind, by name."""
    return {document["metadata"]["name"]: document for document in DOCUMENTS if document["kind"] == kind}


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda document: f"{document['kind']}-{document['metadata']['name']}"
)
def test_each_document_is_valid(document: dict[str, Any]) -> None:
    require_valid(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "replica"), 1),
        (("spec", "replicas"), "two"),
        (("spec", "template", "spec", "containers", 0, "comand"), []),
        (("spec", "template", "spec", "containers", 0, "env", 0, "valueFrom", "fieldRef", "path"), "x"),
    ],
)
def test_the_schema_refuses_what_kubernetes_would_refuse(path: tuple[str | int, ...], value: object) -> None:
    document = json.loads(json.dumps(named("StatefulSet")["tmflow-worker"]))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        require_valid(document)


def test_the_addresses_are_the_names_and_ports_of_the_pods() -> None:
    (service,) = named("Service").values()
    (port,) = service["spec"]["ports"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]  # a task looks up the others before any of them is ready
    pods = {
        job: [
            f"{name}-{index}.{document['spec']['serviceName']}:{port['port']}"
            for name, document in named("StatefulSet").items()
            for index in range(document["spec"]["replicas"])
            if name == f"tmflow-{job}"
        ]
        for job in ("ps", "worker")
    }
    addresses = Addresses(**yaml.safe_load(named("ConfigMap")["tmflow"]["data"]["cluster.yaml"]))
    assert addresses == Addresses(**pods)
    for document in named("StatefulSet").values():
        assert document["spec"]["serviceName"] == service["metadata"]["name"]
        (container,) = document["spec"]["template"]["spec"]["containers"]
        assert [listed["containerPort"] for listed in container["ports"]] == [port["port"]]


def test_only_the_pods_of_the_training_reach_each_other() -> None:
    (policy,) = named("NetworkPolicy").values()
    selected = policy["spec"]["podSelector"]["matchLabels"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": selected}}]}]
    for document in named("StatefulSet").values():
        labels = document["spec"]["template"]["metadata"]["labels"]
        assert selected.items() <= labels.items()
        assert document["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert named("Service")["tmflow"]["spec"]["selector"].items() <= labels.items()


def test_the_image_copies_files_that_the_project_has() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (FOLDER / "Containerfile").read_text(), re.MULTILINE)
    for source in " ".join(copied).split():
        listed = subprocess.run(["git", "ls-files", source], cwd=ROOT, capture_output=True, text=True, check=True)
        assert listed.stdout, f"the container file copies {source}, of which git has nothing"


@contextmanager
def pod(document: dict[str, Any], index: int, spec: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command of a pod as a process of this machine, with another file of addresses and further options."""
    (container,) = document["spec"]["template"]["spec"]["containers"]
    (variable,) = container["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    changes = {f"$({variable['name']})": str(index), SPEC: str(spec)}
    arguments = [changes.get(argument, argument) for argument in container["args"]]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    process = subprocess.Popen(
        [*container["command"], *arguments, *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(PATH=path),
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.slow
def test_the_commands_of_the_pods_train_and_stay(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(on_this_machine(1, 2).model_dump()))
    servers, workers = named("StatefulSet")["tmflow-ps"], named("StatefulSet")["tmflow-worker"]
    fewer = ("--iterations", "40", "--test-images", "50")
    with ExitStack() as held:
        server = held.enter_context(pod(servers, 0, file))
        chief, second = (held.enter_context(pod(workers, index, file, *fewer)) for index in (0, 1))
        assert chief.stdout is not None
        assert chief.stdout.readline().startswith("round 1: ")
        for process in (server, second):
            wait_for(process, "tmflow: done.")
        for process in (server, chief, second):
            with pytest.raises(subprocess.TimeoutExpired):  # Kubernetes would start a container that ends again
                process.wait(1)
