"""`check` finds what is wrong with files of this machine that `run` would find at its start."""

import socket
from pathlib import Path

import pytest

from headrace.model.errors import Exit
from ingest.checks.findings.finding import Finding, Verdict, machine_findings
from ingest.checks.probes.machine import probe_machine
from ingest.cli.check import lines_of
from tests.headrace.options.loading import load_with
from tests.ingest.checks.findings.configured import configured


def _findings(changes: dict[str, str | None]) -> dict[str, Finding]:
    settings = load_with({"http.listen": "", "spark.master": "local[1]", **changes})
    return {found.name: found for found in machine_findings(probe_machine(settings, {}))}


@pytest.mark.parametrize(
    ("text", "rights", "words"),
    [
        (None, 0o600, "it cannot be read (No such file or directory)"),
        ("", 0o600, "there is no user in it"),
        ("somebody\n", 0o600, "line 1 is not user:password"),
        ("somebody:secret\n", 0o644, "everybody on this machine may read it"),
    ],
)
def test_users_that_cannot_be_read_keep_run_from_starting(
    tmp_path: Path, text: str | None, rights: int, words: str
) -> None:
    """It would end with 2, where `check` was content."""
    users = tmp_path / "users"
    if text is not None:
        users.write_text(text)
        users.chmod(rights)
    found = _findings({"rest.listen": "127.0.0.1:0", "rest.auth.file": str(users)})["rest.auth.file"]

    assert (found.verdict, found.exit) == (Verdict.FAIL, Exit.CONFIGURATION)
    assert words in found.sentence
    assert "secret" not in found.sentence


def test_users_are_not_read_without_an_interface(tmp_path: Path) -> None:
    """As by `run`; with one they are there."""
    users = tmp_path / "users"
    options: dict[str, str | None] = {"rest.auth.file": str(users)}
    assert "rest.auth.file" not in _findings(options)

    users.write_text("somebody:secret\n")
    users.chmod(0o640)
    found = _findings(options | {"rest.listen": "127.0.0.1:0"})["rest.auth.file"]
    assert (found.verdict, found.sentence) == (Verdict.OK, f"{users} has users")


def test_state_that_cannot_be_kept_is_a_warning(tmp_path: Path) -> None:
    """`run` starts, and reads the ledger whole each time."""
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / "state", Path("/proc/nope")):
        found = _findings({"state.dir": str(folder)})["state.dir"]

        assert found.verdict is Verdict.WARN
        assert found.sentence.startswith(f"{folder} cannot be written (")


def test_a_line_names_its_option_once() -> None:
    """The name is in front of the sentence already: `http.listen: http.listen: ..` helps nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = f"127.0.0.1:{server.getsockname()[1]}"
        found = _findings(
            {"http.listen": taken, "spark.master": "spark://127.0.0.1:1", "state.dir": "/proc/x"}
        )

    assert {found[name].verdict for name in ("http.listen", "spark.master")} == {Verdict.FAIL}
    for name in ("http.listen", "spark.master", "state.dir"):
        assert "".join(lines_of(found[name])).count(f"{name}: ") == 1


def test_a_folder_that_is_to_be_made_is_none(tmp_path: Path) -> None:
    """Nothing is made of it yet, nor left where it would be."""
    assert "state.dir" not in _findings({"state.dir": str(tmp_path / "state" / "of")})
    assert not list(tmp_path.iterdir())


_SINK: dict[str, str | None] = {
    "topic": None,
    "topics": "orders",
    "sqs.queue.url": None,
    "file.name.template": None,
    "http.listen": "",
}


def test_a_buffer_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    """Small objects need none of it, and the slots of others stop only once memory is used up."""
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / "buffer", Path("/proc/x")):
        found = _sinks({"buffer.dir": str(folder)}, state=tmp_path)["buffer.dir"]

        assert found.verdict is Verdict.WARN
        assert found.sentence.startswith(f"{folder} cannot be written (")


@pytest.mark.parametrize("master", ["spark://somewhere:7077", "k8s://https://somewhere", "yarn"])
def test_a_buffer_of_other_machines_is_not_looked_for_here(tmp_path: Path, master: str) -> None:
    """Slots run where Spark's executors do; what is there is not known, nor is a folder made here."""
    there = {"buffer.dir": str(tmp_path / "buffer")}
    assert "buffer.dir" not in _sinks(there, state=tmp_path)
    assert "buffer.dir" not in _sinks({"buffer.dir": "/proc/x", "spark.master": master}, state=tmp_path)
    assert not list(tmp_path.iterdir())


def _sinks(changes: dict[str, str], *, state: Path) -> dict[str, Finding]:
    settings = configured({**_SINK, "spark.master": "local[1]", "state.dir": str(state), **changes})
    return {found.name: found for found in machine_findings(probe_machine(settings, {}))}
