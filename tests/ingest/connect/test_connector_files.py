"""Connectors as files: taken up as they come, change and go; a broken one is a connector with a problem."""

import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.kafka.control_records import ConnectorRecord, encode
from headrace.options import SettingsError
from ingest.connect.connector_loading import Loading
from ingest.connect.worker_settings import ConnectorFiles
from tests.ingest.connect.test_worker_changes import SOURCE, load_text, worker_settings


def test_files_are_connectors_by_their_name(tmp_path: Path) -> None:
    """Both kinds; what is no configuration is passed over; a file without a name has that of the file."""
    (tmp_path / "a.json").write_text('{"name": "orders", "config": {"topic": "t"}}')
    (tmp_path / "b.properties").write_text("topics=t\n")
    (tmp_path / "notes.txt").write_text("no connector")
    files = ConnectorFiles(tmp_path)
    found = files.records()

    assert {name: record.config for name, record in found.items()} == {
        "orders": {"name": "orders", "topic": "t"},
        "b": {"name": "b", "topics": "t"},
    }
    assert files.records() is found
    (tmp_path / "b.properties").unlink()
    (tmp_path / "a.json").write_text('{"name": "orders", "topic": "other"}')
    assert {name: record.config["topic"] for name, record in files.records().items()} == {"orders": "other"}


def test_what_is_wrong_with_a_file_is_its_connectors_problem(tmp_path: Path) -> None:
    """The others run; two files of one name are a problem of both."""
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "one.json").write_text('{"name": "same"}')
    (tmp_path / "two.json").write_text('{"name": "same"}')
    (tmp_path / "good.json").write_text('{"name": "good"}')
    found = ConnectorFiles(tmp_path).records()

    assert sorted(found) == ["broken", "good", "same"]
    assert found["good"].problem is None
    assert "broken.json cannot be read" in str(found["broken"].problem)
    assert "several files" in str(found["same"].problem)


@pytest.mark.parametrize(
    ("file", "text", "shown"),
    [
        (b"gr\xf6\xdfe.json", "{}", "gr\\udcf6\\udcdfe"),
        (b"gr\xf6\xdfe.json", '{"name": "a\\ud800"}', "gr\\udcf6\\udcdfe"),
        (b"half.json", '{"name": "a\\ud800"}', "half"),
        (b"gr\xf6\xdfe.json", "{", "gr\\udcf6\\udcdfe"),
    ],
)
def test_a_name_that_cannot_be_written_is_its_connectors_problem(
    tmp_path: Path, file: bytes, text: str, shown: str
) -> None:
    """As a file from a machine with another encoding has it: who leads writes the names of all."""
    (tmp_path / "good.json").write_text("{}")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + file)).write_text(text)
    files = ConnectorFiles(tmp_path)
    for _ in range(2):
        found = files.records()
        assert sorted(found) == sorted(["good", shown])
        assert found["good"].problem is None
        assert "json cannot be read: " in str(found[shown].problem)
        for record in found.values():
            encode(record)


def test_a_file_of_any_name_may_name_its_connector(tmp_path: Path) -> None:
    """Only what is not said is taken from the file's name."""
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/gr\xf6\xdfe.json")).write_text('{"name": "sizes"}')
    assert {name: one.problem for name, one in ConnectorFiles(tmp_path).records().items()} == {"sizes": None}


def test_a_folder_that_is_away_changes_nothing(tmp_path: Path) -> None:
    """As a mount may be for a moment."""
    folder = tmp_path / "connectors"
    folder.mkdir()
    (folder / "a.json").write_text("{}")
    files = ConnectorFiles(folder)
    assert sorted(files.records()) == ["a"]
    (folder / "a.json").unlink()
    folder.rmdir()

    assert sorted(files.records()) == ["a"]


def test_a_file_that_cannot_be_read_for_a_moment_is_what_it_was(tmp_path: Path) -> None:
    """Its connector goes on; one that was never read says so, and is read as soon as it can be."""
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    file.write_text('{"name": "orders", "topic": "t"}')
    files = ConnectorFiles(tmp_path)
    before = files.records()
    for path in (file, other):
        path.unlink(missing_ok=True)
        # Read by nobody, whatever the rights of who runs the test.
        path.mkdir()

    found = files.records()
    assert found["orders"] == before["orders"]
    assert "b.json cannot be read" in str(found["b"].problem)

    for path in (file, other):
        path.rmdir()
        path.write_text(f'{{"name": "{path.stem}"}}')
    assert sorted(files.records()) == ["a", "b"]
    assert files.records()["b"].problem is None


def test_one_file_that_is_away_leaves_the_others_what_they_are(tmp_path: Path) -> None:
    """Editors leave links that lead nowhere; what is added and removed at the same time counts."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text("{}")
    files = ConnectorFiles(tmp_path)
    assert (sorted(files.records()), files.problem) == (["a", "b"], None)

    (tmp_path / ".#a.json").symlink_to("ann@host.4711:1790000000")
    (tmp_path / "b.json").unlink()
    (tmp_path / "c.json").write_text("{}")
    assert (sorted(files.records()), files.problem) == (["a", "c"], None)

    for name in ("a", "d"):
        (tmp_path / f"{name}.json").unlink(missing_ok=True)
        (tmp_path / f"{name}.json").symlink_to(f"{name}-gone")
    for found in (files, ConnectorFiles(tmp_path)):
        problems = {name: one.problem for name, one in found.records().items()}
        assert sorted(problems) == ["a", "c", "d"]
        assert problems["c"] is None
        assert "d.json cannot be read: [Errno 2]" in str(problems["d"])
        assert "a.json" in str(found.problem)
        assert "d.json" in str(found.problem)
        # One that was read before runs as it did.
        assert (problems["a"] is None) is (found is files)

    for name in ("a", "d"):
        (tmp_path / f"{name}.json").unlink()
    assert (sorted(files.records()), files.problem) == (["c"], None)


def test_a_folder_that_comes_back_is_no_problem_any_more(tmp_path: Path) -> None:
    """Though nothing in it has changed."""
    folder, away = tmp_path / "connectors", tmp_path / "away"
    folder.mkdir()
    (folder / "a.json").write_text("{}")
    files = ConnectorFiles(folder)
    files.records()
    folder.rename(away)
    assert (sorted(files.records()), "connectors" in str(files.problem)) == (["a"], True)
    away.rename(folder)
    assert (sorted(files.records()), files.problem) == (["a"], None)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"spark.executor.memory": "8g"}, ["spark.executor.memory: is the worker's"]),
        ({"spark.master": "spark://big:7077", "http.listen": ":1"}, ["spark.master", "http.listen"]),
        ({"rest.listen": "127.0.0.1:9", "instance.id": "one"}, ["rest.listen", "instance.id"]),
        ({"state.dir": "/elsewhere"}, ["state.dir: is the worker's"]),
        ({"name": "worker-group"}, ["the workers' own group"]),
        ({"aws.secret.access.key": "[hidden]"}, ["no value to keep"]),
        ({"spark.ui.port": "1", "poll.interval.ms": "soon"}, ["spark.ui.port", "poll.interval.ms"]),
    ],
)
def test_what_is_the_workers_is_an_error_of_a_file_too(
    tmp_path: Path, config: dict[str, str], said: list[str]
) -> None:
    """It would do nothing, or take the workers' own lead; all of it at once, as over REST."""
    (tmp_path / "a.json").write_text(json.dumps({**SOURCE, **config}))
    (record,) = ConnectorFiles(tmp_path).records().values()
    with pytest.raises(SettingsError) as raised:
        Loading(worker_settings(), load_text)(record)

    for sentence in said:
        assert sentence in str(raised.value)


def test_a_stored_connector_with_a_folder_of_its_own_runs_with_the_workers() -> None:
    """Earlier versions took it over REST: what it loses is a cache, and a warning says so."""
    settings = worker_settings()
    record = ConnectorRecord(
        name="a", config={**SOURCE, "name": "a", "state.dir": "/elsewhere"}, at_ms=1, created_ms=1
    )
    found = Loading(settings, load_text)(record)

    assert found.state_dir == settings.frame.state_dir
    assert [one for one in found.warnings if one.startswith("state.dir of this connector")]


def test_a_file_that_breaks_is_still_of_its_connector(tmp_path: Path) -> None:
    """That one has failed: it is not removed, and none of the file's own name appears."""
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    file.write_text('{"name": "orders", "topic": "t"}')
    files = ConnectorFiles(tmp_path)
    files.records()
    for broken in ("{", '{"name": "orders",'):
        file.write_text(broken)
        (record,) = files.records().values()
        assert (record.name, record.config) == ("orders", {"name": "orders"})
        assert "a.json cannot be read" in str(record.problem)

    # It has moved to another file.
    other.write_text('{"name": "orders", "topic": "t"}')
    assert {name: one.problem is None for name, one in files.records().items()} == {
        "a": False,
        "orders": True,
    }
    other.unlink()
    file.write_text('{"name": "bills", "topic": "t"}')
    assert {name: one.problem for name, one in files.records().items()} == {"bills": None}


def test_files_that_look_like_configurations_and_are_not_read_are_named(tmp_path: Path) -> None:
    """Once, until there are others."""
    for name in ("a.json", "orders.yaml", "D.JSON", "notes.txt", ".hidden.yml"):
        (tmp_path / name).write_text('{"topics": "t"}')
    files = ConnectorFiles(tmp_path)
    with capture_logs() as logs:
        assert set(files.records()) == set(files.records()) == {"a"}
        (tmp_path / "D.JSON").unlink()
        files.records()
    named = [one["files"] for one in logs if one["event"] == "connector_files_not_read"]
    assert named == [["D.JSON", "orders.yaml"], ["orders.yaml"]]


def test_a_pipe_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It is not waited for."""
    os.mkfifo(tmp_path / "pipe.json")
    problem = ConnectorFiles(tmp_path).records()["pipe"].problem
    assert problem is not None
    assert "it is no file" in problem
