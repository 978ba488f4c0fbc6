"""`check` finds out what `run` would stumble over on this machine, and in the objects themselves."""

import gzip
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from ingest.http.http_server import Response
from ingest.http.snapshot import Snapshot
from ingest.service.endpoints import StatusEndpoints
from localstack.ports import free_port
from tests.ingest.cli.cli_environment import Scene

pytestmark = pytest.mark.parts


def _findings(scene: Scene, *, code: int) -> dict[str, Any]:
    lines = scene.run("check", "--json", code=code).splitlines()
    return {finding["name"]: finding for finding in map(json.loads, lines)}


def _java(folder: Path, version: str | None) -> Path:
    """A JAVA_HOME whose java names this version; None: one without java."""
    command = folder / "bin" / "java"
    command.parent.mkdir()
    if version is not None:
        command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-10-15' >&2\n")
        command.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "words"),
    [(None, "has no bin/java"), ("1.8.0_412", "is 8"), ("11.0.25", "Spark needs Java 17 or later")],
)
def test_without_a_java_that_spark_can_use_nothing_is_ready(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, words: str
) -> None:
    """`run` would wait for Spark in vain; where Spark runs elsewhere none is needed here."""
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path, version)))

    found = _findings(scene, code=2)["java"]
    assert found["verdict"] == "fail"
    assert words in found["sentence"]
    assert "JAVA_HOME" in found["remedy"]

    with socket.create_server(("127.0.0.1", 0)) as server:
        scene.options["spark.remote"] = f"sc://127.0.0.1:{server.getsockname()[1]}"
        assert "java" not in _findings(scene, code=0)


def test_a_cluster_that_is_not_there_is_found_before_the_start(scene: Scene) -> None:
    """`run` would wait for it, and end with 3. One of several masters is enough; a token is not shown."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        there, away = f"127.0.0.1:{server.getsockname()[1]}", f"127.0.0.1:{free_port()}"
        scene.options["spark.master"] = f"spark://{away},{there}"
        assert _findings(scene, code=0)["spark.master"]["verdict"] == "ok"

        scene.options["spark.master"] = f"spark://{away}"
        found = _findings(scene, code=3)["spark.master"]
        assert found["sentence"] == f"{away} cannot be reached (Connection refused)."

        del scene.options["spark.master"]
        scene.options["spark.remote"] = f"sc://{away}/;token=secret"
        found = _findings(scene, code=3)["spark.remote"]
    assert found["sentence"] == f"{away} cannot be reached (Connection refused)."


def test_without_any_java_on_path(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy is to install one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")

    assert "there is no java on PATH" in _findings(scene, code=2)["java"]["sentence"]


def test_the_java_of_this_machine_is_named(scene: Scene) -> None:
    """All is well where the other tests run Spark."""
    found = _findings(scene, code=0)["java"]

    assert found["verdict"] == "ok"
    assert "is Java " in found["sentence"]


@pytest.mark.parametrize("option", ["http.listen", "rest.listen"])
def test_a_taken_address_is_found_before_the_start(scene: Scene, option: str) -> None:
    """`run` would end with 2."""
    # Of those that no client gets: it has to be free again afterwards.
    port = free_port()
    scene.options[option] = f"127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", port)):
        found = _findings(scene, code=2)[option]
    free = _findings(scene, code=0)[option]

    assert "cannot be listened on (Address already in use)" in found["sentence"]
    assert f"set {option} to an empty value" in found["remedy"]
    assert free["verdict"] == "ok"


def test_the_running_service_is_no_stranger_on_its_own_address(scene: Scene) -> None:
    """`check` is run beside it; another ingester there is in the way."""
    name = [scene.name]
    status = {"/status": lambda: Response.of_json(Snapshot(name=name[0], version="1.0.0").as_dict())}
    endpoints = StatusEndpoints("127.0.0.1", 0, status)
    endpoints.start()
    try:
        scene.options["http.listen"] = f"127.0.0.1:{endpoints.port}"
        assert "is this ingester's" in _findings(scene, code=0)["http.listen"]["sentence"]
        name[0] = "another"
        assert _findings(scene, code=2)["http.listen"]["verdict"] == "fail"
    finally:
        endpoints.close()


def test_objects_of_another_format_are_named(scene: Scene) -> None:
    """From the first bytes of real objects, decompressed as far as they go."""
    # More than what is looked at, however well it is compressed.
    rows = b"".join(b'{"a": "%s"}\n' % os.urandom(40).hex().encode() for _ in range(20_000))
    scene.put("in/rows.jsonl.gz", gzip.compress(rows))
    scene.options["input.format"] = "parquet"

    found = _findings(scene, code=2)["format"]
    assert "looks like JSON Lines compressed with gzip" in found["sentence"]
    assert found["remedy"] == "Set input.format=jsonl."

    scene.options["input.format"] = "jsonl"
    assert _findings(scene, code=0)["format"]["verdict"] == "ok"
    scene.put("in/rows.csv", b"id,name\n1,a\n2,b\n")
    warned = _findings(scene, code=0)["format"]
    assert (warned["verdict"], "in/rows.csv" in warned["sentence"]) == ("warn", True)
