"""A botocore client of S3, made in one place: connections, credentials, the one retry policy, errors as ours.

botocore itself retries nothing: `aws.s3.backoff.*` is the policy. What is refused is translated by
`headrace.aws.aws_errors`, the rest by its class.
"""

import base64
import errno
import hashlib
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import tenacity
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ProxyConnectionError,
    ResponseStreamingError,
    SSLError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.httpsession import create_urllib3_context
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from headrace.aws.aws_credentials import SigningCredentials, is_anonymous, session_with, usable_configuration
from headrace.aws.aws_errors import AwsRefusal, answer_of, classify, is_condition_refused, refusal
from headrace.aws.store_answers import refuse_strangers
from headrace.model.errors import HeadraceError, InvalidConfiguration, ObjectError, SourceUnavailable
from headrace.model.text_formatting import printable
from headrace.options.aws_forms import proxy_config
from headrace.options.settings import BackoffSettings, S3Settings
from headrace.options.sink_settings import UploadSettings
from headrace.s3.connections import CONNECT_SECONDS, CONNECTIONS, READ_SECONDS

# A proxy that keeps a part until it is whole takes it at once, and answers when S3 has it.
UPLOAD_ANSWER_SECONDS: Final = 120
# botocore waits as long for each piece that it sends as for a connection, and a slow line may stand still for
# longer than a connection takes.
UPLOAD_SEND_SECONDS: Final = READ_SECONDS


class S3Client(NamedTuple):
    """A client with its own connections, and what it signs with."""

    client: Any
    credentials: SigningCredentials


def new_s3_client(settings: S3Settings, *, uploads: bool = False) -> S3Client:
    """A new client, for `uploads` or for reading.

    Credentials are asked for by each call, and again after AWS has refused them. AccessDenied when
    this machine's AWS configuration allows no client.
    """
    return CLIENTS.new(settings, uploads)


def _botocore_client(settings: S3Settings, uploads: bool) -> S3Client:  # noqa: FBT001  # `new_s3_client` has its name
    s3_config: Any = {"addressing_style": settings.addressing_style}
    if uploads and (settings.endpoint is None or settings.endpoint.startswith("https:")):
        # TLS keeps a part whole, and it carries a checksum: a hash of it as well would cost a core.
        s3_config["payload_signing_enabled"] = False
    config = Config(
        # Retries are `headrace.s3.client`; two layers of them would multiply.
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=UPLOAD_SEND_SECONDS if uploads else CONNECT_SECONDS,
        read_timeout=UPLOAD_ANSWER_SECONDS if uploads else READ_SECONDS,
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
        s3=s3_config,
        proxies=proxy_config(settings.proxy),
        signature_version=UNSIGNED if is_anonymous(settings.credentials) else None,
        # If-Match pins what is read, and uploads bring their checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    credentials = SigningCredentials(
        settings.credentials, region=settings.region, ca_bundle=settings.ca_bundle
    )
    with usable_configuration():
        client = session_with(credentials, region=settings.region).create_client(
            "s3",
            region_name=settings.region,
            endpoint_url=settings.endpoint,
            config=config,
            verify=settings.ca_bundle,
        )
    if settings.requester_pays:
        client.meta.events.register("before-parameter-build.s3", _say_who_pays)
    client.meta.events.register("after-call.s3", credentials.on_answer)
    client.meta.events.register("after-call.s3", refuse_strangers)
    return S3Client(client, credentials)


def _say_who_pays(params: dict[str, Any], model: Any, **_: object) -> None:
    """A handler of botocore: S3 answers 403 to a request that does not agree to pay, whatever it is for."""
    if model.input_shape is not None and "RequestPayer" in model.input_shape.members:
        params.setdefault("RequestPayer", "requester")


@dataclass(slots=True)
class ClientFactory:
    """What makes the clients of this process."""

    new: Callable[[S3Settings, bool], S3Client] = _botocore_client


CLIENTS: Final = ClientFactory()
"""botocore's, unless a simulation of S3 has put another in their place."""


T = TypeVar("T")


def attempted(call: Callable[[], T], backoff: BackoffSettings) -> T:
    """What `call` gives, after at most `max_retries` repeats with growing, jittered delays; blocks.

    Only SourceUnavailable, which passes by itself, is tried again; the last one is raised.
    """
    try:
        return call()
    except SourceUnavailable as error:
        # What counts attempts is made only now: it costs as much as a good part of a small GET.
        failures = [error]

    def first_is_over() -> T:
        if failures:
            raise failures.pop()
        return call()

    policy = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(SourceUnavailable),
        stop=tenacity.stop_after_attempt(1 + backoff.max_retries),
        wait=tenacity.wait_random_exponential(
            multiplier=backoff.delay_ms / 1000, max=backoff.max_delay_ms / 1000
        ),
        reraise=True,
    )
    result: T = policy(first_is_over)
    return result


_NETWORK: Final = (
    BotoConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ResponseParserError,
    ResponseStreamingError,
    HTTPError,
)

BOTOCORES: Final = (ClientError, BotoCoreError, ResponseParserError, HTTPError)
"""What calls of botocore raise: urllib3's too, where the document of a refusal breaks off."""


def translate_s3(error: Exception, *, what: str) -> HeadraceError:
    """Our error for one of `BOTOCORES`. `what` names the object as `s3://bucket/key`, or the bucket.

    Raises the error itself when it is a mistake of ours (a parameter that botocore refuses).
    """
    if isinstance(error, ClientError):
        code, status = answer_of(error)
        return refusal(code, status, error.operation_name, what=what)
    if isinstance(error, _NETWORK):
        return unreachable(error, what=what)
    raise error


def unreachable(error: Exception, *, what: str) -> HeadraceError:
    """Our error for a connection that fails: only the error's class is shown."""
    return SourceUnavailable(f"{what} could not be read for now ({_cause(error)}).{_fix(error)}")


_NOBODY_THERE: Final = (
    EndpointConnectionError,
    ProxyConnectionError,
    ConnectionRefusedError,
    socket.gaierror,
)


def _fix(error: Exception) -> str:
    """What to look at where no request comes through at all; none for what passes by itself."""
    if isinstance(error, SSLError | ssl.SSLError):
        return " Check aws.s3.endpoint; a certificate of an authority of your own needs aws.ca.bundle."
    if isinstance(error, _NOBODY_THERE):
        return " Check aws.s3.endpoint, aws.s3.region, and the network (proxies come from the environment)."
    return ""


def _cause(error: Exception) -> str:
    return out_of_files(error) or type(error).__name__


def out_of_files(error: BaseException | None) -> str | None:
    """What is wrong where too few files may be open, and the fix, for a sentence; None: something else is."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return f"a process of Spark may have {most:,} files and connections open: raise ulimit -n"
        error = error.__cause__ or error.__context__
    return None


# -- Refusals of uploads as classes of `headrace.model.errors` -----------------------------------------------

NO_UPLOAD: Final = "NoSuchUpload"

# What S3 refuses because of an option, and which.
_BY_OPTION: Final = {
    "AccessControlListNotSupported": "Remove aws.s3.acl: the bucket's owner owns all of its objects.",
    "EntityTooLarge": "Lower aws.s3.part.size, or rotate earlier.",
    "EntityTooSmall": "Raise aws.s3.part.size.",
    "InvalidArgument": "Check aws.s3.sse.*, aws.s3.acl, aws.s3.storage.class and aws.s3.object.tags.",
    "InvalidEncryptionAlgorithmError": "Correct aws.s3.sse.",
    "InvalidRequest": "Check aws.s3.sse.*, aws.s3.acl, aws.s3.storage.class and aws.s3.object.tags.",
    "InvalidStorageClass": "Correct aws.s3.storage.class.",
    "InvalidTag": "Correct aws.s3.object.tags.",
    "KeyTooLongError": "Shorten file.name.template or what it is filled with.",
    "MalformedACLError": "Correct aws.s3.acl.",
}
_WORDS: Final = 200
_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_NOT_IMPLEMENTED: Final = 501
_WRITES: Final = frozenset({"PutObject", "CompleteMultipartUpload"})


class UploadEnded(ObjectError):
    """The upload is not there any more: a lifecycle rule or a person has ended it before it was completed."""


class NameTaken(ObjectError):
    """A request with a condition was refused: another object has the name, or what it replaces is gone."""


class HeadRefused(ObjectError):
    """S3 has answered a HEAD by 400: of what is encrypted with another key (SSE-C), or of old credentials."""


class WriteConflict(SourceUnavailable):
    """Another request to the name is under way, or S3 refuses the condition for as long as the upload lives.

    So it does for an upload whose name was taken when it began and is free now, and for one that is to
    replace an object that is younger.
    """


class ConditionsUnknown(ObjectError):
    """The store knows no such request (501): no conditions, where it had one."""


@contextmanager
def but_for_credentials() -> Iterator[None]:
    """Passes over what S3 refuses in the block, but credentials, their clock, and that S3 is away."""
    try:
        yield
    except HeadraceError as error:
        cause = error.__cause__
        if isinstance(error, SourceUnavailable) or not isinstance(cause, ClientError):
            raise
        if classify(*answer_of(cause), cause.operation_name) in {AwsRefusal.CREDENTIALS, AwsRefusal.CLOCK}:
            raise


def translate_upload(error: Exception, *, what: str) -> HeadraceError:
    """Our error for one of `BOTOCORES` of an upload's call; `what` is `s3://bucket/key`.

    Raises the error itself when it is a mistake of ours.
    """
    if not isinstance(error, ClientError):
        ours = translate_s3(error, what=what)
        if isinstance(ours, SourceUnavailable):
            return SourceUnavailable(f"{what} could not be written for now ({_cause(error)}).")
        return ours
    code, status = answer_of(error)
    if error.operation_name == "HeadObject" and status == _BAD_REQUEST:
        return HeadRefused(str(translate_s3(error, what=what)))
    return _refused_upload(error, code, status, what=what)


def _refused_upload(error: ClientError, code: str, status: int, *, what: str) -> HeadraceError:
    if status == _NOT_IMPLEMENTED:
        return _unsupported(error, code, what=what)
    # To a write only a condition says that there is no such key.
    if is_condition_refused(code, status) or (code == "NoSuchKey" and error.operation_name in _WRITES):
        return NameTaken(f"{what} was written by another program meanwhile.")
    is_broken_off = status == _NOT_FOUND and not code.isalpha() and error.operation_name != "HeadObject"
    if is_broken_off or code == "ConditionalRequestConflict":
        # Of a document that broke off the next answer tells whether the bucket or only the upload is gone.
        kind = SourceUnavailable if is_broken_off else WriteConflict
        return kind(f"{what} could not be written for now ({status if is_broken_off else code}).")
    if code == NO_UPLOAD:
        return UploadEnded(
            f"{what} is not complete, and its upload is not there any more ({code}): a lifecycle rule or "
            "another program has ended it. Let the bucket's rule for unfinished uploads wait "
            "for three days or more."
        )
    remedy = _BY_OPTION.get(code)
    if remedy is None:
        return translate_s3(error, what=what)
    return InvalidConfiguration(f"{what} is refused ({code}): {words_of(error)}. {remedy}")


def _unsupported(error: ClientError, code: str, *, what: str) -> ConditionsUnknown:
    return ConditionsUnknown(
        f"{what} could not be written: the store does not support {error.operation_name} as it was sent "
        f"({words_of(error) or code}). docs/support.md has what is required of a store, and by which option."
    )


def words_of(error: ClientError) -> str:
    """What S3 itself says, printable and cut short; empty where the answer had no document."""
    return printable(str(error.response.get("Error", {}).get("Message", "")).rstrip("."), limit=_WORDS)


def verifying(ca_file: str) -> ssl.SSLContext:
    """A TLS context as botocore makes it, that trusts these authorities and checks the host's name.

    Raises OSError when the file cannot be used.
    """
    context: ssl.SSLContext = create_urllib3_context()
    # Python as Debian builds it leaves this to OpenSSL's configuration, which a container may not have.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.set_alpn_protocols(["http/1.1"])
    # What urllib3 does to it before it connects.
    context.check_hostname = True
    context.load_verify_locations(cafile=ca_file)
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRequest:
    """One GET: of this content (`etag` without quotes), of this version if any, of this range if any."""

    bucket: str
    key: str
    etag: str
    version_id: str | None = None
    range: str | None = None
    """As the header says it: `bytes=5-9`, `bytes=5-`."""
    requester_pays: bool = False

    @property
    def what(self) -> str:
        """`s3://bucket/key`, for messages."""
        return f"s3://{self.bucket}/{self.key}"

    def parameters(self) -> dict[str, str]:
        """The same for botocore's `get_object`."""
        # With or without a version id: what was announced is a content, and only that may be read.
        given = {"Bucket": self.bucket, "Key": self.key, "IfMatch": f'"{self.etag}"'}
        if self.version_id is not None:
            given["VersionId"] = self.version_id
        if self.range is not None:
            given["Range"] = self.range
        if self.requester_pays:
            given["RequestPayer"] = "requester"
        return given


class Body(Protocol):
    """The bytes of an answer, to be read by one thread and closed."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, fewer only at the end, then none; blocks.

        Raises OSError, `http.client.HTTPException`, or errors of botocore and urllib3 when the connection
        breaks or the body ends before its length.
        """
        ...

    def close(self) -> None:
        """Give the connection back if the body was read to its end; else close it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAnswer:
    """S3's answer to a GET, its body unread. `etag` as it came, in quotes; None is what the answer lacks."""

    body: Body
    etag: str
    content_length: int | None
    content_range: str | None


def given_at_start(options: UploadSettings) -> dict[str, str]:
    """What an object is given for its life when its upload begins."""
    given = {
        "StorageClass": options.storage_class,
        "ACL": options.acl,
        "ServerSideEncryption": None if options.encryption is None else options.encryption.value,
        "SSEKMSKeyId": options.kms_key_id,
    }
    return {name: value for name, value in given.items() if value is not None}


def customer_key(options: UploadSettings) -> dict[str, str]:
    """SSE-C: every call of the upload brings the key."""
    if options.customer_key is None:
        return {}
    key = options.customer_key.reveal()
    # With its hash at hand: botocore adds that, and encodes the key, for some of the calls only.
    digest = hashlib.md5(base64.b64decode(key), usedforsecurity=False).digest()
    return {
        "SSECustomerAlgorithm": "AES256",
        "SSECustomerKey": key,
        "SSECustomerKeyMD5": base64.b64encode(digest).decode(),
    }
