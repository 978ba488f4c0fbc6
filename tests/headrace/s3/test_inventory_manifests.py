"""The manifests of `initial.inventory` in a bucket: what is missing, refused or changed is one sentence."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.formats.inventory_manifest import InventoryRefused, Manifest
from headrace.model.errors import SourceUnavailable
from headrace.options.settings import BackoffSettings
from headrace.s3 import S3Calls
from headrace.s3.inventory_manifests import read_manifests, unread_files
from ingest.checks.findings.finding import Finding, Verdict
from ingest.checks.probes.bucket_keys import InventoryFacts, inventory_findings, probe_inventories
from tests.ingest.checks.findings.configured import configured
from tests.support.inventory import KEY, Inventory, InventoryRow, inventory
from tests.support.listening import service_error

CHECKSUM = KEY.replace("json", "checksum")


class _Client:
    """boto3's S3 over an inventory; `errors` are what GET and HEAD of a key answer instead."""

    def __init__(self, made: Inventory, **errors: ClientError) -> None:
        self._made = made
        self.errors: dict[str, ClientError] = dict(errors)

    def get_object(self, **given: Any) -> Any:
        """The whole object."""
        body = self._body("GetObject", "NoSuchKey", given)
        return {"Body": io.BytesIO(body)}

    def head_object(self, **given: Any) -> Any:
        """Its size."""
        body = self._body("HeadObject", "404", given)
        when = datetime(2026, 1, 31, tzinfo=UTC)
        return {"ETag": '"e"', "ContentLength": len(body), "LastModified": when}

    def _body(self, operation: str, missing: str, given: Any) -> bytes:
        if given["Bucket"] != self._made.bucket:
            raise service_error("NoSuchBucket", 404, operation)
        if (error := self.errors.get(given["Key"])) is not None:
            raise error
        if given["Key"] not in self._made.objects:
            raise service_error(missing, 404, operation)
        return self._made.objects[given["Key"]]


def _calls(client: _Client) -> S3Calls:
    backoff = BackoffSettings(delay_ms=1, max_delay_ms=1, max_retries=1)
    return S3Calls(client, backoff=backoff, requester_pays=False)


def _read(made: Inventory, client: _Client, url: str | None = None) -> tuple[Manifest, ...]:
    return read_manifests(_calls(client), [url or made.url], buckets=("bucket",))


def test_a_manifest_that_is_complete() -> None:
    """With the checksum beside it; and its files are there."""
    made = inventory("bucket", [[InventoryRow(key="a")], []])
    (manifest,) = _read(made, _Client(made))
    assert [file.key for file in manifest.files] == made.files
    assert list(unread_files(_calls(_Client(made)), manifest)) == []


def test_one_that_is_not_complete() -> None:
    """S3 writes the checksum last."""
    made = inventory("bucket", [])
    del made.objects[CHECKSUM]
    with pytest.raises(InventoryRefused, match=r"there is no manifest\.checksum next to it.*Wait for it, or"):
        _read(made, _Client(made))


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("s3://elsewhere/manifest.json", "there is no such bucket"),
        ("s3://inventories/other/manifest.json", "there is no such object"),
    ],
)
def test_an_address_of_nothing(url: str, sentence: str) -> None:
    """Bucket or key."""
    made = inventory("bucket", [])
    with pytest.raises(InventoryRefused, match=sentence):
        _read(made, _Client(made), url)


@pytest.mark.parametrize("key", [KEY, CHECKSUM])
def test_one_that_may_not_be_read(key: str) -> None:
    """The permissions are named, that of KMS too."""
    made = inventory("bucket", [])
    client = _Client(made)
    client.errors[key] = service_error("AccessDenied", 403, "GetObject")
    with pytest.raises(InventoryRefused) as refused:
        _read(made, client)
    assert "S3 refuses it to these credentials" in str(refused.value)
    assert "Allow s3:GetObject on s3://inventories/inventories/in/daily/*, and kms:Decrypt" in str(
        refused.value
    )


def test_an_s3_that_is_away_is_no_fault_of_the_inventory() -> None:
    """After the retries of one call."""
    made = inventory("bucket", [])
    client = _Client(made)
    client.errors[KEY] = service_error("SlowDown", 503, "GetObject")
    with pytest.raises(SourceUnavailable):
        _read(made, client)


def _spoilt(made: Inventory) -> Iterator[tuple[_Client, str]]:
    """Clients whose first file is not as the manifest says, and what is said of it."""
    gone = inventory("bucket", [[InventoryRow(key="a")], []])
    del gone.objects[made.files[0]]
    yield _Client(gone), "is not in s3://inventories"
    short = inventory("bucket", [[InventoryRow(key="a")], []])
    short.objects[made.files[0]] = b""
    yield _Client(short), "does not have the size"
    denied = _Client(made)
    denied.errors[made.files[0]] = service_error("403", 403, "HeadObject")
    yield denied, "cannot be read: S3 refuses it"


def test_files_that_are_not_as_the_manifest_says() -> None:
    """By HEAD, before anything starts."""
    made = inventory("bucket", [[InventoryRow(key="a")], []])
    for client, sentence in _spoilt(made):
        (manifest,) = _read(made, client)
        (problem,) = unread_files(_calls(client), manifest)
        assert sentence in str(problem)
        assert made.files[0] in str(problem)


def _findings(client: _Client, url: str, *, has_begun: bool) -> list[Finding]:
    facts = probe_inventories(client, configured(), [url])
    return list(inventory_findings(facts, has_begun=has_begun))


def test_check_says_what_there_is_and_what_is_wrong() -> None:
    """A failure before the first start, a warning once it may be over."""
    made = inventory("bucket", [[InventoryRow(key="a")], []])
    (fine,) = _findings(_Client(made), made.url, has_begun=False)
    assert (fine.verdict, fine.sentence.split(" (")[0]) == (
        Verdict.OK,
        "the inventory of s3://bucket from 2026-01-31T12:00:00Z: 2 files of CSV",
    )
    for client, sentence in _spoilt(made):
        (first,) = _findings(client, made.url, has_begun=False)
        assert first.verdict is Verdict.FAIL
        assert sentence in first.sentence
        (later,) = _findings(client, made.url, has_begun=True)
        assert later.verdict is Verdict.WARN
        assert "can be removed" in (later.remedy or "")
    client = _Client(made)
    client.errors[KEY] = service_error("SlowDown", 503, "GetObject")
    (away,) = _findings(client, made.url, has_begun=True)
    assert (away.verdict, away.exit.value) == (Verdict.FAIL, 3)


def test_plan_shows_counts_or_the_problem() -> None:
    """In JSON and in a line."""
    made = inventory("bucket", [[InventoryRow(key="a")], []], form="Parquet")
    (found,) = probe_inventories(_Client(made), configured(), [made.url])
    assert found.as_dict() | {"bytes": None} == {
        "manifest": made.url,
        "created": "2026-01-31T12:00:00Z",
        "format": "Parquet",
        "files": 2,
        "bytes": None,
        "problem": None,
    }
    assert found.line.startswith("the next start takes objects first from the inventory of s3://bucket")
    other: list[InventoryFacts] = probe_inventories(
        _Client(made), configured(), ["s3://inventories/manifest.json"]
    )
    assert other[0].as_dict()["files"] is None
    assert "there is no such object" in other[0].line
