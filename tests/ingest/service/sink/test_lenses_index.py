"""Locks of Lenses' sink in a bucket: read, finished wherever one is killed, refused where they are none."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from headrace.model.errors import AccessDenied, InvalidConfiguration
from headrace.options.settings import BackoffSettings
from headrace.s3.s3_calls import S3Calls
from headrace.vendors.lenses.names import IndexPlace
from ingest.service.sink.earlier_archive import IndexedOffsets, LensesIndex
from tests.support import aws
from tests.support.iam_proxy import Guard
from tests.support.proxy import Proxy
from tests.support.published_policies import PUBLISHED

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_PLACE: Final = IndexPlace(root=".indexes", connector="c", topic="t", partition=0)
_LOCK: Final = ".indexes/c/.locks/Topic(t)/0.lock"
_GROUP: Final = ".indexes/c/.locks/Topic(t)/0/region=eu.lock"
_TEMPORARY: Final = ".temp-upload/Topic(t)/0/6a1bt/region=eu/t(0_000000000009).json"
_FINAL: Final = "t/region=eu/t(0_000000000009).json"
_BODY: Final = b'{"n":9}\n' * 3
_BACKOFF: Final = BackoffSettings(delay_ms=1, max_delay_ms=1, max_retries=0)


class _Killed(BaseException):
    """The process is gone."""


class _Mortal:
    """A client whose process is killed before, or right after, one of its calls that change something."""

    def __init__(self, client: Any, dies_at: int | None = None) -> None:
        self._client = client
        self._dies_at = dies_at
        self.moments = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not name.startswith(("put_", "copy_", "delete_")):
            return method

        def call(**given: Any) -> Any:
            self._pass()
            answer = method(**given)
            self._pass()
            return answer

        return call

    def _pass(self) -> None:
        if self.moments == self._dies_at:
            raise _Killed
        self.moments += 1


class _Bucket:
    """A bucket in which Lenses' sink was killed."""

    def __init__(self) -> None:
        self.client = aws.s3()
        self.name = aws.new_bucket()

    def put(self, key: str, body: bytes | dict[str, Any]) -> str:
        """The ETag of a new object."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.put_object(Bucket=self.name, Key=key, Body=raw)["ETag"]

    def objects(self) -> dict[str, Any]:
        """Every object, locks as what they say."""
        found = self.client.list_objects_v2(Bucket=self.name).get("Contents", ())
        bodies = {
            one["Key"]: self.client.get_object(Bucket=self.name, Key=one["Key"])["Body"].read()
            for one in found
        }
        return {key: json.loads(raw) if key.endswith(".lock") else raw for key, raw in bodies.items()}

    def pending(self, key: str, *operations: str) -> None:
        """A lock with these operations left of a commit of offset 9; what they need is there."""
        etag = self.put(_TEMPORARY, _BODY)
        known = {
            "upload": {"type": "upload", "bucket": self.name, "source": "f", "destination": _TEMPORARY},
            "copy": {
                "type": "copy",
                "bucket": self.name,
                "source": _TEMPORARY,
                "destination": _FINAL,
                "eTag": etag,
            },
            "delete": {"type": "delete", "bucket": self.name, "source": _TEMPORARY, "eTag": etag},
        }
        left = {"pendingOffset": 9, "pendingOperations": [known[each] for each in operations]}
        self.put(key, {"owner": "o", "committedOffset": 4, "pendingState": left})

    def offsets(self, client: Any = None) -> IndexedOffsets:
        """What a process that takes over finds."""
        made = client or self.client
        calls = S3Calls(made, backoff=_BACKOFF, requester_pays=False)
        return LensesIndex(made, calls, self.name).offsets(_PLACE)


@pytest.fixture
def bucket() -> Iterator[_Bucket]:
    """An empty one."""
    made = _Bucket()
    yield made
    made.client.close()


_EMPTY: Final = {"owner": "o", "committedOffset": None, "pendingState": None}


@pytest.mark.parametrize("key", [_LOCK, ".indexes/c/.locks/t/0.lock", ".indexes/.locks/Topic(t)/0.lock"])
def test_a_lock_says_how_far_a_partition_is(bucket: _Bucket, key: str) -> None:
    """By whichever release it was written; nothing is changed."""
    assert bucket.offsets() == IndexedOffsets(committed=None)
    bucket.put(key, {"owner": "o", "committedOffset": 41, "pendingState": None})
    before = bucket.objects()
    assert bucket.offsets() == IndexedOffsets(committed=41)
    assert bucket.objects() == before


@pytest.mark.parametrize("has_lock", [False, True])
def test_without_listing_nobody_can_tell(bucket: _Bucket, *, has_lock: bool) -> None:
    """Under the policy that Lenses' page shows: a missing lock looks forbidden, which proves nothing."""
    if has_lock:
        bucket.put(_LOCK, {"owner": "o", "committedOffset": 41, "pendingState": None})
    with Proxy(aws.address()) as proxy:
        Guard(proxy, PUBLISHED["lenses"])
        with pytest.raises(AccessDenied) as caught:
            bucket.offsets(aws.s3(proxy.url))
    message = str(caught.value)
    assert f"Allow s3:ListBucket on s3://{bucket.name}, or set takeover.indexes=none" in message
    assert "s3:GetObject" not in message


def test_a_lock_that_may_not_be_read(bucket: _Bucket) -> None:
    """Where the bucket may be listed, that is what is missing."""
    bucket.put(_LOCK, {"owner": "o", "committedOffset": 41, "pendingState": None})
    with Proxy(aws.address()) as proxy:
        Guard(proxy, {"s3:ListBucket", "s3:PutObject"})
        with pytest.raises(AccessDenied, match="Allow s3:GetObject"):
            bucket.offsets(aws.s3(proxy.url))


def test_locks_of_values_are_beside_it(bucket: _Bucket) -> None:
    """Locks of nothing yet, and other files, say nothing."""
    bucket.put(_LOCK, _EMPTY)
    bucket.put(_GROUP, {"owner": "o", "committedOffset": 9, "pendingState": None})
    bucket.put(_GROUP.replace("=eu", "=us"), _EMPTY)
    bucket.put(_GROUP.replace("=eu", "=x"), b"")
    bucket.put(".indexes/c/.locks/Topic(t)/0/sweep-marker.json", b"{}")
    bucket.put(".indexes/c/.locks/Topic(t)/01.lock", b"of another partition")
    assert bucket.offsets() == IndexedOffsets(committed=None, groups=(((("region", "eu"),), 9),))


def test_files_of_old_releases(bucket: _Bucket) -> None:
    """The newest that names an object that is there, unless there is a lock."""
    for offset, key in ((7, "t/0/7.json"), (12, "t/0/12.json"), (30, "t/0/30.json")):
        bucket.put(f".indexes/c/t/00000/{offset:020}", key.encode())
    bucket.put("t/0/7.json", b"x")
    bucket.put("t/0/12.json", b"x")
    assert bucket.offsets().committed == 12
    bucket.put(_LOCK, {"owner": "o", "committedOffset": 13, "pendingState": None})
    assert bucket.offsets().committed == 13


@pytest.mark.parametrize("key", [_LOCK, _GROUP])
@pytest.mark.parametrize("left", [("copy", "delete"), ("copy",), ("delete",)], ids="-".join)
def test_what_was_under_way_is_finished_wherever_one_is_killed(
    bucket: _Bucket, key: str, left: tuple[str, ...]
) -> None:
    """Killed before and after each change, and started again: the object and its lock are as without."""

    def made() -> None:
        bucket.pending(key, *left)
        if "copy" not in left:
            bucket.put(_FINAL, _BODY)

    def gone() -> None:
        for each in bucket.objects():
            bucket.client.delete_object(Bucket=bucket.name, Key=each)

    made()
    whole = _Mortal(bucket.client)
    expected = bucket.offsets(whole)
    after = bucket.objects()
    assert after == {_FINAL: _BODY, key: {"owner": "o", "committedOffset": 9, "pendingState": None}}
    assert (expected.committed, expected.groups) == (
        (9, ()) if key == _LOCK else (None, (((("region", "eu"),), 9),))
    )
    assert whole.moments >= 2 * len(left)
    for moment in range(whole.moments):
        gone()
        made()
        with suppress(_Killed):
            bucket.offsets(_Mortal(bucket.client, moment))
        assert bucket.offsets() == expected
        assert bucket.objects() == after


def test_it_is_finished_under_the_published_policy_and_listing(bucket: _Bucket) -> None:
    """What Lenses' page allows, and the one action that our sentence asks for beside."""
    bucket.pending(_LOCK, "copy", "delete")
    with Proxy(aws.address()) as proxy:
        guard = Guard(proxy, PUBLISHED["lenses"] | {"s3:ListBucket"})
        assert bucket.offsets(aws.s3(proxy.url)).committed == 9
    assert guard.refused == set()
    assert set(bucket.objects()) == {_FINAL, _LOCK}


def test_one_that_may_delete_nothing_is_told_what_to_allow(bucket: _Bucket) -> None:
    """The temporary object stays, and the lock goes on saying what is left."""
    bucket.pending(_LOCK, "copy", "delete")
    with Proxy(aws.address()) as proxy:
        Guard(proxy, (PUBLISHED["lenses"] | {"s3:ListBucket"}) - {"s3:DeleteObject"})
        with pytest.raises(
            AccessDenied, match=r"Allow s3:GetObject, s3:PutObject and s3:DeleteObject on s3://bucket"
        ):
            bucket.offsets(aws.s3(proxy.url))
    assert bucket.objects()[_TEMPORARY] == _BODY
    assert bucket.offsets().committed == 9


def _lost(bucket: _Bucket) -> None:
    bucket.pending(_LOCK, "copy", "delete")
    bucket.client.delete_object(Bucket=bucket.name, Key=_TEMPORARY)


def _on_a_workers_disk(bucket: _Bucket) -> None:
    bucket.pending(_LOCK, "upload", "copy", "delete")


def _replaced(bucket: _Bucket) -> None:
    bucket.pending(_LOCK, "copy", "delete")
    bucket.put(_TEMPORARY, b"of another commit")


@pytest.mark.parametrize("make", [_lost, _on_a_workers_disk, _replaced], ids=["lost", "disk", "replaced"])
def test_what_cannot_be_finished_is_read_again(bucket: _Bucket, make: Callable[[_Bucket], None]) -> None:
    """The commit is dropped, as Lenses' sink does; nothing of other content is copied."""
    make(bucket)
    assert bucket.offsets() == IndexedOffsets(committed=4)
    assert _FINAL not in bucket.objects()
    assert bucket.objects()[_LOCK] == {"owner": "o", "committedOffset": 4, "pendingState": None}


def test_a_lock_that_is_none_is_refused(bucket: _Bucket) -> None:
    """By its name, with the remedy; nothing is changed."""
    bucket.put(_LOCK, b'{"owner": 1}')
    with pytest.raises(InvalidConfiguration, match=r"s3://.*/0\.lock is no lock .*takeover\.indexes=none"):
        bucket.offsets()


def test_a_lock_that_somebody_else_writes_is_refused(bucket: _Bucket) -> None:
    """A task of Lenses that was not stopped: the lock is its own."""
    bucket.pending(_LOCK, "delete")

    class _Raced(_Mortal):
        def _pass(self) -> None:
            if self.moments == 0:
                bucket.put(_LOCK, {"owner": "p", "committedOffset": 9, "pendingState": None})
            super()._pass()

    with pytest.raises(InvalidConfiguration, match="was written by another program meanwhile: stop Lenses"):
        bucket.offsets(_Raced(bucket.client))
    assert bucket.offsets().committed == 9


@pytest.mark.parametrize(
    ("operations", "is_there", "committed", "is_finished"),
    [
        (("upload", "copy", "delete"), True, 4, False),
        (("copy", "delete"), True, 9, True),
        (("copy", "delete"), False, 4, False),
        (("delete",), True, 9, True),
        (("delete",), False, 9, True),
    ],
)
def test_a_preview_foresees_what_finishing_gives(
    *, bucket: _Bucket, operations: tuple[str, ...], is_there: bool, committed: int, is_finished: bool
) -> None:
    """And changes nothing; then it is done, with the same end."""
    bucket.pending(_LOCK, *operations)
    if not is_there:
        bucket.client.delete_object(Bucket=bucket.name, Key=_TEMPORARY)
    before = bucket.objects()
    calls = S3Calls(bucket.client, backoff=_BACKOFF, requester_pays=False)
    preview = LensesIndex(bucket.client, calls, bucket.name, is_preview=True)

    assert preview.offsets(_PLACE) == IndexedOffsets(committed=committed)
    assert [(each.offset, each.is_finished) for each in preview.foreseen] == [(9, is_finished)]
    assert bucket.objects() == before
    assert bucket.offsets() == IndexedOffsets(committed=committed)
