"""The Helm chart: values, schema and templates fit together, and Helm itself renders what runs."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # publishes no types
import kubernetes_validate  # type: ignore[import-untyped]  # publishes no types
import pytest
import yaml

from ingest.connect.worker_settings import ConnectorFiles, read_worker

TOP = Path(__file__).parents[2]
CHART = TOP / "deploy" / "helm" / "headrace"
SCHEMA: Any = json.loads((CHART / "values.schema.json").read_text())
VALUES: Any = yaml.safe_load((CHART / "values.yaml").read_text())
TEMPLATES = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
SELECTED = {"app.kubernetes.io/name": "headrace", "app.kubernetes.io/instance": "release"}
POLICY: Any = {
    "enabled": True,
    "restFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    "httpFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 7078}]}],
}
# What people name themselves.
_OPEN = {"worker", "connectors", "requests", "limits", "annotations", "labels", "affinity", "nodeSelector"}


def _check(value: Any, schema: Any, where: str) -> None:
    """That every value of the defaults is one that the schema knows, of a type that it has."""
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert isinstance(value, tuple(types[kind] for kind in kinds)), where
    if "pattern" in schema:
        assert re.search(schema["pattern"], str(value)), where
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name, one in value.items():
            below = known.get(name, schema.get("additionalProperties"))
            assert below, f"{where}.{name} is not in the schema"
            _check(one, below, f"{where}.{name}")


def test_the_defaults_are_what_the_schema_asks_for() -> None:
    """Every value of the one is in the other."""
    _check(VALUES, SCHEMA, "values")

    assert set(SCHEMA["properties"]) - {"global"} == set(VALUES)


def test_the_schema_refuses_what_it_does_not_know() -> None:
    """A misspelt value would be ignored otherwise."""

    def walk(schema: Any, name: str) -> None:
        if schema.get("type") == "object" and name not in _OPEN and "properties" in schema:
            assert schema["additionalProperties"] is False, name
        for below, one in schema.get("properties", {}).items():
            walk(one, below)

    walk(SCHEMA, "")
    assert SCHEMA["additionalProperties"] is False


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [(POLICY, True), ({"enabled": False}, True), ({"httpFrom": [{}]}, False), ({"http": []}, False),
     ({"restFrom": [{"namespaceselector": {}}]}, False)],
)  # fmt: skip
def test_the_schema_takes_whom_a_network_policy_may_name(given: Any, is_taken: bool) -> None:
    """The API would refuse an empty peer, or take it for all of them."""
    policy = SCHEMA["properties"]["networkPolicy"]

    assert jsonschema.Draft7Validator(policy).is_valid(given) == is_taken


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [("orders", True), ("a.b", True), ("_a", True), ("-a", True), ("a" * 200, True), ("a" * 201, False),
     ("a/b", False), ("", False), (".orders", False), (".", False), ("..data", False)],
)  # fmt: skip
def test_the_schema_takes_the_names_of_connectors_that_the_worker_reads(
    tmp_path: Path, name: str, is_taken: bool
) -> None:
    """The file of another would be passed over without a word, as a folder's hidden files are."""
    names = SCHEMA["properties"]["connectors"]["propertyNames"]
    (tmp_path / f"{name.replace('/', '')}.json").write_text(json.dumps({"name": name, "topic": "orders"}))

    assert jsonschema.Draft7Validator(names).is_valid(name) == is_taken
    assert name in ConnectorFiles(tmp_path).records() or not is_taken


def test_the_templates_use_every_value_and_no_other() -> None:
    """One that nothing reads is a promise that nobody keeps."""
    used = {tuple(path.split(".")) for path in re.findall(r"\.Values\.([A-Za-z.]+)", TEMPLATES)}

    for path in used:
        here = VALUES
        for name in path:
            assert name in here, ".".join(path)
            here = here[name]
    for name, value in VALUES.items():
        below = {path[1] for path in used if path[0] == name and len(path) > 1}
        whole = (name,) in used
        assert whole or (isinstance(value, dict) and below == set(value)), name


def test_the_chart_is_of_this_version_and_has_the_alerts() -> None:
    """Its copy of the rules is the file beside it."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    image = (TOP / "Dockerfile").read_text()

    assert chart["version"] == chart["appVersion"] == project["version"]
    assert f'org.opencontainers.image.version="{project["version"]}"' in image
    alerts = TOP / "deploy" / "prometheus" / "alerts.yaml"
    assert (CHART / "files" / "alerts.yaml").read_text() == alerts.read_text()


def test_what_pages_install_is_kept_by_an_upgrade() -> None:
    """`helm upgrade --values` takes the default for what was given by `--set`: the image of a placeholder."""
    pages = {path.name: path.read_text() for path in (TOP / "docs").glob("*.md")}
    lines = [
        (page, line)
        for page, text in pages.items()
        for line in text.splitlines()
        if line.startswith("    helm ")
    ]
    (block,) = re.findall(r"^```yaml\n(image:.*?)^```$", pages["container.md"], re.MULTILINE | re.DOTALL)
    values = yaml.safe_load(block)

    assert {page for page, _ in lines} == {"container.md", "operations.md"}
    assert not [line for _, line in lines if "--set" in line]
    assert jsonschema.Draft7Validator(SCHEMA).is_valid({**VALUES, **values})
    assert set(values["image"]) == {"repository", "tag"}


def _render(*arguments: str) -> "subprocess.CompletedProcess[str]":
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("no helm on PATH: the chart was NOT rendered by Helm itself")
    # A Helm that was built from its module takes the cluster for one of 2020.
    return subprocess.run(
        [helm, "template", "release", str(CHART), "--kube-version", "1.33.0", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def _rendered(*arguments: str) -> dict[tuple[str, str], Any]:
    done = _render(*arguments)
    assert done.returncode == 0, done.stderr
    documents = [one for one in yaml.safe_load_all(done.stdout) if one is not None]
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


def test_the_api_of_kubernetes_takes_what_helm_renders() -> None:
    """By the API's own schemas, with all that can be switched on; Prometheus's own kinds are not in them."""
    found = _rendered(
        *("--set", "podMonitor.enabled=true", "--set", "prometheusRule.enabled=true"),
        *("--set-json", f"networkPolicy={json.dumps(POLICY)}"),
    )
    own = {
        document["kind"] for document in found.values() if document["apiVersion"].startswith("monitoring.")
    }

    assert own == {"PodMonitor", "PrometheusRule"}
    assert ("NetworkPolicy", "release") in found
    for document in found.values():
        if document["kind"] not in own:
            kubernetes_validate.validate(document, "1.37", strict=True)


def test_a_network_policy_is_there_when_it_is_asked_for() -> None:
    """To REST the release's own pods and those that are named, to http.listen the latter alone."""
    assert not any(kind == "NetworkPolicy" for kind, _ in _rendered())
    own = {"podSelector": {"matchLabels": SELECTED}}
    closed = _rendered("--set", "networkPolicy.enabled=true")["NetworkPolicy", "release"]["spec"]
    found = _rendered("--set-json", f"networkPolicy={json.dumps(POLICY)}")["NetworkPolicy", "release"]["spec"]

    assert closed == {
        **own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [own], "ports": [{"protocol": "TCP", "port": 8083}]}],
    }
    assert found["ingress"] == [
        {"from": [own, *POLICY["restFrom"]], "ports": [{"protocol": "TCP", "port": 8083}]},
        {"from": POLICY["httpFrom"], "ports": [{"protocol": "TCP", "port": 8085}]},
        *POLICY["ingress"],
    ]


def test_helm_renders_a_worker_as_the_example_for_kubernetes_has_it() -> None:
    """The same probes, rights and folders; the worker's file is read, and finds its accounts."""
    found = _rendered()
    pod = found["Deployment", "release"]["spec"]["template"]["spec"]
    example = yaml.safe_load((TOP / "deploy" / "kubernetes" / "worker" / "deployment.yaml").read_text())
    theirs = example["spec"]["template"]["spec"]
    (container,), (other,) = pod["containers"], theirs["containers"]

    for name in ("startupProbe", "livenessProbe", "readinessProbe", "securityContext", "ports", "resources"):
        assert container[name] == other[name], name
    for name in ("securityContext", "terminationGracePeriodSeconds", "automountServiceAccountToken"):
        assert pod[name] == theirs[name], name
    assert container["env"] == other["env"]
    settings = read_worker(
        found["ConfigMap", "release"]["data"]["worker.json"],
        is_json=True,
        environment={"POD_IP": "10.1.2.3"},
        read_file=str,
    )
    assert (settings.warnings, settings.advertised_host) == ((), "10.1.2.3")
    accounts = Path(str(settings.frame.http.rest_auth_file))
    assert {one["mountPath"] for one in container["volumeMounts"]} >= {
        str(accounts.parent),
        str(settings.frame.state_dir),
    }
    labels = found["Deployment", "release"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        found["Service", "release"]["spec"]["selector"],
        found["PodDisruptionBudget", "release"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_connectors_are_files_and_numbers_stay_numbers() -> None:
    """A large one is no 1e+07."""
    found = _rendered("--set-json", 'connectors={"orders": {"topic": "o", "rotate.bytes": 10000000}}')
    pod = found["Deployment", "release"]["spec"]["template"]["spec"]

    files = found["ConfigMap", "release-connectors"]["data"]
    assert '"rotate.bytes": 10000000' in files["orders.json"]
    assert json.loads(files["orders.json"])["name"] == "orders"
    assert pod["containers"][0]["args"][2:] == ["--connectors", "/etc/headrace/connectors.d"]


def test_what_prometheus_operator_needs_is_there_when_it_is_asked_for() -> None:
    """The rules whole, and every pod."""
    assert not any(kind == "PodMonitor" for kind, _ in _rendered())
    found = _rendered("--set", "podMonitor.enabled=true,prometheusRule.enabled=true")

    rules = yaml.safe_load((TOP / "deploy" / "prometheus" / "alerts.yaml").read_text())
    assert found["PrometheusRule", "release"]["spec"] == rules
    assert found["PodMonitor", "release"]["spec"]["podMetricsEndpoints"][0]["port"] == "http"


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("replica=3", "replica"),
        ("replicas=0", "replicas"),
        ("image.tags=x", "tags"),
        (r"worker.state\.dir=/x", "state.dir"),
        ("secret=", "secret"),
        (r"connectors.\.orders.topic=orders", ".orders"),
    ],
)
def test_helm_refuses_bad_values(argument: str, said: str) -> None:
    """Before anything is installed, with the value's name."""
    done = _render("--set", argument)

    assert done.returncode != 0
    assert said in done.stderr
