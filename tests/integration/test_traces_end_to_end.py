"""Traces of a source that runs on real parts, in a collector that is one."""

from pathlib import Path

import pytest

from tests.support.otlp_receiver import otlp_receiver
from tests.support.run import start_run
from tests.support.service import new_route, rows

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def test_each_object_of_a_source_is_one_trace(tmp_path: Path) -> None:
    """With its steps in their order, its action last."""
    route = new_route(tmp_path)
    for name in ("a", "b", "c"):
        route.upload(f"{name}.jsonl", rows(name, 10))
    route.upload("bad.jsonl", [b"no json"], counts=False)

    with otlp_receiver() as receiver:
        run = start_run(
            route,
            "--until-idle",
            traces__exporter="otlp",
            traces__endpoint=receiver.url,
            post__action="tag:ingested=yes",
        )
        try:
            assert run.process.wait(280) == 5, run.log.read_text()[-2000:]
        finally:
            run.end()

    assert route.account() == (0, 0)
    traces = {trace["ingest"].attributes["aws.s3.key"]: trace for trace in receiver.by_name()}
    assert traces.keys() == {"a.jsonl", "b.jsonl", "c.jsonl", "bad.jsonl"}
    assert traces["bad.jsonl"]["ingest"].error
    for key in ("a.jsonl", "b.jsonl", "c.jsonl"):
        trace = traces[key]
        root = trace["ingest"]
        assert root.attributes["aws.s3.bucket"] == route.bucket
        assert root.attributes["messaging.destination.name"] == route.topic
        assert (root.attributes["headrace.rows"], root.attributes["headrace.outcome"]) == (10, "done")
        steps = [trace[name] for name in ("wait", "read", "commit", "post-action")]
        assert [step.start for step in steps] == sorted(step.start for step in steps)
        assert all(root.start <= step.start <= step.end <= root.end for step in steps)
