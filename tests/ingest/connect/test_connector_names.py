"""A connector's name is the name of its ledger and its group: no second connector may come to have it."""

import json
from pathlib import Path

import pytest

from headrace.kafka.control_records import ConnectorRecord, connector_key, encode
from headrace.options import SettingsError
from ingest.connect.connector_loading import Loading
from ingest.connect.worker_settings import ConnectorFiles
from tests.ingest.connect.test_worker_changes import SINK, SOURCE, Worker, load_text, worker_settings


@pytest.mark.parametrize("path", ["uploads%20", "%20uploads", "uploads%0A", "%09uploads", "uploads%E2%80%83"])
@pytest.mark.parametrize("config", [SOURCE, SINK], ids=["a source", "a sink"])
def test_blanks_at_its_ends_make_no_other_connector(path: str, config: dict[str, str]) -> None:
    """It would have the ledger of the one without them, whatever it is."""
    worker = Worker()
    assert worker.ask("POST", "/connectors", {"name": "uploads", "config": SOURCE})[0] == 201
    status, answer = worker.ask("PUT", f"/connectors/{path}/config", config)

    assert (status, "blanks or line ends at its ends" in answer["message"]) == (400, True)
    assert list(worker.records()) == ["uploads"]


@pytest.mark.parametrize("name", ["worker-group", "worker-group ", "\nworker-group"])
def test_the_workers_own_name_is_refused_however_it_is_written(name: str) -> None:
    """Its leadership would be theirs; what is judged is what would be created."""
    worker = Worker()
    escaped = name.replace(" ", "%20").replace("\n", "%0A")
    assert worker.ask("PUT", f"/connectors/{escaped}/config", SINK)[0] == 400
    path = "/connector-plugins/HeadraceSink/config/validate"
    status, judged = worker.ask("PUT", path, {**SINK, "name": name})
    (of_name,) = (one["value"] for one in judged["configs"] if one["value"]["name"] == "name")

    assert status == 200
    assert "is the name of the workers' own group; choose another" in of_name["errors"]


def test_one_that_an_earlier_version_stored_runs_no_more_and_can_be_deleted() -> None:
    """Its ledger is that of the connector without the blank, which stays."""
    worker = Worker()
    assert worker.ask("POST", "/connectors", {"name": "x", "config": SOURCE})[0] == 201
    stored = ConnectorRecord(name="x ", config={**SINK, "name": "x "}, at_ms=0, created_ms=1)
    worker.store.write([(connector_key("x "), encode(stored))])
    with pytest.raises(SettingsError, match="blanks or line ends at its ends"):
        Loading(worker_settings(), load_text)(worker.records()["x "])

    assert worker.ask("DELETE", "/connectors/x%20")[0] == 204
    assert list(worker.records()) == ["x"]


def test_what_is_loaded_under_another_name_is_refused() -> None:
    """However a name is read by then: the record and its settings are of one connector."""
    load = Loading(worker_settings(), lambda config, text: load_text({**config, "name": "other"}, text))
    with pytest.raises(SettingsError, match=r"name = 'x': is read as 'other'"):
        load(ConnectorRecord(name="x", config={**SINK, "name": "x"}, at_ms=0, created_ms=1))


def test_a_files_name_without_its_blanks_is_its_connectors(tmp_path: Path) -> None:
    """As a name that is given: two of one name are found to be so."""
    (tmp_path / "x.json").write_text(json.dumps(SINK))
    (tmp_path / "y .json").write_text(json.dumps(SINK))
    assert list(ConnectorFiles(tmp_path).records()) == ["x", "y"]
    (tmp_path / "x .json").write_text(json.dumps(SINK))
    assert "several files" in str(ConnectorFiles(tmp_path).records()["x"].problem)


def test_a_name_that_is_a_reference_is_what_it_leads_to(tmp_path: Path) -> None:
    """It runs, is one of two files of a name, and is what it was while its reference leads nowhere."""
    settings = worker_settings()
    files = ConnectorFiles(tmp_path, settings.resolved)
    (tmp_path / "a.json").write_text(json.dumps({**SOURCE, "name": "${env:BUCKET}"}))
    (record,) = files.records().values()
    assert (record.name, Loading(settings, load_text)(record).name) == ("bucket", "bucket")

    (tmp_path / "b.json").write_text(json.dumps({**SOURCE, "name": "bucket"}))
    assert "several files" in str(files.records()["bucket"].problem)


def test_a_name_whose_reference_leads_nowhere_is_a_problem_until_it_does(tmp_path: Path) -> None:
    """Of a connector that runs it changes nothing."""
    given = tmp_path / "names.secret"
    files = ConnectorFiles(tmp_path, worker_settings().resolved)
    (tmp_path / "a.json").write_text(json.dumps({**SOURCE, "name": f"${{file:{given}:n}}"}))
    (tmp_path / "b.json").write_text(json.dumps({**SOURCE, "name": "${vault:n}"}))
    found = files.records()
    assert "names.secret cannot be read" in str(found["a"].problem)
    assert "not those of 'vault'" in str(found["b"].problem)

    given.write_text("n=orders\n")
    assert files.records()["orders"].problem is None
    given.unlink()
    (tmp_path / "c.json").write_text(json.dumps(SOURCE))
    assert files.records()["orders"].problem is None
