"""compose.yaml and the Kubernetes example: what they say, with the configurations beside them."""

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # publishes no types
import pytest
import yaml

from headrace.options import Settings
from headrace.vendors.load import load
from ingest.connect.worker_settings import read_worker
from ingest.http.metrics import Metrics, ProcessMetrics
from ingest.http.snapshot import Snapshot, SnapshotHolder
from ingest.service.endpoints import endpoints

TOP = Path(__file__).parents[2]
KUBERNETES = TOP / "deploy" / "kubernetes"
WORKER = KUBERNETES / "worker"
COMPOSE = TOP / "deploy" / "compose"


def read(path: Path) -> Any:
    """The document of a YAML file."""
    return yaml.safe_load(path.read_text())


@pytest.fixture(scope="module")
def deployment() -> Any:
    """The Kubernetes deployment."""
    return read(KUBERNETES / "deployment.yaml")


@pytest.fixture(scope="module")
def compose() -> Any:
    """The compose file."""
    return read(TOP / "compose.yaml")


def secret() -> dict[str, str]:
    """The example of the secret: key to content."""
    found: dict[str, str] = read(KUBERNETES / "secret.example.yaml")["stringData"]
    return found


def settings(file: Path, *, environment: dict[str, str], files: dict[str, str]) -> Settings:
    """The settings of a configuration whose references are these; SettingsError when one is wrong."""
    return load(file.read_text(), kind="json", environment=environment, read_file=files.__getitem__)


def test_every_resource_of_the_kustomization_is_there_and_named_alike() -> None:
    """One name for all of it, and a label that pods of the chart do not have: they share the name."""
    kustomization = read(KUBERNETES / "kustomization.yaml")
    listed = set(kustomization["resources"])
    there = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}

    assert listed == there
    assert kustomization["configMapGenerator"] == [{"name": "headrace", "files": ["headrace.json"]}]
    for name in (*listed, "secret.example.yaml"):
        assert read(KUBERNETES / name)["metadata"]["name"] == "headrace"
    selected = {"app.kubernetes.io/name": "headrace", "app.kubernetes.io/component": "ingester"}
    assert read(KUBERNETES / "service.yaml")["spec"]["selector"] == selected
    assert read(KUBERNETES / "disruption-budget.yaml")["spec"]["selector"]["matchLabels"] == selected
    assert read(KUBERNETES / "network-policy.yaml")["spec"]["podSelector"]["matchLabels"] == selected


@pytest.mark.parametrize(
    ("folder", "name", "secret", "account"),
    [(KUBERNETES, "headrace", "headrace", "headrace"), (WORKER, "headrace-worker", "headrace-worker", None)],
)
def test_it_is_applied_over_the_first_version(
    folder: Path, name: str, secret: str, account: str | None
) -> None:
    """A deployment's selector is immutable; another name would be a second one, without secret and role."""
    deployment = read(folder / "deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    (mounted,) = (one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one)

    assert deployment["metadata"]["name"] == name
    assert deployment["spec"]["selector"] == {"matchLabels": {"app.kubernetes.io/name": name}}
    assert mounted == secret == read(folder / "secret.example.yaml")["metadata"]["name"]
    assert account is None or pod["serviceAccountName"] == account


def test_chart_and_examples_may_be_in_one_namespace() -> None:
    """As docs/container.md has them: none has a name of another's, and no selector takes another's pods.

    But for that of the deployment, which cannot be changed any more: the owner decides whose pods are whose.
    """
    page = (TOP / "docs" / "container.md").read_text()
    (release,) = re.findall(r"^    helm .* install (\S+) ", page, re.MULTILINE)
    pods = {
        "chart": {"app.kubernetes.io/name": "headrace", "app.kubernetes.io/instance": release},
        "ingester": read(KUBERNETES / "deployment.yaml")["spec"]["template"]["metadata"]["labels"],
        "worker": read(KUBERNETES / "worker" / "deployment.yaml")["spec"]["template"]["metadata"]["labels"],
    }
    secrets = set(re.findall(r"create secret generic (\S+)|^secret: (\S+)$", page, re.MULTILINE))
    assert secrets == {(release, ""), ("", release)}
    named = {"chart": {release, f"{release}-connectors"}, "ingester": set(), "worker": set()}
    for manifest in MANIFESTS:
        whose = "worker" if manifest.parent.name == "worker" else "ingester"
        document = read(manifest)
        named[whose].add(document["metadata"]["name"])
        spec = document.get("spec", {})
        selector = spec.get("podSelector", spec.get("selector", {}))
        labels = selector.get("matchLabels", selector)
        taken = {other for other, pod in pods.items() if labels and labels.items() <= pod.items()}
        may_be = {whose, "chart"} if document["kind"] == "Deployment" and whose == "ingester" else {whose}
        assert taken <= may_be, manifest

    assert not named["chart"] & named["ingester"]
    assert not named["chart"] & named["worker"]
    assert not named["ingester"] & named["worker"]


@pytest.mark.parametrize(
    ("example", "admitted"),
    [(".", {8085: "monitoring"}), ("worker", {8083: "headrace-worker", 8085: "monitoring"})],
)
def test_the_network_policy_admits_to_each_port_whom_it_is_for(
    example: str, admitted: dict[int, str]
) -> None:
    """Passwords are plain on one, and the other has no log-in."""
    container = read(KUBERNETES / example / "deployment.yaml")["spec"]["template"]["spec"]["containers"][0]
    policy = read(KUBERNETES / example / "network-policy.yaml")["spec"]
    found = {}
    for rule in policy["ingress"]:
        (port,), (peer,) = rule["ports"], rule["from"]
        ((kind, selector),) = peer.items()
        label = "kubernetes.io/metadata.name" if kind == "namespaceSelector" else "app.kubernetes.io/name"
        found[port["port"]] = selector["matchLabels"][label]

    assert policy["policyTypes"] == ["Ingress"]
    assert found == admitted
    assert set(found) == {port["containerPort"] for port in container["ports"]}


def test_the_role_of_each_pod_is_that_of_its_service_account() -> None:
    """Pods of the default account would have the rights of all; where to name a role is shown."""
    for folder in (KUBERNETES, WORKER):
        account = read(folder / "service-account.yaml")["metadata"]
        pod = read(folder / "deployment.yaml")["spec"]["template"]["spec"]

        assert pod["serviceAccountName"] == account["name"]
        assert "eks.amazonaws.com/role-arn: arn:" in (folder / "service-account.yaml").read_text()


def test_the_workers_account_has_no_role_that_is_not_there() -> None:
    """STS refuses it, and the chain does not ask for the node's role or Pod Identity after that."""
    assert "annotations" not in read(WORKER / "service-account.yaml")["metadata"]


def test_the_page_on_aws_names_the_accounts_that_are_there() -> None:
    """In associations and trust policies: one of another name gives no rights, and says nothing."""
    page = (TOP / "docs" / "aws.md").read_text()
    accounts = {
        folder: read(folder / "service-account.yaml")["metadata"]["name"] for folder in (KUBERNETES, WORKER)
    }

    named = re.findall(r"--service-account (\S+)|system:serviceaccount:\w+:([\w-]+)", page)
    assert {one or other for one, other in named} == {accounts[KUBERNETES]}
    assert len(named) == 2
    assert f"[deploy/kubernetes](container.md#kubernetes) that is `{accounts[KUBERNETES]}`" in page
    assert f"[deploy/kubernetes/worker](worker.md) `{accounts[WORKER]}`" in page


def test_the_page_on_aws_pushes_to_a_repository_that_it_made() -> None:
    """After a log-in to it; ECR makes none by a push. What was made is removed in the end."""
    page = (TOP / "docs" / "aws.md").read_text()
    (pushed,) = re.findall(r"^    docker push (\S+)/([\w-]+):", page, re.MULTILINE)
    done = [
        f"ecr create-repository .* {pushed[1]}",
        f"docker login .* {pushed[0]}",
        "docker push",
        "delete-repository",
    ]
    found = [re.search(f"{one}", page) for one in done]

    places = [one.start() for one in found if one]
    assert len(places) == len(done)
    assert places == sorted(places)


MANIFESTS = sorted(path for path in KUBERNETES.rglob("*.yaml") if path.stem != "kustomization")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_the_api_of_kubernetes_takes_it(manifest: Path, version: str) -> None:
    """By the API's own schemas, of an old version and a new one; a misspelt field is refused."""
    document = read(manifest)

    kubernetes_validate.validate(document, version, strict=True)

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document | {"misspelt": {}}, version, strict=True)


def test_compose_is_what_its_specification_has() -> None:
    """By a parser of the specification; a misspelt key is refused."""
    from compose_spec import PyCompose  # here, as every xdist worker imports this module

    document = read(TOP / "compose.yaml")

    parsed = PyCompose.from_json(json.dumps(document))

    parsed.validate()
    assert set(parsed.service_names()) == set(document["services"])
    document["services"]["headrace"]["read_onyl"] = True
    with pytest.raises(ValueError, match="read_onyl"):
        PyCompose.from_json(json.dumps(document))


def test_a_leader_and_a_standby_that_may_take_their_time_to_stop(deployment: Any) -> None:
    """45 s for the clean stop of 30; a new one is ready before an old one goes."""
    spec = deployment["spec"]
    pod = spec["template"]["spec"]

    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert pod["terminationGracePeriodSeconds"] == 45
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_nothing_is_allowed_that_is_not_needed(deployment: Any) -> None:
    """Not root, nothing gained, a root file system that cannot be written, and bounds."""
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (10001, 10001)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"].keys() == {"cpu", "memory"}
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/tmp", "/var/lib/headrace"}  # noqa: S108 - the image's two writable folders
    assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


def test_probes_ask_what_headrace_answers(deployment: Any) -> None:
    """Live for a restart, ready for traffic; on the port that the configuration listens on."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    routes = endpoints(
        SnapshotHolder(Snapshot(name="n", version="v")), Metrics(dict), ProcessMetrics("source")
    )
    asked = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}

    assert {probe: get["path"] for probe, get in asked.items()} == {
        "startup": "/health/live",
        "liveness": "/health/live",
        "readiness": "/health/ready",
    }
    assert {get["path"] for get in asked.values()} <= routes.keys()
    assert {get["port"] for get in asked.values()} == {port["name"]}
    listen = json.loads((KUBERNETES / "headrace.json").read_text())["http.listen"]
    assert listen == f"0.0.0.0:{port['containerPort']}"


def test_the_configuration_gets_its_secrets_from_where_the_deployment_puts_them(deployment: Any) -> None:
    """`${env:..}` by way of secretKeyRef, `${file:..}` by way of the mounted file."""
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environment = {
        entry["name"]: secret()[entry["valueFrom"]["secretKeyRef"]["key"]] for entry in container["env"]
    }
    (volume,) = [one for one in pod["volumes"] if one["name"] == "secret"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "secret"]
    files = {
        f"{mount['mountPath']}/{item['path']}": secret()[item["key"]] for item in volume["secret"]["items"]
    }
    (config,) = [one for one in container["volumeMounts"] if one["name"] == "config"]

    found = settings(KUBERNETES / "headrace.json", environment=environment, files=files)

    assert found.warnings == ()
    assert container["args"] == ["run", config["mountPath"]]
    # Memory: the driver and its JVM, and 400 MiB for each slot.
    assert found.identity.tasks_max == 2
    assert "change-me" not in repr(found)
    assert found.kafka.client("producer")["sasl.password"] == "change-me"


def test_compose_runs_headrace_as_the_image_is_meant_to_run(compose: Any) -> None:
    """Read-only, without capabilities, 45 s to stop, seen from this machine only."""
    headrace = compose["services"]["headrace"]

    assert headrace["read_only"] is True
    assert headrace["cap_drop"] == ["ALL"]
    assert headrace["stop_grace_period"] == "45s"
    assert [folder.split(":")[0] for folder in headrace["tmpfs"]] == ["/tmp"]  # noqa: S108 - in the container
    assert {volume.split(":")[1] for volume in headrace["volumes"]} == {
        "/var/lib/headrace",
        "/etc/headrace/headrace.json",
    }
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (TOP / source).is_file(), source


def test_compose_starts_again_what_ends(compose: Any) -> None:
    """But for setup, which is done once."""
    services = dict(compose["services"])

    assert services.pop("setup")["restart"] == "no"
    assert {one["restart"] for one in services.values()} == {"unless-stopped"}


def test_the_worker_of_compose_reads_its_file_and_runs_the_connector_beside_it(compose: Any) -> None:
    """Beyond loopback, so with a password file, which is made where the worker may write."""
    worker = compose["services"]["worker"]
    found = read_worker((COMPOSE / "worker.json").read_text(), is_json=True, environment={}, read_file=str)
    created = json.loads((COMPOSE / "archive.json").read_text())
    config = {**created["config"], "name": created["name"]}
    sink = load(json.dumps(config), kind="json", environment={}, read_file=str, worker_config=found.text)

    assert worker["profiles"] == ["worker"]
    assert found.warnings == sink.warnings == ()
    assert f"> {found.frame.http.rest_auth_file} " in worker["entrypoint"][2]
    assert worker["command"] == ["worker", "/etc/headrace/worker.json"]
    assert {port.split(":", 1)[1] for port in worker["ports"]} == {"8083:8083", "8086:8085"}
    assert f"s3://{sink.s3.bucket}" in (COMPOSE / "make-bucket").read_text()


def test_compose_starts_things_in_their_order(compose: Any) -> None:
    """Broker and bucket, then setup, then Headrace."""
    services = compose["services"]

    assert services["headrace"]["depends_on"] == {"setup": {"condition": "service_completed_successfully"}}
    assert services["setup"]["depends_on"].keys() == {"kafka", "localstack"}
    assert services["setup"]["command"] == ["setup", "/etc/headrace/headrace.json"]
    for name in ("kafka", "localstack"):
        assert services[name]["healthcheck"]["test"][0] == "CMD"
        assert ":" in services[name]["image"], "an image without a tag is another one tomorrow"


def test_the_configuration_of_compose_names_its_services(compose: Any) -> None:
    """Every host in it is a service, on a port that this service listens on inside."""
    found = settings(COMPOSE / "headrace.json", environment={}, files={})
    kafka = compose["services"]["kafka"]["environment"]

    assert f"INSIDE://{found.kafka.bootstrap_servers}" in kafka["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert (
        found.s3.endpoint == f"http://{compose['services']['localstack']['environment']['LOCALSTACK_HOST']}"
    )
    assert f"s3://{found.s3.bucket}" in (COMPOSE / "make-bucket").read_text()
    assert found.warnings == ()
