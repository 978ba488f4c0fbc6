"""A search of a folder that fails is a problem that is seen, and over when it succeeds."""

import queue
import threading
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

import pytest

from ingest.http.http_server import HttpServer, Request, Response
from ingest.service.service_events import ComponentProblem
from ingest.service.tombstone_search import PROBLEM, TombstoneSearch
from ingest.source.catalogue.tombstones import FolderPlaces
from tests.headrace.options.loading import load_with

_DENIED: Final = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
_EMPTY: Final = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


class _Bucket:
    """S3 with an empty bucket, that may not be listed at first."""

    def __init__(self) -> None:
        self.is_allowed = threading.Event()

    def answer(self, _request: Request) -> Response:
        """What S3 says to a listing."""
        if self.is_allowed.is_set():
            return Response(HTTPStatus.OK, "application/xml", _EMPTY)
        return Response(HTTPStatus.FORBIDDEN, "application/xml", _DENIED)


@pytest.fixture
def bucket() -> Iterator[tuple[_Bucket, str]]:
    """The bucket and its endpoint."""
    made = _Bucket()
    server = HttpServer("127.0.0.1", 0, made.answer, option="s3", methods=None)
    server.start()
    yield made, f"http://127.0.0.1:{server.port}"
    server.close()


def test_a_search_that_fails_again_is_a_problem_until_it_succeeds(bucket: tuple[_Bucket, str]) -> None:
    """With the folder, the reason and what to do: value objects wait for it, and everything was green."""
    s3, endpoint = bucket
    bare: dict[str, str | None] = {"topic": None, "file.name.template": None}
    bare |= {"aws.access.key.id": "test", "aws.secret.access.key": "test"}
    given = {"input.layout": "confluent", "aws.s3.endpoint": endpoint, "restore.tombstones": "proven"}
    posted: queue.SimpleQueue[FolderPlaces | ComponentProblem] = queue.SimpleQueue()
    cache: Any = None
    search = TombstoneSearch(load_with({**bare, **given}), posted.put, cache=cache, again_seconds=0.01)
    try:
        search.request("topics/t/")
        problem = posted.get(timeout=60)
        assert isinstance(problem, ComponentProblem)
        assert problem.component == PROBLEM
        assert "/topics/t/ wait" in str(problem.sentence)
        assert "AccessDenied" in str(problem.sentence)
        assert "restore.tombstones" in str(problem.sentence)

        s3.is_allowed.set()
        while isinstance(found := posted.get(timeout=60), ComponentProblem):
            assert found.sentence is not None
        assert found == FolderPlaces(folder="topics/t/")
        assert posted.get(timeout=60) == ComponentProblem(PROBLEM, None)
    finally:
        search.close()
