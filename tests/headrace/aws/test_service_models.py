"""Clients share botocore's descriptions, and none but those of their own AWS_DATA_PATH."""

import json
import shutil
from pathlib import Path
from typing import Any

import botocore
import botocore.session
import pytest
from aiobotocore.session import AioSession

from headrace.aws.aws_credentials import SERVICES, load_service_models, share_service_models


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of descriptions that are read from now on."""
    read: list[str] = []
    load = botocore.loaders.JSONFileLoader.load_file

    def load_file(self: Any, path: str) -> Any:
        found = load(self, path)
        # Additions to each description are looked for, and are not there.
        if found is not None:
            read.append(path)
        return found

    monkeypatch.setattr(botocore.loaders.JSONFileLoader, "load_file", load_file)
    return read


def _session(make: Any = botocore.session.get_session) -> Any:
    session = make()
    share_service_models(session)
    return session


def _client(service: str) -> Any:
    return _session().create_client(
        service, region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b"
    )


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_loaded_is_all_that_a_client_needs(service: str, files: list[str]) -> None:
    """And nothing is read by it."""
    load_service_models(botocore.session.get_session())
    files.clear()

    client = _client(service)

    assert client.meta.service_model.service_name == service
    assert files == []


def test_a_session_of_aiobotocore_has_the_same_ones() -> None:
    """One loader for both kinds."""
    of_both = [
        _session(make).get_component("data_loader") for make in (botocore.session.get_session, AioSession)
    ]

    assert of_both[0] is of_both[1]


def test_descriptions_of_another_path_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a store that is not AWS's would have its own put there."""
    known = _client("sqs").meta.service_model.metadata["serviceFullName"]
    versions = tmp_path / "sqs"
    shutil.copytree(Path(botocore.__file__).parent / "data" / "sqs", versions)
    path = next(versions.glob("*")) / "service-2.json"
    (path.parent / "service-2.json.gz").unlink(missing_ok=True)
    described = json.loads(
        json.dumps(_session().get_component("data_loader").load_service_model("sqs", "service-2"))
    )
    described["metadata"]["serviceFullName"] = "Another Queue"
    path.write_text(json.dumps(described))
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))

    of_another = _client("sqs").meta.service_model.metadata["serviceFullName"]

    monkeypatch.delenv("AWS_DATA_PATH")
    assert of_another == "Another Queue"
    assert _client("sqs").meta.service_model.metadata["serviceFullName"] == known
