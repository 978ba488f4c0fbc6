"""The calls of `post.action`, held against the policy that is printed for it: nothing lacks, nothing is over.

A client of botocore whose requests are answered in memory; what is not allowed is refused as IAM does.
"""

import fnmatch
import io
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from headrace.model.errors import AccessDenied, HeadraceError
from headrace.model.objects import PostActionKind
from headrace.options import Settings
from headrace.s3.client import new_s3_client
from headrace.s3.post_action_calls import PostActionCalls
from headrace.s3.s3_calls import S3Calls
from ingest.checks.findings.iam_policy import policies
from tests.ingest.checks.findings.configured import configured
from tests.support.iam_proxy import actions_of
from tests.support.proxy import Request

_Needs = tuple[str, str]
_ETAG: Final = "0123456789abcdef0123456789abcdef"
_OTHER: Final = "f" * 32
_SIZE: Final = 10
_TAGS: Final = b"<Tagging><TagSet><Tag><Key>team</Key><Value>a</Value></Tag></TagSet></Tagging>"
_OWN: Final = "bucket/in/a"


class _Body(io.BytesIO):
    def stream(self) -> Iterator[bytes]:
        yield self.read()


@dataclass(slots=True)
class _S3:
    """Objects by `bucket/key` with their ETags; `needed` is what calls have to be allowed."""

    statements: list[dict[str, Any]]
    objects: dict[str, str]
    version: str | None = None
    fails_parts: bool = False
    needed: set[_Needs] = field(default_factory=set)
    refused: set[_Needs] = field(default_factory=set)

    def answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """What S3 says of a request."""
        address = urllib.parse.urlsplit(request.url)
        place = urllib.parse.unquote(address.path).lstrip("/")
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        for action, where in self._needs(request.method, request.url, place, headers):
            self.needed.add((action, where))
            if not self._allows(action, where):
                self.refused.add((action, where))
                return _answered(request, 403, _error("AccessDenied"))
        status, body, more = self._done(request.method, address.query, place)
        return _answered(request, status, body, more)

    def _needs(self, method: str, url: str, place: str, headers: dict[str, str]) -> list[_Needs]:
        path = url.partition("127.0.0.1:1")[2]
        found = actions_of(Request(method=method, path=path, headers=headers))
        source = urllib.parse.unquote(headers.get("x-amz-copy-source", "")).lstrip("/")
        needs = [
            (each, source if source and each == "s3:GetObject" else place)
            for each in sorted(found - {"s3:PutObjectTagging"} if source else found)
        ]
        if source and "partNumber" not in url:
            # The object has tags, which such a copy takes along.
            needs += [("s3:GetObjectTagging", source), ("s3:PutObjectTagging", place)]
        if method == "HEAD" and place not in self.objects:
            needs.append(("s3:ListBucket", place.partition("/")[0]))
        if self.version is not None and "versionId=" in url:
            needs = [(each.replace("ObjectTagging", "ObjectVersionTagging"), where) for each, where in needs]
        return needs

    def _allows(self, action: str, where: str) -> bool:
        """Whether a statement does. Without a listing there is no prefix that a condition could hold of."""
        for statement in self.statements:
            places = statement["Resource"]
            if action in statement["Action"] and not (action == "s3:ListBucket" and "Condition" in statement):
                for place in [places] if isinstance(places, str) else places:
                    if fnmatch.fnmatchcase(f"arn:aws:s3:::{where}", place):
                        return True
        return False

    def _done(self, method: str, query: str, place: str) -> tuple[int, bytes, dict[str, str]]:
        """The answer to a request that is allowed."""
        if method == "HEAD":
            return (404, b"", {}) if place not in self.objects else (200, b"", self._described(place))
        if method == "DELETE":
            self.objects.pop("" if "uploadId" in query else place, None)
            return 204, b"", {}
        if "tagging" in query:
            return 200, _TAGS if method == "GET" else b"", {}
        return self._written(method, query, place)

    def _written(self, method: str, query: str, place: str) -> tuple[int, bytes, dict[str, str]]:
        if "partNumber" in query and self.fails_parts:
            return 400, _error("InvalidRequest"), {}
        if "partNumber" in query:
            return 200, f"<CopyPartResult><ETag>{_ETAG}</ETag></CopyPartResult>".encode(), {}
        if method == "POST" and "uploadId" not in query:
            return 200, b"<R><UploadId>u</UploadId></R>", {}
        self.objects[place] = _ETAG
        return 200, f"<CopyObjectResult><ETag>{_ETAG}</ETag></CopyObjectResult>".encode(), {}

    def _described(self, place: str) -> dict[str, str]:
        found = {
            "ETag": f'"{self.objects[place]}"',
            "Content-Length": str(_SIZE),
            "Last-Modified": "Wed, 21 Oct 2026 07:28:00 GMT",
        }
        return found if self.version is None else found | {"x-amz-version-id": self.version}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()


def _answered(
    request: AWSPreparedRequest, status: int, body: bytes, headers: dict[str, str] | None = None
) -> AWSResponse:
    given: Any = headers or {}
    return AWSResponse(request.url, status, given, _Body(b"" if request.method == "HEAD" else body))


@contextmanager
def _calls(settings: Settings, s3: _S3, *, copy_max_bytes: int) -> Iterator[PostActionCalls]:
    client = new_s3_client(settings.s3).client
    client.meta.events.register("before-send.s3", s3.answer)
    assert settings.post_action is not None
    try:
        yield PostActionCalls(
            client,
            S3Calls(client, backoff=settings.s3.backoff, requester_pays=False),
            bucket="bucket",
            target_bucket=settings.post_action.moves_to[0],
            is_unconditional=False,
            copy_max_bytes=copy_max_bytes,
        )
    finally:
        client.close()


@dataclass(frozen=True, slots=True)
class _Case:
    """An option, and what is where when it is carried out."""

    action: str
    objects: tuple[tuple[str, str], ...] = ()
    version: str | None = None
    copy_max_bytes: int = 5 * 1024**3
    fails_parts: bool = False


_CASES: Final = {
    "delete": [_Case("delete"), _Case("delete", version="1")],
    "tag": [_Case("tag:done=yes"), _Case("tag:done=yes", version="1")],
    "move": [
        _Case("move:done/"),
        _Case("move:done/", objects=(("bucket/done/in/a", _OTHER),)),
        _Case("move:done/", objects=(("bucket/done/in/a", _ETAG),)),
        _Case("move:done/", copy_max_bytes=1),
        _Case("move:done/", copy_max_bytes=1, fails_parts=True),
    ],
    "move to another bucket": [
        _Case("move:s3://cold/done/"),
        _Case("move:s3://cold/done/", objects=(("cold/done/in/a", _OTHER),)),
        _Case("move:s3://cold/done/", copy_max_bytes=1),
        _Case("move:s3://cold/done/", copy_max_bytes=1, fails_parts=True),
    ],
    "move to the top of another bucket": [
        _Case("move:s3://cold/"),
        _Case("move:s3://cold/", copy_max_bytes=1, fails_parts=True),
    ],
}


def _settings(action: str) -> Settings:
    return configured(
        {
            "post.action": action,
            "aws.s3.prefix": "in/",
            "aws.s3.endpoint": "http://127.0.0.1:1",
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "aws.s3.backoff.max.retries": "0",
        }
    )


def _act(calls: PostActionCalls, settings: Settings) -> Callable[[], bool]:
    action = settings.post_action
    assert action is not None
    if action.kind is PostActionKind.DELETE:
        return lambda: calls.delete("in/a", _ETAG)
    if action.kind is PostActionKind.TAG:
        return lambda: calls.tag("in/a", _ETAG, *action.target.split("=", 1))
    return lambda: calls.move("in/a", _ETAG, f"{action.moves_to[1]}in/a")


def _needed(case: _Case, *, without: str | None = None) -> set[_Needs]:
    """What the calls needed to be allowed; AccessDenied where the policy `without` one action lacks it."""
    settings = _settings(case.action)
    statements = [
        {**each, "Action": [name for name in each["Action"] if f"{each['Sid']} {name}" != without]}
        for each in policies(settings)["run"]["Statement"]
    ]
    objects = {_OWN: _ETAG, **dict(case.objects)}
    s3 = _S3(statements, objects, version=case.version, fails_parts=case.fails_parts)
    with _calls(settings, s3, copy_max_bytes=case.copy_max_bytes) as calls:
        try:
            assert _act(calls, settings)() or case.fails_parts
        except HeadraceError:
            if not case.fails_parts and not s3.refused:
                raise
    if s3.refused:
        raise AccessDenied(", ".join(sorted(f"{action} on {where}" for action, where in s3.refused)))
    return s3.needed


@pytest.mark.parametrize("name", sorted(_CASES))
def test_post_action_is_allowed_what_it_does(name: str) -> None:
    """Object by object: nothing that it calls is refused."""
    for case in _CASES[name]:
        assert _needed(case)


def _statements(name: str) -> list[str]:
    """The actions that the option brings, as `Sid action`."""
    settings = _settings(_CASES[name][0].action)
    own = {"list", "objects", "queue"}
    added = [each for each in policies(settings)["run"]["Statement"] if each["Sid"] not in own]
    return [f"{each['Sid']} {action}" for each in added for action in each["Action"]]


@pytest.mark.parametrize(
    ("name", "action"), [(name, action) for name in sorted(_CASES) for action in _statements(name)]
)
def test_every_action_of_the_policy_is_needed(name: str, action: str) -> None:
    """Without it, one of the calls is refused: the policy is the least one."""
    assert any(_is_refused(case, without=action) for case in _CASES[name])


def _is_refused(case: _Case, *, without: str) -> bool:
    try:
        _needed(case, without=without)
    except AccessDenied:
        return True
    return False
