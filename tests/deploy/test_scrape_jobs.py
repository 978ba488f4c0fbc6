"""What Prometheus's operator is told: a `job` for each ingester, also of one name in two namespaces."""

import re
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
