"""What becomes of a completion that the store refuses: for its parts again, or by an error within a 200."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from headrace.model.errors import AccessDenied
from headrace.model.sink_entries import Upload
from headrace.s3.completion import Claim, Completion, CompletionState
from headrace.s3.upload_calls import new_upload_calls
from tests.headrace.s3.scripted_s3 import BUCKET, error, said, settings
from tests.spark.sink.upload_settings import PLAIN
from tests.support.http_serving import QuietHandler, serving

UPLOAD: Final = Upload(key="k", upload_id="u", parts=('"a"', '"b"'))
PARTS: Final = said(
    b"<ListPartsResult><UploadId>u</UploadId><IsTruncated>false</IsTruncated>"
    b"<Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag><Size>5242880</Size></Part>"
    b"<Part><PartNumber>2</PartNumber><ETag>&quot;b&quot;</ETag><Size>5</Size></Part></ListPartsResult>"
)
COMPLETED: Final = said(b'<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>')
INVALID: Final = error("InvalidPart", 400)
FREE: Final = said(b"", status=404)
MODIFIED: Final = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"
ANOTHERS: Final = said(b"", MODIFIED, "x-amz-meta-headrace-object: another")
TAKEN: Final = Completion(CompletionState.NAME_TAKEN, "another")
OTHER_KEY: Final = said(b"", status=400)
UNPROVEN: Final = Completion(CompletionState.UNPROVEN)


@contextmanager
def store(completions: list[bytes], head: bytes, parts: bytes = PARTS) -> Iterator[str]:
    """The address of a store with the upload, that answers its completions so, HEADs and listings."""
    left = iter(completions)

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def say(self) -> None:
            """What is told for the method."""
            self.body()
            said = {"POST": lambda: next(left), "GET": lambda: parts, "HEAD": lambda: head}
            self.wfile.write(said[self.command]())

        do_GET = do_POST = do_HEAD = say

    with serving(Handler) as url:
        yield url


@pytest.mark.parametrize(
    ("completions", "head", "found"),
    [
        ([INVALID, COMPLETED], FREE, Completion(CompletionState.COMPLETED)),
        ([INVALID, INVALID], FREE, Completion(CompletionState.PARTS_DIFFER)),
        ([INVALID, INVALID], ANOTHERS, Completion(CompletionState.PARTS_DIFFER)),
        ([error("PreconditionFailed", 412)], ANOTHERS, TAKEN),
        ([error("PreconditionFailed", 200)], ANOTHERS, TAKEN),
        ([INVALID, error("PreconditionFailed", 200)], ANOTHERS, TAKEN),
        ([error("PreconditionFailed", 412)], OTHER_KEY, UNPROVEN),
        ([error("NotImplemented", 501)], OTHER_KEY, UNPROVEN),
    ],
    ids=[
        "once",
        "twice",
        "twice, under a name that is taken",
        "412",
        "412 in a 200",
        "parts, then 412",
        "under another key",
        "under another key, without conditions",
    ],
)
def test_a_refused_completion(completions: list[bytes], head: bytes, found: Completion) -> None:
    """A store that takes the parts in no way says nothing of the name, and a condition has its code.

    To a HEAD of what is encrypted with another key (SSE-C), S3 says no more than 400.
    """
    with store(completions, head) as url:
        assert new_upload_calls(settings(url), PLAIN).complete(BUCKET, UPLOAD, object_id="ours") == found


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId"])
def test_a_look_by_credentials_that_are_not_valid(code: str) -> None:
    """Without conditions the first answer is a HEAD's, which is 400 for them, too: of any object."""
    unknown = [error("NotImplemented", 501)]
    with store(unknown, OTHER_KEY, error(code, 400)) as url, pytest.raises(AccessDenied, match=code):
        new_upload_calls(settings(url), PLAIN).complete(BUCKET, UPLOAD, object_id="ours")


def test_a_look_where_parts_may_not_be_listed() -> None:
    """That right is not needed for it: the credentials are valid."""
    unknown = [error("NotImplemented", 501)]
    with store(unknown, OTHER_KEY, error("AccessDenied", 403)) as url:
        calls = new_upload_calls(settings(url), PLAIN)
        assert calls.complete(BUCKET, UPLOAD, object_id="ours") == UNPROVEN


HEADS: Final = pytest.mark.parametrize(
    "head", [said(b"", status=403), OTHER_KEY], ids=["forbidden", "another key"]
)


@HEADS
@pytest.mark.parametrize(
    ("completion", "parts"),
    [
        (error("PreconditionFailed", 412), PARTS),
        (error("PreconditionFailed", 412), error("AccessDenied", 403)),
        (error("NoSuchUpload", 404), error("NoSuchUpload", 404)),
        (error("NoSuchUpload", 404), error("AccessDenied", 403)),
    ],
    ids=["taken", "taken, parts unlisted", "gone", "gone, parts unlisted"],
)
def test_a_claimed_name_that_nothing_is_told_of(completion: bytes, parts: bytes, head: bytes) -> None:
    """At least once, S3's 400 is as its 403: nothing is replaced, and the records are read again.

    Neither waits where it is: an upload that is gone never can be completed, and s3:PutObject alone is enough
    for a sink, so that S3 need not say which of the two it is.
    """
    with store([completion], head, parts) as url:
        calls = new_upload_calls(settings(url), PLAIN)
        claim = Claim(prove=lambda: None, main_key=UPLOAD.key)
        assert calls.complete(BUCKET, UPLOAD, object_id="ours", claim=claim) == UNPROVEN
