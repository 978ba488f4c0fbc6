"""Which error of botocore or aiohttp becomes which of ours."""

import asyncio
import inspect

import aiohttp
import pytest
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    ObjectForbidden,
    ObjectMissing,
    ResourceMissing,
    SourceUnavailable,
)
from listeners.discovery_events import is_lasting, translated_errors
from tests.support.listening import service_error

URL = "http://endpoint"
CASES: list[tuple[str, BaseException, type[HeadraceError]]] = [
    ("throttled", service_error("SlowDown", 503), SourceUnavailable),
    ("500", service_error("InternalError", 500), SourceUnavailable),
    ("unheard of", service_error("SomethingNew", 400), SourceUnavailable),
    ("throttled by a 403", service_error("RequestThrottled", 403), SourceUnavailable),
    ("another 403", service_error("RequestTimeTooSkewed", 403), AccessDenied),
    ("denied", service_error("AccessDenied", 403), AccessDenied),
    ("expired", service_error("ExpiredToken", 400), AccessDenied),
    ("wrong secret", service_error("SignatureDoesNotMatch", 403), AccessDenied),
    ("no bucket", service_error("NoSuchBucket", 404), ResourceMissing),
    ("no queue", service_error("AWS.SimpleQueueService.NonExistentQueue", 400), ResourceMissing),
    ("refused", boto.EndpointConnectionError(endpoint_url=URL), SourceUnavailable),
    ("reset", boto.ConnectionClosedError(endpoint_url=URL), SourceUnavailable),
    ("no connection in time", boto.ConnectTimeoutError(endpoint_url=URL), SourceUnavailable),
    ("no answer in time", boto.ReadTimeoutError(endpoint_url=URL), SourceUnavailable),
    ("bad certificate", boto.SSLError(endpoint_url=URL, error=OSError("x")), SourceUnavailable),
    ("cut body", ResponseParserError("unclosed token"), SourceUnavailable),
    ("aiohttp's own", aiohttp.ClientPayloadError("cut"), SourceUnavailable),
    ("time out", TimeoutError(), SourceUnavailable),
    ("no file handles", OSError(24, "Too many open files"), SourceUnavailable),
]


@pytest.mark.parametrize(("error", "kind"), [pytest.param(e, k, id=name) for name, e, k in CASES])
def test_translation(error: Exception, kind: type[HeadraceError]) -> None:
    """By class and code; the subject is named and the cause kept."""
    with pytest.raises(HeadraceError) as caught, translated_errors("queue q"):
        raise error
    assert type(caught.value) is kind
    assert str(caught.value).startswith("queue q")
    assert caught.value.__cause__ is error
    assert is_lasting(caught.value) is issubclass(kind, AccessDenied)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("a bug"), id="bug"),
        pytest.param(boto.ParamValidationError(report="a bug"), id="wrong call"),
        pytest.param(asyncio.CancelledError(), id="cancelled"),
    ],
)
def test_bugs_and_cancellation_pass(error: BaseException) -> None:
    """What no outside can cause is not hidden."""
    with pytest.raises(type(error)), translated_errors("queue q"):
        raise error


def test_every_connection_error_of_botocore_is_known() -> None:
    """A new class below botocore's connection errors would otherwise end the process as a bug."""
    families = (boto.HTTPClientError, boto.ConnectionError)
    classes = [c for _, c in inspect.getmembers(boto, inspect.isclass) if issubclass(c, families)]
    assert len(classes) >= 8
    for found in classes:
        with pytest.raises(SourceUnavailable), translated_errors("it"):
            raise found(endpoint_url=URL, proxy_url=URL, error=OSError("x"), request=None)


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        pytest.param("404", 404, ObjectMissing, id="missing"),
        pytest.param("403", 403, ObjectForbidden, id="forbidden"),
        pytest.param("405", 405, SourceUnavailable, id="not S3's"),
        pytest.param("503", 503, SourceUnavailable, id="503"),
        pytest.param("ExpiredToken", 400, AccessDenied, id="expired"),
    ],
)
def test_a_head_is_about_its_object(code: str, status: int, kind: type[HeadraceError]) -> None:
    """A HEAD's errors have no body, only a status."""
    with pytest.raises(kind, match="s3://b/k"), translated_errors("s3://b/k"):
        raise service_error(code, status, "HeadObject")
