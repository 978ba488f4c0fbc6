"""The page's text and policy, without a browser."""

import base64
import hashlib
import json
import re
from http import HTTPStatus

from ingest.http.metrics import Metrics, ProcessMetrics
from ingest.http.page import policy, status_page
from ingest.http.snapshot import Snapshot, SnapshotHolder
from ingest.service.endpoints import endpoints


def test_the_page_is_served_at_the_root() -> None:
    """With what only headers can say: nobody frames it."""
    response = endpoints(
        SnapshotHolder(Snapshot(name="orders", version="1.0.0")), Metrics(dict), ProcessMetrics("source")
    )["/"]()

    assert response.status is HTTPStatus.OK
    assert response.content_type == "text/html; charset=utf-8"
    assert response.body == status_page()
    assert ("X-Frame-Options", "DENY") in response.headers


def test_problems_of_the_process_are_among_those_of_its_connector() -> None:
    """A password file that cannot be read is none of the connector's, and would end a restart."""
    leads = Snapshot(name="orders", version="1.0.0", role="leader", ready=True, problems={"bucket": "403"})
    found: dict[str, str] = {}
    routes = endpoints(SnapshotHolder(leads), Metrics(dict), ProcessMetrics("source"), problems=lambda: found)
    answer = routes["/health/ready"]()
    assert (answer.status, answer.body) == (HTTPStatus.OK, b"ready: leader\n")

    found["rest"] = "rest.auth.file cannot be read"
    answer = routes["/health/ready"]()
    assert answer.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert answer.body == b"not ready: 403; rest.auth.file cannot be read\n"
    shown = json.loads(routes["/status"]().body)
    assert shown["problems"] == {"bucket": "403", "rest": "rest.auth.file cannot be read"}
    assert not shown["ready"]
    assert b"headrace_ready 0.0" in routes["/metrics"]().body


def test_the_policy_names_the_very_script_and_style_that_are_served() -> None:
    """One letter more and neither would run."""
    text = status_page().decode()
    stated = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert stated is not None
    for element in ("script", "style"):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in stated[1]
    assert stated[1].startswith("default-src 'none'; ")
    assert "unsafe" not in stated[1]
    assert "*" not in stated[1]


def test_another_script_is_another_policy() -> None:
    """The hashes are of the content, not of the page's name."""
    assert policy("<script>1</script><style>a</style>") != policy("<script>2</script><style>a</style>")


def test_the_page_needs_nothing_from_elsewhere_and_makes_no_markup_of_data() -> None:
    """It works where the network is closed; text from outside only ever becomes text."""
    text = status_page().decode()

    assert re.findall(r"https?://", text) == []
    assert (
        re.findall(r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|Function)\b", text)
        == []
    )
    # An inline handler or style would have to be allowed by the policy for all.
    assert re.findall(r"\son\w+=|\sstyle=", text.split("<script>")[0]) == []
    assert len(text.encode()) < 40_000
