"""What S3 refuses of a post-action for good: said so, with its words, and not asked for again and again."""

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.model.errors import AccessDenied, HeadraceError, ObjectError, SourceUnavailable
from headrace.options.settings import BackoffSettings
from headrace.s3.post_action_calls import PostActionCalls
from headrace.s3.s3_calls import S3Calls

_HEAD = {"ETag": '"e"', "LastModified": datetime(2026, 1, 1, tzinfo=UTC), "ContentLength": 3}


def _refused(operation: str, code: str, status: int, message: str = "") -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, operation)


class Store:
    """A bucket with what is under `in/`, whose objects have so many tags, and refusals."""

    def __init__(
        self, *, tags: int = 0, refusal: tuple[str, int, str] = ("", 0, ""), taken: str = ""
    ) -> None:
        self._tags = tags
        self._refusal = refusal
        self._taken = taken
        self.calls: list[str] = []

    def head_object(self, **given: Any) -> Any:
        """What is there; of a key that is too long what S3 says to a HEAD."""
        self.calls.append("HeadObject")
        if len(given["Key"].encode()) > 1024:
            raise _refused("HeadObject", "400", 400, "Bad Request")
        if given["Key"] == self._taken:
            return {**_HEAD, "ETag": '"other"'}
        if not given["Key"].startswith("in/"):
            raise _refused("HeadObject", "404", 404)
        return _HEAD

    def get_object_tagging(self, **_: Any) -> Any:
        """The tags."""
        return {"TagSet": [{"Key": f"k{number}", "Value": "v"} for number in range(self._tags)]}

    def put_object_tagging(self, **_: Any) -> Any:
        """The refusal, if there is one."""
        return self._answer("PutObjectTagging")

    def copy_object(self, **_: Any) -> Any:
        """The refusal, if there is one."""
        return self._answer("CopyObject")

    def _answer(self, operation: str) -> Any:
        self.calls.append(operation)
        if self._refusal[0]:
            raise _refused(operation, *self._refusal)
        return {}


def _error(store: Store, action: str, *, key: str = "in/a", target: str = "done/a") -> HeadraceError:
    calls = _calls(store)

    def act() -> None:
        if action == "tag":
            calls.tag(key, "e", "read", "yes")
        else:
            calls.copy(key, "e", target)

    with pytest.raises(HeadraceError) as raised:
        act()
    return raised.value


def _calls(store: Store) -> PostActionCalls:
    backoff = BackoffSettings(delay_ms=1, max_delay_ms=1, max_retries=2)
    return PostActionCalls(store, S3Calls(store, backoff=backoff, requester_pays=False), bucket="b")


def test_an_object_with_ten_tags_gets_no_other() -> None:
    """S3 takes no eleventh: it is not asked."""
    store = Store(tags=10)
    error = _error(store, "tag")

    assert isinstance(error, ObjectError)
    assert str(error).startswith("s3://b/in/a gets no tag 'read': it has 10 already")
    assert store.calls == ["HeadObject"]


@pytest.mark.parametrize("tags", [9, 11])
def test_a_tag_that_there_is_room_for(tags: int) -> None:
    """A store with more than ten of an object takes more than S3."""
    store = Store(tags=tags)
    assert _calls(store).tag("in/a", "e", "read", "yes")
    assert store.calls == ["HeadObject", "PutObjectTagging"]


@pytest.mark.parametrize(
    ("target", "taken", "size", "heads"),
    [
        ("done/" + "x" * 1020, "", "1,025", 1),
        ("done/" + "\u00e9" * 510, "", "1,025", 1),
        ("done/" + "x" * 1018, "done/" + "x" * 1018, "1,025", 3),
    ],
    ids=["long", "in UTF-8", "with its ETag"],
)
def test_a_key_that_s3_has_no_room_for(target: str, taken: str, size: str, heads: int) -> None:
    """Its HEAD is answered by 400, which was said to be of credentials that are not valid."""
    store = Store(taken=taken)
    error = _error(store, "move", target=target)

    assert isinstance(error, ObjectError)
    assert f"s3://b/in/a stays where it is: the key that it moves to has {size} bytes" in str(error)
    assert store.calls == ["HeadObject"] * heads


@pytest.mark.parametrize(("action", "operation"), [("tag", "PutObjectTagging"), ("move", "CopyObject")])
@pytest.mark.parametrize(
    ("refusal", "kind", "says", "attempts"),
    [
        (
            ("InvalidStorageClass", 400, "Not valid."),
            ObjectError,
            "is refused (InvalidStorageClass): Not v",
            1,
        ),
        (("BadRequest", 400, ""), ObjectError, "is refused (BadRequest).", 1),
        (("AccessDenied", 403, "No right to"), AccessDenied, "is refused (AccessDenied): No right to.", 1),
        (("RequestTimeout", 400, "Too slow"), SourceUnavailable, "for now (RequestTimeout): Too slow.", 3),
        (("IncompleteBody", 400, "Cut"), SourceUnavailable, "for now (IncompleteBody): Cut.", 3),
        (("ThrottlingException", 400, ""), SourceUnavailable, "for now (ThrottlingException)", 3),
        (("InternalError", 500, "Oh"), SourceUnavailable, "for now (InternalError): Oh.", 3),
    ],
)
def test_a_refusal_has_s3s_words_and_is_for_now_only_where_it_passes(
    action: str,
    operation: str,
    refusal: tuple[str, int, str],
    kind: type[HeadraceError],
    says: str,
    attempts: int,
) -> None:
    """A request that is bad is bad the next time, too."""
    store = Store(refusal=refusal)
    error = _error(store, action)

    assert type(error) is kind
    assert says in str(error)
    assert ("for now" in str(error)) == (attempts > 1)
    assert store.calls.count(operation) == attempts
