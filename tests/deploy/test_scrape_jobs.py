"""Configurations of Prometheus and its operator: each ingester has a `job`, one of each namespace too."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"


def _endpoint(file: Path) -> Any:
    """The one endpoint of the PodMonitor in this file, which may be a template."""
    text = re.sub(r"\{\{-?.*?-?\}\}", "x", file.read_text().partition("\n---\n")[0])
    found = re.search(r"  podMetricsEndpoints:\n((?:    .*\n)+)", text)
    assert found is not None
    (endpoint,) = yaml.safe_load(found[1])
    return endpoint


def _job(endpoint: Any, meta: dict[str, str]) -> str:
    """`job` of a pod of which the operator's discovery says this; rules as Prometheus applies them."""
    labels = dict(meta)
    for rule in endpoint.get("relabelings", ()):
        assert set(rule) == {"sourceLabels", "separator", "targetLabel"}
        found = [labels.get(name, "") for name in rule["sourceLabels"]]
        labels[rule["targetLabel"]] = rule["separator"].join(found)
    return labels["job"]


@pytest.mark.parametrize(
    ("file", "label"),
    [
        pytest.param("prometheus/pod-monitor.yaml", "app_kubernetes_io_name", id="manifest"),
        pytest.param("helm/headrace/templates/monitoring.yaml", "app_kubernetes_io_instance", id="chart"),
    ],
)
def test_an_ingester_of_another_namespace_has_a_job_of_its_own(file: str, label: str) -> None:
    """One that leads would hide another that nobody leads, and both together look like two leaders."""
    endpoint = _endpoint(DEPLOY / file)
    jobs = [
        _job(
            endpoint,
            {
                "__meta_kubernetes_namespace": namespace,
                f"__meta_kubernetes_pod_label_{label}": name,
                "job": name,  # as jobLabel has it
            },
        )
        for namespace in ("staging", "production")
        for name in ("headrace", "headrace-worker")
    ]

    assert jobs == [
        "staging/headrace",
        "staging/headrace-worker",
        "production/headrace",
        "production/headrace-worker",
    ]


def test_the_manifest_leaves_pods_of_the_chart_to_the_charts_own() -> None:
    """They share a label with deploy/kubernetes, and would be under its job and their own."""
    monitor = yaml.safe_load((DEPLOY / "prometheus" / "pod-monitor.yaml").read_text())
    by_name, by_instance = monitor["spec"]["selector"]["matchExpressions"]
    names = {
        yaml.safe_load(file.read_text())["spec"]["template"]["metadata"]["labels"][by_name["key"]]
        for file in (DEPLOY / "kubernetes").rglob("deployment.yaml")
    }

    assert (by_name["operator"], set(by_name["values"])) == ("In", names)
    assert by_instance == {"key": "app.kubernetes.io/instance", "operator": "DoesNotExist"}


CONFIG: Any = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
NAME = "__meta_kubernetes_pod_label_app_kubernetes_io_name"
INSTANCE = "__meta_kubernetes_pod_label_app_kubernetes_io_instance"
POD = {
    "__meta_kubernetes_namespace": "ingest",
    "__meta_kubernetes_pod_annotation_prometheus_io_scrape": "true",
    "__meta_kubernetes_pod_container_port_name": "http",
}


def _relabelled(job: Any, meta: dict[str, str]) -> str | None:
    """`job` of a target by the rules of prometheus.yml, as Prometheus applies them; None: left out."""
    labels: dict[str, str] = {"job": job["job_name"], **meta}
    for rule in job["relabel_configs"]:
        value = rule.get("separator", ";").join(labels.get(name, "") for name in rule["source_labels"])
        found = re.fullmatch(str(rule.get("regex", "(.*)")), value)
        if rule.get("action") == "keep":
            if found is None:
                return None
        elif found is not None:
            labels[rule["target_label"]] = found[1]
    return labels["job"]


@pytest.mark.parametrize(
    ("meta", "job"),
    [
        pytest.param({NAME: "headrace"}, "ingest/headrace", id="ingester"),
        pytest.param({NAME: "headrace-worker"}, "ingest/headrace-worker", id="worker"),
        pytest.param({NAME: "headrace", INSTANCE: "blue"}, "ingest/blue", id="chart"),
        pytest.param({NAME: "grafana", INSTANCE: "blue"}, None, id="another's pod"),
        pytest.param(
            {NAME: "headrace-worker", "__meta_kubernetes_pod_container_port_name": "rest"}, None, id="REST"
        ),
    ],
)
def test_pods_are_found_without_the_operator(meta: dict[str, str], job: str | None) -> None:
    """Each once, under the job that the PodMonitors give it."""
    (pods,) = (one for one in CONFIG["scrape_configs"] if "kubernetes_sd_configs" in one)

    assert _relabelled(pods, {**POD, **meta}) == job


def test_prometheus_itself_takes_the_configuration(tmp_path: Path) -> None:
    """With the rules next to it; Debian's has no discovery of Kubernetes."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH: prometheus.yml was NOT read by Prometheus's own parser")
    (tmp_path / "alerts.yaml").write_text((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    jobs = [
        {name: value for name, value in job.items() if name != "kubernetes_sd_configs"}
        for job in CONFIG["scrape_configs"]
    ]
    file = tmp_path / "prometheus.yml"
    file.write_text(json.dumps({**CONFIG, "scrape_configs": jobs}))

    done = subprocess.run(
        [promtool, "check", "config", str(file)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout
