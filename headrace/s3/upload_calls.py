"""Multipart uploads, call by call: retried as `aws.s3.backoff.*`, errors in our words."""

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

import structlog
from botocore.exceptions import ClientError
from isal import isal_zlib

from headrace.aws.aws_credentials import signed_again
from headrace.aws.aws_errors import answer_of, is_condition_refused
from headrace.aws.store_answers import following, needed
from headrace.model.errors import AccessDenied, ObjectError, ObjectForbidden, ObjectMissing, SourceUnavailable
from headrace.model.objects import ByteSource, PartBody
from headrace.model.sink_entries import Upload
from headrace.options.settings import BackoffSettings, S3Settings
from headrace.options.sink_settings import UploadSettings
from headrace.s3.client import (
    BOTOCORES,
    NO_UPLOAD,
    ConditionsUnknown,
    HeadRefused,
    NameTaken,
    UploadEnded,
    WriteConflict,
    attempted,
    but_for_credentials,
    customer_key,
    given_at_start,
    new_s3_client,
    translate_upload,
)
from headrace.s3.completion import (
    OBJECT_ID,
    WHERE_FREE,
    Claim,
    Completion,
    CompletionState,
    Rivals,
    SentPart,
    StoredObject,
    accepted_parts,
    by_metadata,
    completion_parts,
    crc32_text,
    is_same_content,
    part_text,
)

_log = structlog.get_logger(__name__)

_NEXT_PARTS: Final = {"PartNumberMarker": "NextPartNumberMarker"}
_CHUNK_BYTES: Final = 1024 * 1024
_TAKEN_BY_A_STRANGER: Final = Completion(CompletionState.NAME_TAKEN)

Given = Mapping[str, str]
HasContent = Callable[[ByteSource, str], bool]
"""Whether the digest of what an object says (`Upload.content`) is this one."""


class UploadCalls:
    """Uploads to S3; thread-safe. All methods block, and raise classes of `headrace.model.errors` only.

    SourceUnavailable after the retries of `aws.s3.backoff.*`; AccessDenied (ResourceMissing for a bucket that
    is not there); InvalidConfiguration where S3 refuses an option. Credentials that have expired are resolved
    again, and the call is repeated.
    """

    def __init__(
        self,
        client: Any,
        options: UploadSettings,
        *,
        backoff: BackoffSettings,
        requester_pays: bool,
        has_content: HasContent | None = None,
    ) -> None:
        """`has_content` compares what objects say, where their bytes differ; None: they are not compared."""
        self._client = client
        self._has_content = has_content
        self._backoff = backoff
        payer = {"RequestPayer": "requester"} if requester_pays else {}
        self._payer: Given = payer
        self._every: Given = payer | customer_key(options)
        self._at_start: Given = self._every | given_at_start(options)
        self._tags = dict(options.tags)
        self._has_ended = threading.Event()
        self._rivals = Rivals()

    def end(self) -> None:
        """Make no request any more but aborts: what is under way is answered, not tried again (UploadEnded).

        The slot that reads the records next may have written an object of the same name by then.
        """
        self._has_ended.set()

    def begin(
        self,
        bucket: str,
        key: str,
        *,
        object_id: str,
        content_type: str | None = None,
        metadata: Given | None = None,
        tags: Given | None = None,
    ) -> str:
        """The id of a new upload, whose metadata names the object; `tags` join those of the options."""
        described = self._described(object_id, content_type, metadata, tags)
        answer = self._called(
            self._client.create_multipart_upload, bucket, key, ChecksumAlgorithm="CRC32", **described
        )
        return str(answer["UploadId"])

    def part(self, bucket: str, key: str, upload_id: str, number: int, body: bytes | PartBody) -> str:
        """What `Upload.parts` keeps of the part, sent; UploadEnded when its upload is not there."""
        given = {"UploadId": upload_id, "PartNumber": number, **self._every}
        return part_text(self._sent(self._client.upload_part, bucket, key, body, given))

    def put(
        self,
        bucket: str,
        key: str,
        body: bytes | PartBody,
        *,
        object_id: str,
        content_type: str | None = None,
        metadata: Given | None = None,
        tags: Given | None = None,
        claim: Claim | None = None,
    ) -> None:
        """Put a whole object by one request: without exactly-once. What has its name is replaced.

        With a `claim` an object with another id is replaced only after its proof, if at all.
        """
        described = self._described(object_id, content_type, metadata, tags)

        def send(condition: Given) -> None:
            self._sent(self._client.put_object, bucket, key, body, {**described, **condition})

        if claim is None:
            send({})
        else:
            self._replaced(bucket, key, send, claim, object_id=object_id)

    def complete(
        self,
        bucket: str,
        upload: Upload,
        *,
        object_id: str,
        overwrites: bool = False,
        claim: Claim | None = None,
    ) -> Completion:
        """What became of the object. Nothing is replaced unless it `overwrites`: its name may recur.

        With a `claim` an object with another id is replaced, too, and only after its proof. Where another
        sink has put the same records under the name, before its offsets were moved here, the object is
        there: the same bytes, or the same content packed by other libraries.
        """
        once = partial(self._once, bucket, upload, object_id)
        if claim is not None:
            return self._completed_over(bucket, upload, once, claim, object_id=object_id)
        if overwrites:
            return attempted(partial(once, {}), self._backoff)
        try:
            return self._completed_where_free(once, partial(self._looked, bucket, upload, object_id))
        except HeadRefused:
            return Completion(CompletionState.UNPROVEN)

    def _completed_where_free(
        self, once: Callable[[Given], Completion], looked: Callable[[], Completion]
    ) -> Completion:
        try:
            if self._rivals.knows_conditions:
                return attempted(partial(once, WHERE_FREE), self._backoff)
        except WriteConflict:
            # For good, where the name was taken when the upload began: what had it was deleted since, or has
            # it still.
            found = attempted(looked, self._backoff)
            if found.state is CompletionState.UNPROVEN:
                raise
            return found
        except ConditionsUnknown as error:
            self._rivals.note_unknown(error)
        return attempted(looked, self._backoff)

    def _once(self, bucket: str, upload: Upload, object_id: str, condition: Given) -> Completion:
        refused = self._try_completion(bucket, upload, completion_parts(upload.parts), condition)
        if refused == "InvalidPart":
            listed = self.list_parts(bucket, upload.key, upload.upload_id)
            parts = None if listed is None else accepted_parts(upload.parts, listed)
            if parts is not None:
                refused = self._try_completion(bucket, upload, parts, condition)
            elif listed is None:
                refused = NO_UPLOAD
            if refused == "InvalidPart":
                # The upload is there with others, or the store takes not even those that it lists.
                return Completion(CompletionState.PARTS_DIFFER)
        if refused is None:
            return Completion(CompletionState.COMPLETED)
        return self._judged(bucket, upload, object_id, is_taken=refused != NO_UPLOAD)

    def _looked(self, bucket: str, upload: Upload, object_id: str) -> Completion:
        """In place of the condition: a former life of the slot completes no other upload meanwhile."""
        try:
            if self._is_free(bucket, upload.key):
                return self._once(bucket, upload, object_id, {})
        except HeadRefused:
            # Of credentials that are not valid, too: what has a document says which of the two it is.
            with but_for_credentials():
                self.list_parts(bucket, upload.key, upload.upload_id)
            raise
        return self._judged(bucket, upload, object_id, is_taken=self._has_upload(bucket, upload))

    def _judged(self, bucket: str, upload: Upload, object_id: str, *, is_taken: bool) -> Completion:
        found = self._by_head(bucket, upload.key, object_id, is_taken=is_taken)
        if found == _TAKEN_BY_A_STRANGER and self._is_there_already(bucket, upload):
            _log.info("object_found_complete", key=upload.key, object_id=object_id)
            return Completion(CompletionState.COMPLETED)
        return found

    def _completed_over(
        self,
        bucket: str,
        upload: Upload,
        once: Callable[[Given], Completion],
        claim: Claim,
        *,
        object_id: str,
    ) -> Completion:
        completion = Completion(CompletionState.COMPLETED)

        def send(condition: Given) -> None:
            nonlocal completion
            completion = attempted(lambda: once(condition), self._backoff)
            if completion.state is CompletionState.NAME_TAKEN:
                raise NameTaken(f"s3://{bucket}/{upload.key} was written by another program meanwhile.")

        if self._replaced(bucket, upload.key, send, claim, object_id=object_id):
            return completion
        self.abort(bucket, upload.key, upload.upload_id)
        return Completion(CompletionState.COMPLETED)

    def _replaced(
        self, bucket: str, key: str, send: Callable[[Given], None], claim: Claim, *, object_id: str
    ) -> bool:
        """False when what has the name stays, as it has the records."""
        if self._rivals.send(send, partial(self._head, bucket), claim, key=key, object_id=object_id):
            return True
        _log.info("object_covered", key=key, object_id=object_id)
        return False

    def head_metadata(self, bucket: str, key: str) -> dict[str, str] | None:
        """The user metadata of an object; None when there is none (404).

        ObjectForbidden for a 403, which proves nothing: without s3:ListBucket a missing one is a 403, too.
        """
        found = self._head(bucket, key)
        return None if found is None else dict(found.get("Metadata", {}))

    def list_parts(self, bucket: str, key: str, upload_id: str) -> list[SentPart] | None:
        """The parts that S3 has of the upload, by number; None when there is no such upload."""
        what, found = f"s3://{bucket}/{key}", list[SentPart]()
        given: dict[str, Any] = {"UploadId": upload_id, **self._every}
        while True:
            try:
                answer = self._called(self._client.list_parts, bucket, key, **given)
            except UploadEnded:
                return None
            found += [
                SentPart(
                    number=needed(part, "PartNumber", what=what),
                    etag=needed(part, "ETag", what=what),
                    size=needed(part, "Size", what=what),
                    checksum=part.get("ChecksumCRC32"),
                )
                for part in answer.get("Parts", ())
            ]
            more = following(answer, given, what=what, names=_NEXT_PARTS)
            if more is None:
                return found
            given |= more

    def abort(self, bucket: str, key: str, upload_id: str) -> bool:
        """End an upload that no transaction has named. False when that is forbidden: it is left to expire."""
        given = {"Bucket": bucket, "Key": key, "UploadId": upload_id, **self._payer}
        try:
            with suppress(UploadEnded):
                self._attempted(lambda: self._client.abort_multipart_upload(**given), f"s3://{bucket}/{key}")
        except AccessDenied:
            return False
        return True

    def _is_free(self, bucket: str, key: str) -> bool:
        """Whether S3 says that nothing has the name; a 403 says nothing."""
        try:
            return self._head(bucket, key) is None
        except ObjectForbidden:
            return False

    def _has_upload(self, bucket: str, upload: Upload) -> bool:
        """Whether S3 says that the upload is there; where it may not be asked, it counts as there."""
        try:
            return self.list_parts(bucket, upload.key, upload.upload_id) is not None
        except (AccessDenied, ObjectForbidden):
            return True

    def _head(self, bucket: str, key: str) -> Any | None:
        try:
            return self._called(self._client.head_object, bucket, key, **self._every)
        except ObjectMissing:
            return None

    def _try_completion(
        self, bucket: str, upload: Upload, parts: list[dict[str, Any]], condition: Given
    ) -> str | None:
        """None when it is completed, else NO_UPLOAD, InvalidPart or PreconditionFailed; one attempt."""
        what = f"s3://{bucket}/{upload.key}"
        try:
            signed_again(
                lambda: self._client.complete_multipart_upload(
                    Bucket=bucket,
                    Key=upload.key,
                    UploadId=upload.upload_id,
                    MultipartUpload={"Parts": parts},
                    **condition,
                    **self._every,
                )
            )
        except BOTOCORES as error:
            if isinstance(error, ClientError):
                code, status = answer_of(error)
                if code in {NO_UPLOAD, "InvalidPart"}:
                    return code
                if is_condition_refused(code, status):
                    return "PreconditionFailed"
            raise translate_upload(error, what=what) from error
        return None

    def _is_there_already(self, bucket: str, upload: Upload) -> bool:
        """Whether the object of the upload's name has the bytes of its parts; False where none may tell."""
        what = f"s3://{bucket}/{upload.key}"
        try:
            sent = self.list_parts(bucket, upload.key, upload.upload_id)
            if sent is None or len(sent) != len(upload.parts):
                return False
            answer = self._get(bucket, upload.key)
            with closing(answer["Body"]) as body:
                is_as_long = needed(answer, "ContentLength", what=what) == sum(part.size for part in sent)
                if is_as_long and is_same_content(body.iter_chunks(_CHUNK_BYTES), sent):
                    return True
            if self._has_content is None or not upload.content:
                return False
            return self._has_content(StoredObject(self._get, bucket, upload.key, answer), upload.content)
        except (AccessDenied, ObjectError) as error:
            _log.warning("object_not_compared", key=upload.key, error=str(error))
            return False
        except BOTOCORES as error:
            raise translate_upload(error, what=what) from error

    def _get(self, bucket: str, key: str, **given: Any) -> Any:
        return self._called(self._client.get_object, bucket, key, **given, **self._every)

    def _by_head(self, bucket: str, key: str, object_id: str, *, is_taken: bool) -> Completion:
        try:
            metadata = self.head_metadata(bucket, key)
        except (ObjectForbidden, HeadRefused):
            # A 400 is of another key: the answer before, which had a document, was none about credentials.
            return Completion(CompletionState.UNPROVEN)
        if is_taken and metadata is None:
            # Deleted between the two answers: the name is free now, and the upload is there.
            raise SourceUnavailable(
                f"s3://{bucket}/{key} was deleted by another program while it was being completed."
            )
        return by_metadata(metadata, object_id, is_taken=is_taken)

    def _described(
        self, object_id: str, content_type: str | None, metadata: Given | None, tags: Given | None
    ) -> dict[str, Any]:
        given: dict[str, Any] = dict(self._at_start)
        given["Metadata"] = {**(metadata or {}), OBJECT_ID: object_id}
        if content_type is not None:
            given["ContentType"] = content_type
        if all_tags := self._tags | dict(tags or {}):
            given["Tagging"] = urlencode(all_tags, quote_via=quote)
        return given

    def _sent(
        self, method: Callable[..., Any], bucket: str, key: str, body: bytes | PartBody, given: Given | Any
    ) -> Any:
        """The answer to a request with a body, which is read from its start by each attempt."""
        checksum = crc32_text(isal_zlib.crc32(body) if isinstance(body, bytes) else body.crc32)

        def once() -> Any:
            with ExitStack() as ends:
                reader = body if isinstance(body, bytes) else ends.enter_context(body.open())
                return method(Bucket=bucket, Key=key, Body=reader, ChecksumCRC32=checksum, **given)

        return self._retried(once, f"s3://{bucket}/{key}")

    def _called(self, method: Callable[..., Any], bucket: str, key: str, **given: Any) -> Any:
        return self._retried(lambda: method(Bucket=bucket, Key=key, **given), f"s3://{bucket}/{key}")

    def _retried(self, call: Callable[[], Any], what: str) -> Any:
        def unless_ended() -> Any:
            if self._has_ended.is_set():
                raise UploadEnded(f"{what} was not sent before its slot ended.")
            return call()

        return self._attempted(unless_ended, what)

    def _attempted(self, call: Callable[[], Any], what: str) -> Any:
        def translated() -> Any:
            try:
                return signed_again(call)
            except BOTOCORES as error:
                raise translate_upload(error, what=what) from error

        return attempted(translated, self._backoff)


def new_upload_calls(
    settings: S3Settings, options: UploadSettings, *, has_content: HasContent | None = None
) -> UploadCalls:
    """Calls through a new client with its own connections; credentials are asked for by each call.

    AccessDenied when this machine's AWS configuration allows no client.
    """
    client = new_s3_client(settings, uploads=True).client
    return UploadCalls(
        client,
        options,
        backoff=settings.backoff,
        requester_pays=settings.requester_pays,
        has_content=has_content,
    )
