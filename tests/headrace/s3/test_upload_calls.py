"""Uploads call by call: what S3 is given, what its answers mean, and what is tried again."""

import base64
import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from headrace.formats.content_digest import TextDigest, has_content
from headrace.model.errors import (
    AccessDenied,
    Fenced,
    InvalidConfiguration,
    ObjectForbidden,
    ResourceMissing,
    SourceUnavailable,
)
from headrace.model.sink_entries import Upload
from headrace.options.secret import Secret
from headrace.options.sink_settings import Encryption
from headrace.s3.client import UploadEnded, WriteConflict
from headrace.s3.completion import (
    BEGINS,
    Beginning,
    Claim,
    Completion,
    CompletionState,
    Prove,
    SentPart,
    accepted_parts,
)
from headrace.s3.upload_calls import UploadCalls
from tests.spark.sink.upload_settings import upload_calls
from tests.support import aws
from tests.support.proxy import Answer, Cut, Proxy, Request, Truncate

pytestmark = pytest.mark.parts

COMPLETED = Completion(CompletionState.COMPLETED)


@pytest.fixture(scope="module")
def bucket() -> str:
    """One for all: tests have keys of their own."""
    return aws.new_bucket()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """LocalStack, as long as nothing else is asked of it."""
    with Proxy(aws.address()) as made:
        yield made


def sealed(calls: UploadCalls, bucket: str, key: str, *bodies: bytes, object_id: str = "ours") -> Upload:
    """An upload of these parts, not completed."""
    upload_id = calls.begin(bucket, key, object_id=object_id)
    parts = tuple(calls.part(bucket, key, upload_id, at, body) for at, body in enumerate(bodies, 1))
    return Upload(key=key, upload_id=upload_id, parts=parts)


def content(bucket: str, key: str) -> bytes:
    """What is in the bucket."""
    return aws.s3().get_object(Bucket=bucket, Key=key)["Body"].read()


def is_completion(request: Request) -> bool:
    """The call that makes an object visible."""
    return request.method == "POST" and "uploadId=" in request.path


def is_part(request: Request) -> bool:
    """A part."""
    return request.method == "PUT" and "partNumber=" in request.path


def error(code: str, status: int) -> Answer:
    """A refusal."""
    return Answer(status=status, body=f"<Error><Code>{code}</Code><Message>Why.</Message></Error>".encode())


def test_what_an_object_is_given_at_its_start(bucket: str) -> None:
    """Metadata, tags of the options and of the object, storage class, type and encryption."""
    calls = upload_calls(
        bucket, storage_class="STANDARD_IA", encryption=Encryption.AES256, tags=(("team", "a b/c=d+e"),)
    )
    begun = calls.begin(
        bucket, "given", object_id="id", content_type="text/csv", metadata={"x": "1"}, tags={"count": "2"}
    )
    part = calls.part(bucket, "given", begun, 1, b"content")
    assert (
        calls.complete(bucket, Upload(key="given", upload_id=begun, parts=(part,)), object_id="id")
        == COMPLETED
    )
    found = aws.s3().head_object(Bucket=bucket, Key="given")
    assert found["Metadata"] == {"headrace-object": "id", "x": "1"} == calls.head_metadata(bucket, "given")
    assert found["StorageClass"] == "STANDARD_IA"
    assert found["ContentType"] == "text/csv"
    assert found["ServerSideEncryption"] == "AES256"
    tags = aws.s3().get_object_tagging(Bucket=bucket, Key="given")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"team": "a b/c=d+e", "count": "2"}


def test_a_key_of_the_customer_is_brought_by_every_call(bucket: str) -> None:
    """SSE-C: without the key S3 gives nothing, not even the metadata."""
    key = bytes(range(32))
    calls = upload_calls(bucket, customer_key=Secret(base64.b64encode(key).decode()))
    upload = sealed(calls, bucket, "secret", b"content")
    assert calls.list_parts(bucket, "secret", upload.upload_id) is not None
    assert calls.complete(bucket, upload, object_id="ours") == COMPLETED
    assert calls.complete(bucket, upload, object_id="ours") == COMPLETED
    found = aws.s3().get_object(
        Bucket=bucket, Key="secret", SSECustomerAlgorithm="AES256", SSECustomerKey=key.decode("latin-1")
    )
    assert found["Body"].read() == b"content"


def test_what_is_completed_stays_so(bucket: str) -> None:
    """A second completion, of a driver that does not know of the first, finds the object by its id."""
    calls = upload_calls(bucket)
    upload = sealed(calls, bucket, "twice", b"content")
    assert calls.head_metadata(bucket, "twice") is None
    assert [calls.complete(bucket, upload, object_id="ours") for _ in range(2)] == [COMPLETED] * 2
    assert content(bucket, "twice") == b"content"


def test_another_object_of_the_name_is_not_replaced(bucket: str) -> None:
    """The upload stays, and is good for when the name is free; a name that recurs by design is replaced."""
    calls = upload_calls(bucket)
    calls.put(bucket, "name", b"theirs", object_id="other")
    upload = sealed(calls, bucket, "name", b"ours")
    taken = Completion(CompletionState.NAME_TAKEN, "other")
    assert calls.complete(bucket, upload, object_id="ours") == taken
    assert content(bucket, "name") == b"theirs"
    assert calls.complete(bucket, upload, object_id="ours", overwrites=True) == COMPLETED
    assert content(bucket, "name") == b"ours"
    foreign = sealed(calls, bucket, "foreign", b"ours")
    aws.s3().put_object(Bucket=bucket, Key="foreign", Body=b"of nobody")
    assert calls.complete(bucket, foreign, object_id="ours") == Completion(CompletionState.NAME_TAKEN, "")


_MIB = 1024 * 1024
_PART = bytes(range(256)) * (5 * _MIB // 256)


@pytest.mark.parametrize(
    ("theirs", "ours", "is_there"),
    [
        pytest.param(b"same", (b"same",), True, id="one-part"),
        pytest.param(_PART + b"end", (_PART, b"end"), True, id="parts"),
        pytest.param(b"sane", (b"same",), False, id="another-byte"),
        pytest.param(_PART + b"eng", (_PART, b"end"), False, id="another-byte-at-the-end"),
        pytest.param(b"same and more", (b"same",), False, id="longer"),
        pytest.param(b"sam", (b"same",), False, id="shorter"),
        pytest.param(b"", (b"same",), False, id="empty"),
    ],
)
def test_what_another_sink_wrote_is_told_apart(
    bucket: str, theirs: bytes, ours: tuple[bytes, ...], *, is_there: bool
) -> None:
    """With the bytes that are to be written it is there already; else it keeps its name."""
    client, calls, key = aws.s3(), upload_calls(bucket), aws.unique("theirs")
    client.put_object(Bucket=bucket, Key=key, Body=theirs)
    found = calls.complete(bucket, sealed(calls, bucket, key, *ours), object_id="ours")
    assert found.state is (CompletionState.COMPLETED if is_there else CompletionState.NAME_TAKEN)
    assert content(bucket, key) == theirs
    assert calls.head_metadata(bucket, key) == {}


def test_an_object_of_another_headrace_is_not_ours(bucket: str) -> None:
    """Whatever it holds: two connectors that write the same names are a mistake that has to be seen."""
    calls, key = upload_calls(bucket), aws.unique("other")
    other = sealed(calls, bucket, key, b"same", object_id="other")
    assert calls.complete(bucket, other, object_id="other").state is CompletionState.COMPLETED
    taken = calls.complete(bucket, sealed(calls, bucket, key, b"same"), object_id="ours")
    assert taken == Completion(CompletionState.NAME_TAKEN, "other")


def test_an_upload_that_is_gone(bucket: str, proxy: Proxy) -> None:
    """Nothing there, another object there, or forbidden to ask: three answers."""
    calls = upload_calls(bucket, endpoint=proxy.url)
    upload = sealed(calls, bucket, "gone", b"content")
    assert calls.abort(bucket, "gone", upload.upload_id)
    assert calls.abort(bucket, "gone", upload.upload_id)
    with pytest.raises(UploadEnded, match=f"s3://{bucket}/gone is not complete, and its upload is not there"):
        calls.part(bucket, "gone", upload.upload_id, 2, b"")
    assert calls.list_parts(bucket, "gone", upload.upload_id) is None
    assert calls.complete(bucket, upload, object_id="ours") == Completion(CompletionState.UPLOAD_MISSING)
    proxy.on(Answer(status=403, body=b""), when=lambda request: request.method == "HEAD")
    assert calls.complete(bucket, upload, object_id="ours") == Completion(CompletionState.UNPROVEN)
    with pytest.raises(ObjectForbidden):
        calls.head_metadata(bucket, "gone")
    proxy.off()
    calls.put(bucket, "gone", b"later", object_id="later")
    found = calls.complete(bucket, upload, object_id="ours")
    assert found == Completion(CompletionState.SUPERSEDED, "later")


def test_a_part_sent_again_is_known_by_its_checksum(bucket: str) -> None:
    """As under KMS, where its ETag is another; other content is never completed."""
    calls = upload_calls(bucket)
    upload = sealed(calls, bucket, "again", b"content")
    etag, _, checksum = upload.parts[0].partition(" ")
    assert checksum
    late = Upload(key="again", upload_id=upload.upload_id, parts=(f'"{"0" * 32}" {checksum}',))
    other = Upload(key="again", upload_id=upload.upload_id, parts=(f'"{"0" * 32}" AAAAAA==',))
    assert calls.complete(bucket, other, object_id="ours") == Completion(CompletionState.PARTS_DIFFER)
    assert calls.complete(bucket, late, object_id="ours") == COMPLETED
    assert etag != late.parts[0]


def test_parts_without_checksums_are_known_by_their_etags() -> None:
    """A store that keeps none: nothing else proves a part."""
    listed = [SentPart(number=1, etag='"a"', size=1, checksum=None)]
    assert accepted_parts(['"a"'], listed) == [{"PartNumber": 1, "ETag": '"a"'}]
    assert accepted_parts(['"b"'], listed) is None
    assert accepted_parts(['"a"', '"a"'], listed) is None


@pytest.mark.parametrize(
    "fault",
    [error("InternalError", 200), error("SlowDown", 503), Cut(), Truncate(after_bytes=20), Answer(body=b"")],
    ids=["error with 200", "slow down", "cut", "truncated", "500 without document"],
)
def test_a_completion_that_fails_is_tried_again(
    bucket: str, proxy: Proxy, fault: Answer | Cut | Truncate, request: pytest.FixtureRequest
) -> None:
    """Whether S3 has done it or not, in the end there is one object, and it is known."""
    key = request.node.callspec.id.replace(" ", "-")
    calls = upload_calls(bucket, endpoint=proxy.url)
    upload = sealed(calls, bucket, key, b"content")
    proxy.on(fault, when=is_completion, times=2)
    assert calls.complete(bucket, upload, object_id="ours") == COMPLETED
    assert content(bucket, key) == b"content"
    proxy.on(fault, when=is_completion)
    second = sealed(calls, bucket, f"{key}-2", b"content")
    if not isinstance(fault, Cut | Truncate):
        with pytest.raises(SourceUnavailable, match=f"s3://{bucket}/{key}-2 could not be written for now"):
            calls.complete(bucket, second, object_id="ours")


def test_a_part_is_sent_again_whole(bucket: str, proxy: Proxy) -> None:
    """After errors and cuts, as often as the retries allow."""
    calls = upload_calls(bucket, endpoint=proxy.url, retries=2)
    proxy.on(Cut(), when=is_part, times=1)
    proxy.on(error("InternalError", 500), when=is_part, times=1)
    upload = sealed(calls, bucket, "part", b"content")
    assert calls.complete(bucket, upload, object_id="ours") == COMPLETED
    assert content(bucket, "part") == b"content"
    proxy.on(error("ServiceUnavailable", 503), when=is_part)
    before = len(proxy.requests)
    with pytest.raises(SourceUnavailable, match=f"s3://{bucket}/part could not be written for now"):
        calls.part(bucket, "part", "any", 1, b"content")
    assert len(proxy.requests) - before == 3


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId"])
def test_credentials_that_expire_in_between_are_resolved_again(bucket: str, proxy: Proxy, code: str) -> None:
    """The call is repeated with new ones, without a retry; when they are refused, too, that is said."""
    calls = upload_calls(bucket, endpoint=proxy.url, retries=0)
    proxy.on(error(code, 403), when=is_part, times=1)
    upload = sealed(calls, bucket, code, b"content")
    proxy.on(error(code, 403), when=is_completion, times=1)
    assert calls.complete(bucket, upload, object_id="ours") == COMPLETED
    proxy.on(error(code, 403), when=is_part)
    with pytest.raises(AccessDenied, match="as the AWS credentials are not valid"):
        calls.part(bucket, code, "any", 1, b"")


@pytest.mark.parametrize(
    ("refusal", "kind", "words"),
    [
        (error("AccessDenied", 403), AccessDenied, "is refused .AccessDenied.. Grant s3:PutObject"),
        (error("KMS.AccessDeniedException", 400), AccessDenied, "kms:GenerateDataKey"),
        (error("KMS.DisabledException", 400), AccessDenied, "enable it, .*aws.s3.sse.kms.key.id"),
        (error("NoSuchBucket", 404), ResourceMissing, "does not exist .NoSuchBucket.. Create the bucket"),
        (error("InvalidStorageClass", 400), InvalidConfiguration, "Why. Correct aws.s3.storage.class"),
        (error("AccessControlListNotSupported", 400), InvalidConfiguration, "Remove aws.s3.acl"),
    ],
    ids=lambda value: value.body.decode()[13:30] if isinstance(value, Answer) else "",
)
def test_refusals_name_what_helps(
    bucket: str, proxy: Proxy, refusal: Answer, kind: type[Exception], words: str
) -> None:
    """One sentence, with the object, and not repeated."""
    calls = upload_calls(bucket, endpoint=proxy.url)
    proxy.on(refusal)
    with pytest.raises(kind, match=f"s3://{bucket}/refused .*{words}"):
        calls.begin(bucket, "refused", object_id="id")
    assert len(proxy.requests) == 1


def test_an_abort_that_is_forbidden_does_not_matter(bucket: str, proxy: Proxy) -> None:
    """Confluent's policy has no s3:AbortMultipartUpload: the upload is left to the bucket's rule."""
    calls = upload_calls(bucket, endpoint=proxy.url)
    upload = sealed(calls, bucket, "left", b"content")
    proxy.on(error("AccessDenied", 403), when=lambda request: request.method == "DELETE")
    assert not calls.abort(bucket, "left", upload.upload_id)
    assert calls.complete(bucket, upload, object_id="ours") == COMPLETED


def test_an_object_that_says_the_same_in_other_bytes_is_there(bucket: str) -> None:
    """Packed by another library, of several parts' size; one more byte of text is another object."""
    text = b"".join(b"%d\n" % number for number in range(200_000))
    digest = TextDigest()
    digest.add(text)
    calls = upload_calls(bucket, has_content=has_content)
    for key, there in (("same.gz", text), ("other.gz", text + b"\n")):
        aws.s3().put_object(Bucket=bucket, Key=key, Body=gzip.compress(there, 1))
        upload = replace(sealed(calls, bucket, key, gzip.compress(text, 9)), content=str(digest))
        found = calls.complete(bucket, upload, object_id="ours")

        assert (found == COMPLETED) == (key == "same.gz")
        assert calls.complete(bucket, replace(upload, content=""), object_id="ours") != COMPLETED
        assert gzip.decompress(content(bucket, key)) == there


def test_a_name_that_was_taken_when_the_upload_began_and_is_free_now(bucket: str) -> None:
    """S3 refuses its condition for good (409): what had the name was deleted, as the page tells operators."""
    calls = upload_calls(bucket)
    calls.put(bucket, "freed", b"theirs", object_id="other")
    upload = sealed(calls, bucket, "freed", b"ours")
    assert calls.complete(bucket, upload, object_id="ours").state is CompletionState.NAME_TAKEN
    aws.s3().delete_object(Bucket=bucket, Key="freed")
    assert calls.complete(bucket, upload, object_id="ours") == COMPLETED
    assert content(bucket, "freed") == b"ours"


def test_a_name_that_may_not_be_asked_for_stays_in_conflict(bucket: str, proxy: Proxy) -> None:
    """A HEAD that is forbidden does not say that the name is free: the completion is tried again later."""
    calls = upload_calls(bucket, endpoint=proxy.url)
    calls.put(bucket, "hidden", b"theirs", object_id="other")
    upload = sealed(calls, bucket, "hidden", b"ours")
    aws.s3().delete_object(Bucket=bucket, Key="hidden")
    proxy.on(Answer(status=403, body=b""), when=lambda request: request.method == "HEAD")
    with pytest.raises(WriteConflict):
        calls.complete(bucket, upload, object_id="ours")


def test_a_conflict_about_a_name_that_another_object_keeps_is_a_taken_name(bucket: str, proxy: Proxy) -> None:
    """A store that answers 409 where S3 answers 412: as long as nothing is deleted, it does so for good."""
    calls = upload_calls(bucket, endpoint=proxy.url)
    proxy.on(
        error("ConditionalRequestConflict", 409), when=lambda request: "if-none-match" in request.headers
    )
    upload = sealed(calls, bucket, "kept", b"ours")
    calls.put(bucket, "kept", b"theirs", object_id="other")
    taken = Completion(CompletionState.NAME_TAKEN, "other")
    assert calls.complete(bucket, upload, object_id="ours") == taken
    assert content(bucket, "kept") == b"theirs"


def _is_conditional(request: Request) -> bool:
    return is_completion(request) and "if-none-match" in request.headers


@pytest.fixture
def without_conditions(bucket: str, proxy: Proxy) -> UploadCalls:
    """Of a store that answers 501 to a completion with a condition, as it knows none."""
    proxy.on(error("NotImplemented", 501), when=_is_conditional)
    return upload_calls(bucket, endpoint=proxy.url)


def test_exactly_once_a_store_without_conditions_is_asked_for_the_name(
    bucket: str, proxy: Proxy, without_conditions: UploadCalls
) -> None:
    """A free name is written; it is not tried with a condition a second time."""
    for key in ("unknown-1", "unknown-2"):
        upload = sealed(without_conditions, bucket, key, b"ours")
        assert [without_conditions.complete(bucket, upload, object_id="ours") for _ in range(2)] == [
            COMPLETED
        ] * 2
        assert content(bucket, key) == b"ours"
    assert len([one for one in proxy.requests if _is_conditional(one)]) == 1


@pytest.mark.parametrize("is_known", [False, True], ids=["at first", "later"])
def test_without_conditions_nothing_of_others_is_replaced(
    bucket: str, without_conditions: UploadCalls, *, is_known: bool
) -> None:
    """The look says who has the name, and whether the upload is there still."""
    calls, key = without_conditions, aws.unique("unreplaced")
    if is_known:
        assert calls.complete(bucket, sealed(calls, bucket, f"{key}-0", b""), object_id="0") == COMPLETED
    upload = sealed(calls, bucket, key, b"ours")
    calls.put(bucket, key, b"theirs", object_id="other")
    taken = Completion(CompletionState.NAME_TAKEN, "other")
    assert calls.complete(bucket, upload, object_id="ours") == taken
    assert calls.abort(bucket, key, upload.upload_id)
    gone = Completion(CompletionState.SUPERSEDED, "other")
    assert calls.complete(bucket, upload, object_id="ours") == gone
    assert content(bucket, key) == b"theirs"


def test_without_conditions_a_name_that_may_not_be_asked_for_is_not_written(
    bucket: str, proxy: Proxy, without_conditions: UploadCalls
) -> None:
    """A 403 proves nothing: an object of that name would be replaced unseen."""
    calls = without_conditions
    upload = sealed(calls, bucket, "unasked", b"ours")
    proxy.on(Answer(status=403, body=b""), when=lambda request: request.method == "HEAD")
    assert calls.complete(bucket, upload, object_id="ours") == Completion(CompletionState.UNPROVEN)
    assert not aws.s3().list_objects_v2(Bucket=bucket, Prefix="unasked").get("Contents")


class Proofs:
    """Counts proofs, and does something while one is given."""

    def __init__(self, during: Callable[[], object] = lambda: None) -> None:
        self.asked = 0
        self._during = during

    def __call__(self) -> None:
        """See `headrace.s3.completion.Prove`."""
        self.asked += 1
        self._during()


def _written(
    calls: UploadCalls,
    bucket: str,
    key: str,
    way: str,
    body: bytes,
    prove: Prove,
    *,
    begins: Beginning | None = None,
    main_key: str = "",
) -> None:
    """An object of the id `ours`, put by one request or by an upload of parts."""
    claim = Claim(prove=prove, begins=begins, main_key=main_key or key)
    if way == "put":
        calls.put(bucket, key, body, object_id="ours", metadata=_said(begins), claim=claim)
    else:
        upload = sealed(calls, bucket, key, body)
        calls.complete(bucket, upload, object_id="ours", overwrites=True, claim=claim)


def _said(begins: Beginning | None) -> dict[str, str]:
    return {} if begins is None else {BEGINS: begins.text}


@pytest.mark.parametrize("way", ["put", "parts"])
def test_an_object_of_another_slot_is_replaced_after_a_proof(bucket: str, way: str) -> None:
    """At least once: a free name needs none, and neither does what is this slot's own."""
    calls, proofs, key = upload_calls(bucket), Proofs(), f"proof-{way}"
    _written(calls, bucket, key, way, b"first", proofs)
    _written(calls, bucket, key, way, b"again", proofs)
    assert proofs.asked == 0
    calls.put(bucket, key, b"theirs", object_id="other")
    _written(calls, bucket, key, way, b"ours", proofs)
    assert (proofs.asked, content(bucket, key)) == (1, b"ours")


@pytest.mark.parametrize("way", ["put", "parts"])
def test_a_slot_that_proves_nothing_replaces_nothing(bucket: str, way: str) -> None:
    """It was given up, and resumes: what its successor has put has the same name, and more records."""

    def refuse() -> None:
        raise Fenced("The slot was given up.")

    calls, key = upload_calls(bucket), f"no-proof-{way}"
    calls.put(bucket, key, b"of the successor", object_id="other")
    with pytest.raises(Fenced):
        _written(calls, bucket, key, way, b"older", refuse)
    assert content(bucket, key) == b"of the successor"


@pytest.mark.parametrize("way", ["put", "parts"])
def test_exactly_the_object_that_was_seen_before_the_proof_is_replaced(bucket: str, way: str) -> None:
    """Another one, or none, wants a proof of its own."""
    calls, key = upload_calls(bucket), f"late-{way}"
    changes: Iterator[Callable[[], object]] = iter(
        [
            lambda: calls.put(bucket, key, b"second", object_id="second"),
            lambda: aws.s3().delete_object(Bucket=bucket, Key=key),
        ]
    )

    def change() -> None:
        if (one := next(changes, None)) is not None:
            one()

    proofs = Proofs(change)
    calls.put(bucket, key, b"first", object_id="first")
    _written(calls, bucket, key, way, b"ours", proofs)
    # S3 takes no condition of an upload that is older than what was deleted.
    assert (proofs.asked, content(bucket, key)) == (2 if way == "put" else 3, b"ours")


@pytest.fixture
def unconditional(bucket: str, proxy: Proxy) -> UploadCalls:
    """Of a store that answers 501 to any write with a condition, as it knows none."""
    proxy.on(error("NotImplemented", 501), when=lambda request: "if-none-match" in request.headers)
    return upload_calls(bucket, endpoint=proxy.url)


@pytest.mark.parametrize("way", ["put", "parts"])
def test_a_store_without_conditions_is_looked_at_before_a_proof(
    bucket: str, unconditional: UploadCalls, way: str
) -> None:
    """It answers 501 once: what was the successor's of a slot that hung was replaced, with fewer records."""
    calls, proofs, key = unconditional, Proofs(), f"plain-{way}"
    _written(calls, bucket, key, way, b"ours", proofs)
    _written(calls, bucket, key, way, b"ours", proofs)
    assert (content(bucket, key), proofs.asked) == (b"ours", 0)

    def refuse() -> None:
        raise Fenced("The slot was given up.")

    calls.put(bucket, key, b"of the successor", object_id="other")
    with pytest.raises(Fenced):
        _written(calls, bucket, key, way, b"ours", refuse)
    assert content(bucket, key) == b"of the successor"
    _written(calls, bucket, key, way, b"ours", proofs)
    assert (content(bucket, key), proofs.asked) == (b"ours", 1)


@pytest.mark.parametrize("status", [400, 403])
def test_what_may_not_be_looked_at_is_replaced_after_a_proof(
    bucket: str, proxy: Proxy, unconditional: UploadCalls, status: int
) -> None:
    """A HEAD of what another life has written with a key of its own is a bad request: it stayed there."""
    proofs = Proofs()
    aws.s3().put_object(Bucket=bucket, Key="sealed", Body=b"theirs")
    proxy.on(Answer(status=status, body=b""), when=lambda request: request.method == "HEAD")
    _written(unconditional, bucket, "sealed", "put", b"ours", proofs)
    assert (content(bucket, "sealed"), proofs.asked) == (b"ours", 1)


_FIRST = Beginning("t0pic/id", 2, "0a1b", 0)


@pytest.mark.parametrize("way", ["put", "parts"])
def test_an_object_that_begins_earlier_and_ends_here_stays(bucket: str, way: str) -> None:
    """It has all of these records; what was sent to another upload is aborted."""
    calls, proofs, key = upload_calls(bucket), Proofs(), f"whole-{way}"
    calls.put(bucket, key, b"0 to 3", object_id="theirs", metadata=_said(_FIRST))
    _written(calls, bucket, key, way, b"3", proofs, begins=_FIRST._replace(offset=3))
    assert (proofs.asked, content(bucket, key)) == (0, b"0 to 3")
    assert not aws.s3().list_multipart_uploads(Bucket=bucket, Prefix=key).get("Uploads")


@pytest.mark.parametrize("way", ["put", "parts"])
@pytest.mark.parametrize(
    "there",
    [
        pytest.param(_said(_FIRST._replace(offset=3)), id="begins here"),
        pytest.param(_said(_FIRST._replace(offset=4)), id="begins later"),
        pytest.param(_said(_FIRST._replace(partition=1)), id="of another partition"),
        pytest.param(_said(_FIRST._replace(topic_id="other")), id="of another topic"),
        pytest.param({}, id="says nothing"),
        pytest.param({BEGINS: "nonsense"}, id="says nonsense"),
        pytest.param({BEGINS: "t0pic/id:2:0a1b:-1"}, id="says no offset"),
    ],
)
def test_an_object_that_lacks_some_records_is_replaced(
    bucket: str, way: str, there: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """What begins no earlier, is of other records, or does not say so takes no place from these."""
    calls, proofs, key = upload_calls(bucket), Proofs(), f"{request.node.name}"
    calls.put(bucket, key, b"theirs", object_id="theirs", metadata=there)
    _written(calls, bucket, key, way, b"3", proofs, begins=_FIRST._replace(offset=3))
    assert (proofs.asked, content(bucket, key)) == (1, b"3")


def test_what_is_next_to_values_stays_with_them(bucket: str) -> None:
    """Keys of an object whose values did not come to S3 any more are replaced."""
    calls, proofs = upload_calls(bucket), Proofs()
    later = _FIRST._replace(offset=3)
    calls.put(bucket, "sides.keys", b"0 to 3", object_id="theirs", metadata=_said(_FIRST))
    calls.put(bucket, "sides", b"values", object_id="theirs", metadata=_said(_FIRST))
    _written(calls, bucket, "sides.keys", "put", b"3", proofs, begins=later, main_key="sides")
    assert content(bucket, "sides.keys") == b"0 to 3"
    aws.s3().delete_object(Bucket=bucket, Key="sides")
    _written(calls, bucket, "sides.keys", "put", b"3", proofs, begins=later, main_key="sides")
    assert content(bucket, "sides.keys") == b"3"


def test_an_object_grouped_by_other_options_is_neither_left_nor_replaced(bucket: str) -> None:
    """Nobody knows which records it has: the sentence names it, and what helps."""
    calls, proofs = upload_calls(bucket), Proofs()
    calls.put(bucket, "grouped", b"0 to 3", object_id="theirs", metadata=_said(_FIRST))
    begins = _FIRST._replace(grouping="other", offset=3)
    with pytest.raises(WriteConflict, match=r"object grouped has records from offset 0 on.*start_offset}}"):
        _written(calls, bucket, "grouped", "put", b"3", proofs, begins=begins)
    assert (proofs.asked, content(bucket, "grouped")) == (0, b"0 to 3")


def test_where_an_object_begins_has_to_be_asked_for(bucket: str, proxy: Proxy) -> None:
    """A 403 of the question is said, and nothing is replaced unseen."""
    calls = upload_calls(bucket, endpoint=proxy.url)
    calls.put(bucket, "unseen", b"0 to 3", object_id="theirs", metadata=_said(_FIRST))
    proxy.on(Answer(status=403, body=b""), when=lambda request: request.method == "HEAD")
    with pytest.raises(ObjectForbidden):
        _written(calls, bucket, "unseen", "put", b"3", Proofs(), begins=_FIRST._replace(offset=3))
    assert content(bucket, "unseen") == b"0 to 3"


def test_a_store_without_conditions_is_asked_where_an_object_begins(
    bucket: str, unconditional: UploadCalls
) -> None:
    """The first time, when it has just said that it knows none, and later."""
    calls, proofs = unconditional, Proofs()
    calls.put(bucket, "asked", b"0 to 3", object_id="theirs", metadata=_said(_FIRST))
    for _ in range(2):
        _written(calls, bucket, "asked", "put", b"3", proofs, begins=_FIRST._replace(offset=3))
        assert content(bucket, "asked") == b"0 to 3"
    _written(calls, bucket, "asked", "put", b"0 to 3 again", proofs, begins=_FIRST)
    assert content(bucket, "asked") == b"0 to 3 again"
