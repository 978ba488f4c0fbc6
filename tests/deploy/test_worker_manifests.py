"""The example of a worker for Kubernetes: what it says fits together, and is read."""

from pathlib import Path
from typing import Any

import yaml

from ingest.connect.worker_settings import read_worker

DEPLOY = Path(__file__).parents[2] / "deploy"
WORKER = DEPLOY / "kubernetes" / "worker"


def read(name: str) -> Any:
    """The document of a YAML file."""
    return yaml.safe_load((WORKER / name).read_text())


def test_everything_is_listed_and_selects_the_same() -> None:
    """One name and one label for all of it."""
    listed = set(read("kustomization.yaml")["resources"])
    there = {path.name for path in WORKER.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}
    label = {"app.kubernetes.io/name": "headrace-worker"}
    deployment = read("deployment.yaml")["spec"]

    assert listed == there
    assert all(read(name)["metadata"]["name"] == "headrace-worker" for name in listed)
    assert deployment["selector"]["matchLabels"] == deployment["template"]["metadata"]["labels"] == label
    assert read("service.yaml")["spec"]["selector"] == label
    assert read("disruption-budget.yaml")["spec"]["selector"]["matchLabels"] == label
    assert read("network-policy.yaml")["spec"]["podSelector"]["matchLabels"] == label


def test_the_workers_file_is_read_and_says_where_its_pod_is() -> None:
    """By the address that the deployment gives it, with the accounts that the secret holds."""
    found = read_worker(
        (WORKER / "worker.properties").read_text(),
        is_json=False,
        environment={"POD_IP": "10.1.2.3"},
        read_file=str,
    )
    pod = read("deployment.yaml")["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert found.warnings == ()
    assert found.advertised_host == "10.1.2.3"
    assert [one["name"] for one in container["env"]] == ["POD_IP"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "rest": 8083,
        "http": 8085,
    }
    accounts = Path(str(found.frame.http.rest_auth_file))
    assert {one["mountPath"] for one in container["volumeMounts"]} >= {str(accounts.parent)}
    users = read("secret.example.yaml")["stringData"][accounts.name].splitlines()
    assert [user.split(":")[0] for user in users] == ["headrace-workers", "admin"]
    (secret,) = (one["secret"] for one in pod["volumes"] if one["name"] == "secret")
    assert not secret["defaultMode"] & 0o004
