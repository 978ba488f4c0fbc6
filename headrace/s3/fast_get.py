"""GETs without what botocore does for each: its model, its rules for endpoints, its events, its signing.

botocore is asked once for each bucket what it would send, and from then on the same is sent without it. What
is unusual stays botocore's for good, and so does a bucket that answers with a redirect. Requests without a
body are signed as AWS Signature Version 4 has it:
https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import hashlib
import hmac
import http.client
import io
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.httpsession import get_cert_path

from headrace.aws.aws_credentials import SigningCredentials
from headrace.aws.aws_errors import MARKER_HEADER, AwsRefusal, classify, refusal, told_by_header
from headrace.s3.client import BOTOCORES, GetAnswer, GetRequest, translate_s3, unreachable, verifying
from headrace.s3.connections import LENGTH_DIGITS, Asked, Connections, Origin, Reply

T = TypeVar("T")

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_NO_BODY: Final = hashlib.sha256(b"").hexdigest()


class Keys(NamedTuple):
    """The credentials of one moment; `token` is what temporary ones have in addition."""

    access_key: str
    secret_key: str
    token: str | None = None


class _Hmac:
    """HMAC-SHA256 (RFC 2104) of short texts with one key, of no more than a block.

    The library's lets go of the interpreter for each, and eight threads that fetch wait for it.
    """

    def __init__(self, key: bytes) -> None:
        block = key.ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def hexdigest(self, text: bytes) -> str:
        """The code of `text`; any thread may ask."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.hexdigest()


class Signer:
    """Signs GETs for one region; thread-safe, and blocks for nothing."""

    def __init__(self, region: str) -> None:
        self._region = region
        # The key of a day and a secret, whose making costs as much as the rest. One reference is replaced at
        # once, so threads need no lock.
        self._made: tuple[str, str, _Hmac] = ("", "", _Hmac(b""))

    def signed(
        self, headers: Mapping[str, str], *, path: str, query: str, keys: Keys, at: str
    ) -> dict[str, str]:
        """`headers` (names in lower case, with `host`) and those that sign them and the request.

        `path` and `query` are as they will be sent, escaped; `at` is the time as `20260102T030405Z`.
        """
        signed = {**headers, "x-amz-content-sha256": _NO_BODY, "x-amz-date": at}
        if keys.token:
            signed["x-amz-security-token"] = keys.token
        names = sorted(signed)
        canonical = "".join([f"{name}:{signed[name]}\n" for name in names])
        signed_names = ";".join(names)
        # S3 takes the path as it is: "." and ".." are parts of keys.
        request = f"GET\n{path}\n{query}\n{canonical}\n{signed_names}\n{_NO_BODY}"
        scope = f"{at[:8]}/{self._region}/s3/aws4_request"
        text = f"{_ALGORITHM}\n{at}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = self._key(keys.secret_key, at[:8]).hexdigest(text.encode())
        signed["authorization"] = (
            f"{_ALGORITHM} Credential={keys.access_key}/{scope}, "
            f"SignedHeaders={signed_names}, Signature={signature}"
        )
        return signed

    def _key(self, secret: str, day: str) -> "_Hmac":
        made = self._made
        if made[:2] == (secret, day):
            return made[2]
        key = f"AWS4{secret}".encode()
        for part in (day, self._region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        self._made = (secret, day, _Hmac(key))
        return self._made[2]


_PORTS: Final = {"http": 80, "https": 443}
_CREDENTIAL: Final = re.compile(r"AWS4-HMAC-SHA256 Credential=.+/\d{8}/([a-z0-9-]+)/s3/aws4_request, ")
# Directory buckets have sessions of their own, and an ARN may mean several regions.
_OTHER_BUCKETS: Final = re.compile(r":|--x-s3$|--xa-s3$")
# Printable, without spaces and quotes: what is signed as it is sent.
_PLAIN_ETAG: Final = re.compile(r"[!#-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How to ask for the objects of a bucket. `region` is None when requests are not signed."""

    origin: Origin
    host: str
    """The header: with the port unless it is the scheme's own."""
    prefix: str
    """What is before the key in the path, with its slash."""
    region: str | None
    user_agent: str

    def path(self, asked: GetRequest) -> str:
        """The path, as it is sent and signed."""
        return self.prefix + _path(asked.key)

    def headers(self, asked: GetRequest) -> dict[str, str]:
        """The headers that are signed, names in lower case."""
        # As `Asked.parameters` says it to botocore.
        headers = {"host": self.host, "if-match": f'"{asked.etag}"'}
        if asked.range is not None:
            headers["range"] = asked.range
        if asked.requester_pays:
            headers["x-amz-request-payer"] = "requester"
        return headers


def is_supported(asked: GetRequest) -> bool:
    """Whether the fast path can send this at all; what is unusual is botocore's."""
    return bool(asked.key) and _PLAIN_ETAG.fullmatch(asked.etag) is not None


def query_of(asked: GetRequest) -> str:
    """The query, as it is sent and signed; empty for none."""
    return "" if asked.version_id is None else f"versionId={quote(asked.version_id, safe='~')}"


def endpoint_of(url: str, headers: Mapping[str, str], asked: GetRequest) -> Endpoint | None:
    """The endpoint of botocore's request for `asked` (names in lower case); None for any other kind."""
    address = urlsplit(url)
    own = _path(asked.key)
    if (
        _OTHER_BUCKETS.search(asked.bucket)
        or address.scheme not in _PORTS
        or address.hostname is None
        or "@" in address.netloc
        or address.query != query_of(asked)
        or not address.path.endswith(f"/{own}")
    ):
        return None
    region = None
    if "authorization" in headers:
        found = _CREDENTIAL.match(headers["authorization"])
        if found is None:
            return None
        region = found[1]
    port = address.port or _PORTS[address.scheme]
    host = f"[{address.hostname}]" if ":" in address.hostname else address.hostname
    return Endpoint(
        origin=Origin(address.scheme, address.hostname, port),
        host=host if port == _PORTS[address.scheme] else f"{host}:{port}",
        prefix=address.path.removesuffix(own),
        region=region,
        user_agent=headers.get("user-agent", ""),
    )


def _path(key: str) -> str:
    return quote(key, safe="/~")


_GET: Final = "GetObject"
_OK: Final = 200
_NOT_OK: Final = 300
_REDIRECTS: Final = frozenset({301, 302, 307})
_REDIRECT_CODES: Final = frozenset(
    {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
# An error's code stands at the beginning of its document, and documents are short.
_ERROR_BYTES: Final = 16 * 1024
# No parser: what comes from a stranger is searched for one word, and nothing in it is expanded.
_CODE: Final = re.compile(rb"<Error\b.*?<Code>([A-Za-z0-9_.-]{1,128})</Code>", re.DOTALL)
# What botocore adds about its own retries.
_ITS_OWN: Final = frozenset({"amz-sdk-invocation-id", "amz-sdk-request"})


@dataclass(frozen=True, slots=True)
class _Known:
    endpoint: Endpoint
    signer: Signer | None
    connections: Connections


class FastGet:
    """GETs in place of a client's, signed with the same `credentials`; thread-safe.

    Makes no connection before it is asked for an object.
    """

    def __init__(self, client: Any, credentials: SigningCredentials) -> None:
        self._client = client
        self._credentials = credentials
        self._http: Any = client._endpoint.http_session  # noqa: SLF001  # knows what verifies, and the proxies
        # By bucket; None is botocore's for good. Replaced whole, entry by entry: no lock.
        self._buckets: dict[str, _Known | None] = {}
        self._origins: dict[Origin, Connections] = {}
        self._asking = threading.local()
        # A second and its text. One reference is replaced at once, so threads need no lock.
        self._written = (0, "")
        client.meta.events.register("before-send.s3.GetObject", self._intercept)

    def get(self, asked: GetRequest) -> GetAnswer | None:
        """S3's answer, its body unread; None when botocore has to ask: nothing was sent, or a redirect came.

        One request, and another one only where the credentials of the first have expired; blocks. Raises
        classes of `headrace.model.errors`.
        """
        if not is_supported(asked):
            return None
        if asked.bucket not in self._buckets:
            self._learn(asked)
        known = self._buckets.get(asked.bucket)
        if known is None:
            return None
        return self._judged(self._send(asked, known, known.connections.get), asked)

    def begin(self, asked: GetRequest) -> "BegunGet | None":
        """The GET, sent; None where it is to be sent by `get`, which knows the bucket and connects.

        Waits for no answer. Raises as `get`, for what could not be sent.
        """
        known = self._buckets.get(asked.bucket)
        if known is None or not is_supported(asked):
            return None
        sent = self._send(asked, known, known.connections.ask)
        return None if sent is None else BegunGet(self, asked, sent)

    def answer(self, asked: GetRequest, sent: Asked) -> GetAnswer | None:
        """What `get` gives and raises, of a GET that was begun; blocks."""
        try:
            reply = sent.reply()
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(error, what=asked.what) from error
        return self._judged(reply, asked)

    def _judged(self, reply: Reply, asked: GetRequest, *, is_repeated: bool = False) -> GetAnswer | None:
        if reply.status < _NOT_OK:
            return _answer(reply, asked)
        code = _code(reply, asked)
        if reply.status in _REDIRECTS or code in _REDIRECT_CODES:
            self._buckets[asked.bucket] = None
            return None
        if classify(code, reply.status, _GET) is AwsRefusal.CREDENTIALS:
            self._credentials.forget()
            known = self._buckets.get(asked.bucket)
            if known is not None and not is_repeated:
                return self._judged(self._send(asked, known, known.connections.get), asked, is_repeated=True)
        raise refusal(code, reply.status, _GET, what=asked.what)

    def _send(self, asked: GetRequest, known: _Known, send: Callable[[str, Mapping[str, str]], T]) -> T:
        second = int(time.time())
        if second != self._written[0]:
            self._written = second, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        at = self._written[1]
        path, query = known.endpoint.path(asked), query_of(asked)
        try:
            headers = self._headers(asked, known.endpoint, known.signer, path=path, query=query, at=at)
            return send(f"{path}?{query}" if query else path, headers)
        except BOTOCORES as error:
            raise translate_s3(error, what=asked.what) from error
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(error, what=asked.what) from error
        except ValueError as error:
            # http.client quotes the header it refuses, which may be a secret: the chain ends here.
            raise unreachable(error, what=asked.what) from None

    def _headers(
        self, asked: GetRequest, endpoint: Endpoint, signer: Signer | None, *, path: str, query: str, at: str
    ) -> dict[str, str]:
        headers = endpoint.headers(asked)
        if signer is not None:
            # Asked for each time: this is where roles and profiles are renewed.
            frozen = self._credentials.get_frozen_credentials()
            keys = Keys(frozen.access_key or "", frozen.secret_key or "", frozen.token)
            headers = signer.signed(headers, path=path, query=query, keys=keys, at=at)
        headers["user-agent"] = endpoint.user_agent
        # Content comes as it is stored, whatever is between here and S3; urllib3 says it for botocore.
        headers["accept-encoding"] = "identity"
        return headers

    def _learn(self, asked: GetRequest) -> None:
        """Decide the bucket's endpoint by what botocore would send for `asked`; undecided if it would not."""
        self._asking.request = None
        try:
            self._client.get_object(**asked.parameters())["Body"].close()
            self._buckets[asked.bucket] = self._known(asked, self._asking.request)
        except (*BOTOCORES, OSError):
            # botocore is asked for the object itself next, and will say it.
            return
        finally:
            del self._asking.request

    def _intercept(self, request: Any, **_: Any) -> AWSResponse | None:
        """An empty answer in place of sending, in the thread that learns and in no other."""
        if not hasattr(self._asking, "request"):
            return None
        self._asking.request = request
        # Without an ETag it would be a stranger's.
        return AWSResponse(request.url, _OK, HTTPHeaders.from_dict({"ETag": '"-"'}), io.BytesIO())

    def _known(self, asked: GetRequest, request: Any) -> _Known | None:
        headers = {
            name.lower(): value.decode() if isinstance(value, bytes) else str(value)
            for name, value in request.headers.items()
        }
        endpoint = endpoint_of(request.url, headers, asked)
        verify = self._http._verify  # noqa: SLF001  # True: botocore's own choice; a path otherwise
        proxy = self._http._proxy_config.proxy_url_for(request.url)  # noqa: SLF001  # as botocore asks it
        if endpoint is None or not verify or proxy is not None:
            return None
        signer = None if endpoint.region is None else Signer(endpoint.region)
        path, query, at = endpoint.path(asked), query_of(asked), headers.get("x-amz-date", "")
        ours = self._headers(asked, endpoint, signer, path=path, query=query, at=at)
        theirs = {name: value for name, value in headers.items() if name not in _ITS_OWN}
        if ours != {**theirs, "host": endpoint.host, "accept-encoding": "identity"}:
            # It is not the same request down to its signature: something is asked that is not known here.
            return None
        connections = self._origins.get(endpoint.origin)
        if connections is None:
            tls = verifying(str(get_cert_path(verify))) if endpoint.origin.scheme == "https" else None
            connections = self._origins.setdefault(endpoint.origin, Connections(endpoint.origin, tls))
        return _Known(endpoint, signer, connections)


class BegunGet:
    """A GET that was sent. Used by one thread at a time; closed, or its answer taken."""

    __slots__ = ("_asked", "_home", "arrive", "close", "sent", "wait")

    def __init__(self, home: FastGet, asked: GetRequest, sent: Asked) -> None:
        self._home = home
        self._asked = asked
        self.sent = sent
        self.arrive, self.wait, self.close = sent.arrive, sent.wait, sent.close

    def content(self, size: int) -> bytes | None:
        """All of the object, if it arrived and is what was asked for; None where `answer` has to say more."""
        reply = self.sent.whole(self._asked.etag, size)
        return None if reply is None else reply.read(size)

    def answer(self) -> GetAnswer | None:
        """What `FastGet.get` gives and raises; blocks."""
        return self._home.answer(self._asked, self.sent)


def _answer(reply: Reply, asked: GetRequest) -> GetAnswer:
    try:
        if not reply.has_begun():
            # Its head may be cut as well: http.client takes the end of a connection for the end of a head.
            reply.close()
            raise unreachable(http.client.IncompleteRead(b""), what=asked.what)
    except (OSError, http.client.HTTPException) as error:
        reply.close()
        raise unreachable(error, what=asked.what) from error
    length = reply.header("content-length") or ""
    return GetAnswer(
        body=reply,
        etag=reply.header("etag") or "",
        content_length=int(length) if length.isdecimal() and len(length) <= LENGTH_DIGITS else None,
        content_range=reply.header("content-range"),
    )


def _code(reply: Reply, asked: GetRequest) -> str:
    """The error code of a refusal; empty where it has none. The reply is closed."""
    try:
        document = reply.read(_ERROR_BYTES)
        found = _CODE.search(document)
        if found is None and len(document) < _ERROR_BYTES:
            # A cut document raises here: by its status alone a missing bucket would be a missing object.
            reply.read(1)
    except (OSError, http.client.HTTPException) as error:
        raise unreachable(error, what=asked.what) from error
    finally:
        reply.close()
    code = "" if found is None else found[1].decode()
    return told_by_header(code, reply.status, marker=reply.header(MARKER_HEADER))
