"""What `post.action` does to objects, against a real S3: never to content that was not read."""

from collections.abc import Iterator

import pytest

from headrace.model.errors import HeadraceError, InvalidConfiguration, SourceUnavailable
from headrace.options.secret import Secret
from headrace.options.settings import BackoffSettings, S3Settings, StaticCredentials
from headrace.s3.client import new_s3_client
from headrace.s3.post_action_calls import PostActionCalls
from headrace.s3.s3_calls import S3Calls
from tests.support import aws
from tests.support.proxy import Answer, Proxy

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def _calls(
    bucket: str,
    *,
    copy_max_bytes: int = 5 * 1024**3,
    endpoint: str | None = None,
    is_unconditional: bool = True,
    target_bucket: str | None = None,
    requester_pays: bool = False,
) -> PostActionCalls:
    settings = S3Settings(
        bucket=bucket,
        prefix="",
        region="us-east-1",
        endpoint=endpoint or aws.address(),
        path_style=True,
        credentials=StaticCredentials(
            access_key_id="test", secret_access_key=Secret("test"), session_token=None
        ),
        requester_pays=requester_pays,
        backoff=BackoffSettings(delay_ms=10, max_delay_ms=50, max_retries=2),
        ca_bundle=None,
    )
    client = new_s3_client(settings).client
    calls = S3Calls(client, backoff=settings.backoff, requester_pays=requester_pays)
    return PostActionCalls(
        client,
        calls,
        bucket=bucket,
        target_bucket=target_bucket,
        is_unconditional=is_unconditional,
        copy_max_bytes=copy_max_bytes,
    )


def _put(bucket: str, key: str, body: bytes = b"1\n") -> str:
    answer = aws.s3().put_object(
        Bucket=bucket, Key=key, Body=body, Metadata={"who": "me"}, Tagging="team=a", ContentType="text/x"
    )
    return answer["ETag"].strip('"')


def _keys(bucket: str) -> list[str]:
    return [each["Key"] for each in aws.s3().list_objects_v2(Bucket=bucket).get("Contents", ())]


def _tags(bucket: str, key: str) -> dict[str, str]:
    answer = aws.s3().get_object_tagging(Bucket=bucket, Key=key)
    return {each["Key"]: each["Value"] for each in answer["TagSet"]}


def test_an_object_is_deleted_once(bucket: str) -> None:
    """A second time there is nothing left to delete, which is no error."""
    etag = _put(bucket, "in/a")
    calls = _calls(bucket)

    assert calls.delete("in/a", etag)
    assert _keys(bucket) == []
    assert not calls.delete("in/a", etag)


@pytest.mark.parametrize("copy_max_bytes", [5 * 1024**3, 1])
def test_a_move_overwrites_nothing(bucket: str, copy_max_bytes: int) -> None:
    """Other content keeps its key; the object goes beside it, once, however often it is tried."""
    _put(bucket, "done/a", b"other\n")
    etag = _put(bucket, "in/a")
    calls = _calls(bucket, copy_max_bytes=copy_max_bytes)

    assert calls.move("in/a", etag, "done/a")
    assert _put(bucket, "in/a") == etag  # as if the delete had not come through
    assert calls.move("in/a", etag, "done/a")

    assert _keys(bucket) == ["done/a", f"done/a.{etag}"]

    assert aws.s3().get_object(Bucket=bucket, Key="done/a")["Body"].read() == b"other\n"
    assert aws.s3().get_object(Bucket=bucket, Key=f"done/a.{etag}")["Body"].read() == b"1\n"


@pytest.mark.parametrize("act", ["delete", "move", "tag"])
def test_content_that_came_since_is_left_alone(bucket: str, act: str) -> None:
    """The object that was read is not there any more."""
    etag = _put(bucket, "in/a")
    _put(bucket, "in/a", b"2\n")
    calls = _calls(bucket)
    acts = {
        "delete": lambda: calls.delete("in/a", etag),
        "move": lambda: calls.move("in/a", etag, "done/a"),
        "tag": lambda: calls.tag("in/a", etag, "read", "yes"),
    }

    assert not acts[act]()
    assert _keys(bucket) == ["in/a"]
    assert _tags(bucket, "in/a") == {"team": "a"}


@pytest.mark.parametrize("copy_max_bytes", [5 * 1024**3, 5 * 1024**2], ids=["whole", "in parts"])
def test_an_object_moves_with_what_it_has(bucket: str, copy_max_bytes: int) -> None:
    """Content, metadata, type and tags."""
    body = b"x" * (11 * 1024**2)
    etag = _put(bucket, "in/a b+c", body)
    calls = _calls(bucket, copy_max_bytes=copy_max_bytes)
    assert calls.move("in/a b+c", etag, "done/a b+c")
    assert _keys(bucket) == ["done/a b+c"]
    found = aws.s3().get_object(Bucket=bucket, Key="done/a b+c")
    assert (found["Body"].read() == body, found["ContentType"]) == (True, "text/x")
    assert found["Metadata"].pop("headrace-moved") == etag
    assert found["Metadata"] == {"who": "me"}
    assert _tags(bucket, "done/a b+c") == {"team": "a"}


def test_a_move_that_was_cut_behind_its_copy_is_finished(bucket: str) -> None:
    """What has the target's key is the same content: only the delete is left."""
    etag = _put(bucket, "in/a")
    _put(bucket, "done/a")

    assert _calls(bucket).move("in/a", etag, "done/a")
    assert _keys(bucket) == ["done/a"]


@pytest.mark.parametrize("fault", ["before the tags", "before the delete"])
def test_a_move_in_parts_that_was_cut_behind_its_copy_is_finished(bucket: str, fault: str) -> None:
    """A copy in parts has another ETag: it was taken for other content, and stayed beside a second copy."""
    body = b"x" * (6 * 1024**2)
    etag = _put(bucket, "in/a", body)
    cut = {
        "before the tags": lambda request: request.method == "PUT" and "tagging" in request.path,
        "before the delete": lambda request: request.method == "DELETE",
    }
    with Proxy(aws.address()) as proxy:
        proxy.on(Answer(status=503), when=cut[fault])
        with pytest.raises(SourceUnavailable):
            _calls(bucket, copy_max_bytes=5 * 1024**2, endpoint=proxy.url).move("in/a", etag, "done/a")
    assert _keys(bucket) == ["done/a", "in/a"]

    assert _calls(bucket, copy_max_bytes=5 * 1024**2).move("in/a", etag, "done/a")

    assert _keys(bucket) == ["done/a"]
    assert aws.s3().get_object(Bucket=bucket, Key="done/a")["Body"].read() == body
    assert _tags(bucket, "done/a") == {"team": "a"}


@pytest.fixture
def archive() -> Iterator[str]:
    """A second bucket, to which objects move."""
    name = aws.unique("archive")
    aws.s3().create_bucket(Bucket=name)
    yield name
    for key in _keys(name):
        aws.s3().delete_object(Bucket=name, Key=key)
    aws.s3().delete_bucket(Bucket=name)


@pytest.mark.parametrize("copy_max_bytes", [5 * 1024**3, 5 * 1024**2], ids=["whole", "in parts"])
def test_an_object_moves_to_another_bucket(bucket: str, archive: str, copy_max_bytes: int) -> None:
    """With what it has; it goes beside other content that has its key there."""
    body = b"x" * (6 * 1024**2)
    _put(archive, "old/b", b"other\n")
    calls = _calls(bucket, copy_max_bytes=copy_max_bytes, target_bucket=archive)
    first, second = _put(bucket, "in/a", body), _put(bucket, "in/b", body)

    assert calls.move("in/a", first, "old/a")
    assert calls.move("in/b", second, "old/b")

    assert _keys(bucket) == []
    assert _keys(archive) == ["old/a", "old/b", f"old/b.{second}"]
    found = aws.s3().get_object(Bucket=archive, Key="old/a")
    assert (found["Body"].read() == body, found["ContentType"]) == (True, "text/x")
    assert found["Metadata"] == {"who": "me", "headrace-moved": first}
    assert _tags(archive, "old/a") == {"team": "a"}


@pytest.mark.parametrize("where", ["in the bucket", "in another"])
def test_a_move_is_finished_whatever_the_copys_etag_is(bucket: str, archive: str, where: str) -> None:
    """Cut between copy and delete: of uploads in parts, and with KMS, a copy has an ETag of its own."""
    target = bucket if where == "in the bucket" else archive
    etag = _put(bucket, "in/a")
    with Proxy(aws.address()) as proxy:
        proxy.on(Answer(status=503), when=lambda request: request.method == "DELETE")
        with pytest.raises(SourceUnavailable):
            _calls(bucket, endpoint=proxy.url, target_bucket=target).move("in/a", etag, "old/a")
    copied = aws.s3().head_object(Bucket=target, Key="old/a")
    aws.s3().put_object(Bucket=target, Key="old/a", Body=b"encrypted otherwise", Metadata=copied["Metadata"])
    assert "in/a" in _keys(bucket)

    assert _calls(bucket, target_bucket=target).move("in/a", etag, "old/a")

    assert {*_keys(bucket), *_keys(archive)} == {"old/a"}


def test_a_bucket_that_is_not_there_takes_nothing(bucket: str) -> None:
    """The object stays, and the error names the place."""
    etag = _put(bucket, "in/a")

    with pytest.raises(HeadraceError, match="s3://no-such-bucket-of-ours/a"):
        _calls(bucket, target_bucket="no-such-bucket-of-ours").move("in/a", etag, "a")
    assert _keys(bucket) == ["in/a"]


def test_a_tag_stands_beside_others(bucket: str) -> None:
    """However often it is put."""
    etag = _put(bucket, "in/a")
    calls = _calls(bucket)

    assert calls.tag("in/a", etag, "read", "yes")
    assert calls.tag("in/a", etag, "read", "yes")
    assert _tags(bucket, "in/a") == {"team": "a", "read": "yes"}


def test_s3_is_asked_to_delete_only_what_was_read(bucket: str) -> None:
    """Whoever writes between the look and the delete loses nothing: S3 refuses the delete (412)."""
    etag = _put(bucket, "in/a")
    with Proxy(aws.address().removeprefix("http://")) as proxy:
        proxy.on(
            Answer(status=412, body=b"<Error><Code>PreconditionFailed</Code></Error>"),
            when=lambda request: (
                request.method == "DELETE" and request.headers.get("if-match") == f'"{etag}"'
            ),
        )
        calls = _calls(bucket, endpoint=proxy.url, is_unconditional=False)

        assert not calls.delete("in/a", etag)
    assert _keys(bucket) == ["in/a"]


@pytest.mark.parametrize("copy_max_bytes", [5 * 1024**3, 5 * 1024**2], ids=["whole", "in parts"])
def test_who_pays_is_said_in_each_request(bucket: str, copy_max_bytes: int) -> None:
    """S3 answers 403 to any other of a bucket whose requester pays."""
    etag = _put(bucket, "in/a", b"x" * (11 * 1024**2))
    with Proxy(aws.address().removeprefix("http://")) as proxy:
        calls = _calls(bucket, endpoint=proxy.url, copy_max_bytes=copy_max_bytes, requester_pays=True)

        assert calls.tag("in/a", etag, "read", "yes")
        assert calls.move("in/a", etag, "done/a")
        unsaid = [each for each in proxy.requests if each.headers.get("x-amz-request-payer") != "requester"]

    assert proxy.requests
    assert unsaid == []
    assert _keys(bucket) == ["done/a"]


def test_a_store_without_conditional_deletes_is_named(bucket: str) -> None:
    """And nothing is deleted unless somebody says that keys are never overwritten."""
    etag = _put(bucket, "in/a")

    with pytest.raises(InvalidConfiguration, match=r"post\.action\.unconditional"):
        _calls(bucket, is_unconditional=False).delete("in/a", etag)
    assert _keys(bucket) == ["in/a"]
