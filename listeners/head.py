"""HEAD for objects that an event named without ETag or size."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, Final, Protocol

from headrace.model.errors import HeadraceError, ObjectError, ObjectForbidden, ObjectMissing
from headrace.model.objects import ObjectId, S3Object
from listeners.backoff import Backoff
from listeners.discovery_events import HeadAnswer, Post
from listeners.failures import translated_errors

_AT_ONCE: Final = 8
_PAUSES: Final = Backoff(first=0.5, longest=20.0)
# A HEAD has no body that says more than 400: expired credentials, which pass, or an object that wants a
# customer's key (SSE-C), which does not.
_REFUSALS: Final = 10


class HeadClient(Protocol):
    """What we use of aiobotocore's S3 client."""

    def head_object(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`HeadObject`."""

    def get_object(self, **arguments: Any) -> Awaitable[Mapping[str, Any]]:
        """`GetObject`."""


class HeadRequester:
    """Asks S3 for what an event left out, eight calls at a time; who waits for a next try is none of them."""

    def __init__(
        self,
        *,
        client: HeadClient,
        post: Post,
        tasks: asyncio.TaskGroup,
        requester_pays: bool = False,
        pauses: Backoff = _PAUSES,
    ) -> None:
        self._client = client
        self._post = post
        self._tasks = tasks
        self._more: dict[str, Any] = {"RequestPayer": "requester"} if requester_pays else {}
        self._pauses = pauses
        self._gate = asyncio.Semaphore(_AT_ONCE)

    def request(
        self, token: str, *, bucket: str, key: str, version_id: str | None, reads: bool = False
    ) -> None:
        """Post, later, what HEAD says under `token`; one that fails is repeated for as long as it takes.

        Only what S3 refuses every time is given up, as forbidden: it may be so for good. With `reads` a byte
        is read instead, whose refusal says at once what it is.
        """
        version = {} if version_id is None else {"VersionId": version_id}
        wanted = {"Bucket": bucket, "Key": key, **version, **self._more}
        self._tasks.create_task(self._answer(token, wanted, reads=reads))

    async def _answer(self, token: str, wanted: Mapping[str, Any], *, reads: bool) -> None:
        failures = refusals = 0
        while True:
            try:
                async with self._gate:
                    answer: S3Object | HeadraceError = await self._asked(wanted, reads=reads)
            except (ObjectMissing, ObjectForbidden) as error:
                answer = error
            except HeadraceError as error:
                if reads and isinstance(error, ObjectError):
                    self._post(HeadAnswer(token=token, answer=error))
                    return
                failures += 1
                refusals += isinstance(error, ObjectError)
                if refusals < _REFUSALS:
                    await asyncio.sleep(self._pauses.delay_seconds(failures))
                    continue
                answer = ObjectForbidden(f"{error} It is not asked again.")
            self._post(HeadAnswer(token=token, answer=answer))
            return

    async def _asked(self, wanted: Mapping[str, Any], *, reads: bool) -> S3Object:
        object_id = ObjectId(wanted["Bucket"], wanted["Key"], "")
        with translated_errors(object_id.url):
            if not reads:
                head = await self._client.head_object(**wanted)
                return _found(object_id, head, size=head["ContentLength"])
            head = await self._client.get_object(**wanted, Range="bytes=0-0")
            async with head["Body"] as body:
                await body.read()
            return _found(object_id, head, size=int(head["ContentRange"].rpartition("/")[2]))


def _found(asked: ObjectId, head: Mapping[str, Any], *, size: int) -> S3Object:
    version = head.get("VersionId")
    return S3Object(
        id=ObjectId(asked.bucket, asked.key, head["ETag"].strip('"')),
        size=size,
        last_modified_ms=int(head["LastModified"].timestamp() * 1000),
        version_id=None if version == "null" else version,
        storage_class=head.get("StorageClass"),
    )
