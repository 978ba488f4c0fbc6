"""What answers say of an object, and listings that are asked for more than some stores know."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from headrace.aws.store_answers import answered_ms, headed_object, listed_object, showing_restores
from headrace.model.errors import SourceUnavailable

MADE = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("restore", "is_archived"),
    [
        ({}, True),
        ({"Restore": 'ongoing-request="true"'}, True),
        ({"Restore": 'ongoing-request="false", expiry-date="Sat, 07 Feb 2026 00:00:00 GMT"'}, False),
    ],
    ids=["never", "under way", "done"],
)
def test_headers_tell_of_a_restored_copy(restore: dict[str, object], *, is_archived: bool) -> None:
    """The class stays what it was."""
    head = {
        "ETag": '"e"',
        "LastModified": MADE,
        "StorageClass": "DEEP_ARCHIVE",
        "VersionId": "null",
        "ContentLength": 3,
        **restore,
    }
    found = headed_object("b", "k", head | restore)
    assert (found.is_archived, found.version_id, found.id.etag) == (is_archived, None, "e")


HEAD: Final = {"ETag": '"e"', "ContentLength": 3, "LastModified": MADE}
ENTRY: Final = {"Key": "k", "ETag": '"e"', "Size": 3, "LastModified": MADE}


def test_the_answer_of_a_range_tells_the_whole_size() -> None:
    """Its own length is the range's."""
    head = {**HEAD, "ContentLength": 1, "ContentRange": "bytes 0-0/1234"}
    assert headed_object("b", "k", head).size == 1234


@pytest.mark.parametrize(
    ("header", "head"),
    [
        ("ETag", {**HEAD, "ETag": '""'}),
        ("ETag", {name: value for name, value in HEAD.items() if name != "ETag"}),
        ("Content-Length", {name: value for name, value in HEAD.items() if name != "ContentLength"}),
        ("Last-Modified", {name: value for name, value in HEAD.items() if name != "LastModified"}),
        ("Content-Range", {**HEAD, "ContentRange": "bytes 0-0/*"}),
    ],
)
def test_headers_that_lack_one_may_be_mended(header: str, head: dict[str, Any]) -> None:
    """As anything that keeps S3 from answering; the sentence names the header and who leaves it out."""
    with pytest.raises(SourceUnavailable, match=f"s3://b/k was answered without {header}, .* proxy"):
        headed_object("b", "k", head)


@pytest.mark.parametrize("name", [*ENTRY, "an ETag with something in it"])
def test_an_entry_that_lacks_something_may_be_mended(name: str) -> None:
    """It is not left out, and ends nothing."""
    entry = {each: value for each, value in ENTRY.items() if each != name}
    with pytest.raises(SourceUnavailable, match="in a listing was answered without"):
        listed_object("b", entry if name in ENTRY else {**ENTRY, "ETag": '""'})


def test_a_folder_needs_no_etag() -> None:
    """It is not read, and one without ended the listing of all the rest."""
    assert listed_object("b", {**ENTRY, "Key": "in/", "ETag": '""'}).id.key == "in/"

    without = {name: value for name, value in ENTRY.items() if name != "ETag"}
    assert listed_object("b", {**without, "Key": "in/"}).id.key == "in/"


@pytest.mark.parametrize("headers", [{}, {"date": ""}, {"date": "yesterday"}])
def test_a_store_that_tells_no_time_may_be_mended(headers: dict[str, str]) -> None:
    """Without a Date nothing is compared with its clock."""
    with pytest.raises(SourceUnavailable, match=r"s3://b/ was answered without Date, "):
        answered_ms({"ResponseMetadata": {"HTTPHeaders": headers}}, what="s3://b/")


class Store:
    """A store that answers those who ask for restores with this status and code."""

    def __init__(self, status: int, code: str = "X") -> None:
        self.status = status
        self.code = code
        self.asked: list[bool] = []

    def list_objects_v2(self, **arguments: Any) -> Mapping[str, Any]:
        """A page, or the refusal."""
        self.asked.append("OptionalObjectAttributes" in arguments)
        if self.asked[-1] and self.status != 200:
            answer: Any = {"Error": {"Code": self.code}, "ResponseMetadata": {"HTTPStatusCode": self.status}}
            raise ClientError(answer, "ListObjectsV2")
        return {"IsTruncated": False}


@pytest.mark.parametrize(
    ("bucket", "status", "asked"),
    [
        ("plain", 200, [True, True]),
        ("plain", 400, [True, False, False]),
        ("plain", 501, [True, False, False]),
        ("made--use1-az4--x-s3", 200, [False, False]),
    ],
)
def test_a_store_that_shows_no_restores_is_not_asked_again(
    bucket: str, status: int, asked: list[bool]
) -> None:
    """What it shows without is taken; a directory bucket refuses the question."""
    store = Store(status)
    ask = showing_restores(store.list_objects_v2, bucket)
    assert [ask(Bucket=bucket), ask(Bucket=bucket)] == [{"IsTruncated": False}] * 2
    assert store.asked == asked


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "X"),
        (400, "ExpiredToken"),
        (400, "RequestTimeTooSkewed"),
        (400, "RequestTimeout"),
        (400, "ThrottlingException"),
        (400, "InvalidBucketName"),
    ],
)
def test_another_refusal_is_the_answer(status: int, code: str) -> None:
    """It is nobody's lack of knowledge: without the question restored copies would count as archived."""
    store = Store(status, code)
    with pytest.raises(ClientError):
        showing_restores(store.list_objects_v2, "plain")(Bucket="plain")
    assert store.asked == [True]
