"""Clients of S3 and SQS for the listeners' loop, their credentials, and a fast parser of listings.

They repeat no call: each listener repeats its own, and knows for how long. botocore's parser takes many times
as long for a page; it still parses the rest of the answer, decodes the keys and raises the errors.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from xml.etree.ElementTree import ParseError, XMLParser, fromstring

import msgspec
from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore import UNSIGNED
from botocore.credentials import ReadOnlyCredentials
from botocore.parsers import ResponseParserError
from botocore.utils import parse_timestamp
from msgspec import Raw, Struct, field

from headrace.aws.aws_credentials import (
    SigningCredentials,
    is_anonymous,
    share_service_models,
    usable_configuration,
)
from headrace.aws.store_answers import refuse_strangers
from headrace.options.aws_forms import proxy_config
from headrace.options.settings import Credentials, S3Settings, SqsSettings
from listeners.discovery_events import NOT_SQS

# Handlers for `*` as the service come before those for `s3`: one of these, botocore's own, parses the body
# once more in search of an error, and so has a short one to parse.
_EVENT: Final = "before-parse.*.ListObjectsV2"
_BEGIN: Final = b"<Contents>"
_END: Final = b"</Contents>"
# So many elements at once are too few to set off Python's collector, which would go through botocore's model.
_AT_ONCE: Final = 40
_OK: Final = 200
_VALUE: Final = "[ -%'-;=?-~]*+"
_QUOTE: Final = "&quot;"
_VALUES: Final = {"ETag": f"{_QUOTE}{_VALUE}{_QUOTE}|{_VALUE}"}


def use_fast_list_parser(client: Any) -> None:
    """Have this aiobotocore client's `list_objects_v2` give of each object only what the listing looks at."""
    client.meta.events.register(_EVENT, _before_parse)


def _before_parse(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_others: Any
) -> None:
    """Take the objects out of the body; botocore adds them to what it makes of the rest of it."""
    if response_dict["status_code"] != _OK:
        return
    try:
        objects, rest = _split(response_dict["body"])
    except (ParseError, KeyError, ValueError):
        return  # botocore parses it all, or says what is wrong with it
    customized_response_dict["Contents"], response_dict["body"] = objects, rest


def _split(body: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """The objects as botocore would give them, and the answer without them; an error if it is unusual."""
    # Without a DOCTYPE, comments, CDATA and instructions, what looks like a tag is one.
    if b"<!" in body or body.rfind(b"<?") > 0:
        raise ValueError("There is more than elements.")
    head, *entries = body.split(_BEGIN)
    if not entries:
        raise ValueError("There are no objects.")
    entries[-1], end, tail = entries[-1].rpartition(_END)
    entries[-1] += end
    _check(head + _BEGIN + _END + tail)
    usual = _UsualForm(entries[0])
    objects: list[dict[str, Any]] = []
    for index in range(0, len(entries), _AT_ONCE):
        some = entries[index : index + _AT_ONCE]
        text = _BEGIN + _BEGIN.join(some)
        found = usual.objects(text, len(some))
        objects += _objects(text) if found is None else found
    return objects, head + tail


class _UsualForm:
    """Objects that have the elements of one of them, in its order, and values that say what they are.

    Those are printable ASCII without references, but for the quotes of an ETag. The parser of XML takes more
    than twice as long; it reads what has any other form.
    """

    def __init__(self, entry: bytes) -> None:
        self._names = re.findall("<([A-Za-z]+)>", entry.decode("latin-1"))
        values = "".join(f"<{name}>({_VALUES.get(name, _VALUE)})</{name}>" for name in self._names)
        # With nothing between one object and the next.
        self._form = re.compile(f"<Contents>{values}</Contents>(?=<Contents>|\\Z)")

    def objects(self, entries: bytes, count: int) -> list[dict[str, Any]] | None:
        """All of the `count` objects, None where one has another form. Raises as `_object`."""
        found = self._form.findall(entries.decode("latin-1"))
        if len(found) < count or len(set(self._names)) < len(self._names):
            return None
        objects = []
        for values in found:
            fields = dict(zip(self._names, values, strict=True))
            fields["ETag"] = fields["ETag"].replace(_QUOTE, '"')
            objects.append(_object(fields))
        return objects


def _check(frame: bytes) -> None:
    """An error if the place of the objects is not where botocore looks for them, or not the only one."""
    parser = XMLParser(encoding="utf-8")  # noqa: S314 - no entities are declared in it
    parser.feed(frame)
    root = parser.close()
    if root.tag.rpartition("}")[2] != "ListBucketResult":
        raise ValueError("This is not a page.")
    if root.find("{*}Contents") is None or len(root.findall(".//{*}Contents")) > 1:
        raise ValueError("Objects are in several places.")


def _objects(entries: bytes) -> list[dict[str, Any]]:
    """Some objects; the page's own namespace is none here."""
    objects = []
    for entry in fromstring(b"<Some>" + entries + b"</Some>"):  # noqa: S314 - no entities are declared in it
        fields = {child.tag: child.text or "" for child in entry}
        if entry.tag != "Contents" or len(fields) < len(entry) or "}" in "".join(fields):
            raise ValueError("This is not one object, or botocore would read it otherwise.")
        found = _object(fields)
        if (status := entry.find("RestoreStatus")) is not None:
            found["RestoreStatus"] = _restore({child.tag: child.text or "" for child in status})
        objects.append(found)
    return objects


def _restore(fields: dict[str, str]) -> dict[str, Any]:
    """What is said of a restore: that it is under way, or until when there is a copy."""
    found: dict[str, Any] = {}
    if "IsRestoreInProgress" in fields:
        found["IsRestoreInProgress"] = fields["IsRestoreInProgress"] == "true"
    if "RestoreExpiryDate" in fields:
        found["RestoreExpiryDate"] = _moment(fields["RestoreExpiryDate"])
    return found


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("This is a time without a zone.")
    return found


def _object(fields: dict[str, str]) -> dict[str, Any]:
    """What the listing looks at; KeyError or ValueError when it is not there or unusual."""
    found: dict[str, Any] = {
        "Key": fields["Key"],
        "ETag": fields["ETag"],
        "Size": int(fields["Size"]),
        "LastModified": _moment(fields["LastModified"]),
    }
    if "StorageClass" in fields:
        found["StorageClass"] = fields["StorageClass"]
    return found


CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 30
# A long poll is answered within its wait; what is this much later is not coming.
_GRACE_SECONDS: Final = 10


def s3_client(settings: S3Settings) -> AbstractAsyncContextManager[Any]:
    """A client of the bucket's S3. Each call asks for credentials, and raises AccessDenied without."""
    return CLIENTS.s3(settings)


def sqs_client(sqs: SqsSettings, s3: S3Settings) -> AbstractAsyncContextManager[Any]:
    """A client of the queue's SQS, with the credentials of the bucket."""
    return CLIENTS.sqs(sqs, s3)


@asynccontextmanager
async def _aiobotocores_s3(settings: S3Settings) -> AsyncIterator[Any]:
    config = AioConfig(
        s3={"addressing_style": settings.addressing_style},
        read_timeout=READ_SECONDS,
        proxies=proxy_config(settings.proxy),
        **_config(settings.credentials),
    )
    async with _client("s3", settings, settings.region, settings.endpoint, config) as client:
        use_fast_list_parser(client)
        client.meta.events.register("after-call.s3", refuse_strangers)
        yield client


@asynccontextmanager
async def _aiobotocores_sqs(sqs: SqsSettings, s3: S3Settings) -> AsyncIterator[Any]:
    config = AioConfig(read_timeout=sqs.wait_time_seconds + _GRACE_SECONDS, **_config(s3.credentials))
    async with _client("sqs", s3, sqs.region, sqs.endpoint, config) as client:
        client.meta.events.register("before-parse.sqs", _refuse_strangers_of_sqs)
        yield client


class _SqsMessage(Struct):
    id: str = field(name="MessageId")
    handle: str = field(name="ReceiptHandle")
    body: Raw = field(name="Body")


class _SqsAnswer(Struct):
    """What the listener reads of an answer, whatever was asked for."""

    messages: list[_SqsMessage] | None = field(default=None, name="Messages")
    attributes: dict[str, str] | None = field(default=None, name="Attributes")
    failed: list[dict[str, Raw]] | None = field(default=None, name="Failed")


_SQS_ANSWER: Final = msgspec.json.Decoder(_SqsAnswer)


def _refuse_strangers_of_sqs(response_dict: dict[str, Any], **_: object) -> None:
    """ResponseParserError for an OK with another document than SQS writes.

    botocore takes a login page for an empty queue, and fails in its own way at JSON of another form.
    """
    if response_dict["status_code"] != _OK:
        return
    try:
        _SQS_ANSWER.decode(response_dict["body"])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ResponseParserError(NOT_SQS) from error


@dataclass(slots=True)
class ClientFactory:
    """What makes the clients of this process."""

    s3: Callable[[S3Settings], AbstractAsyncContextManager[Any]] = _aiobotocores_s3
    sqs: Callable[[SqsSettings, S3Settings], AbstractAsyncContextManager[Any]] = _aiobotocores_sqs


CLIENTS: Final = ClientFactory()
"""aiobotocore's, unless a simulation of S3 and SQS has put others in their place."""


def _config(credentials: Credentials) -> dict[str, Any]:
    config: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS,
        "max_pool_connections": 100,
        "retries": {"total_max_attempts": 1, "mode": "standard"},
    }
    if is_anonymous(credentials):
        config["signature_version"] = UNSIGNED
    return config


@asynccontextmanager
async def _client(
    service: str, s3: S3Settings, region: str, endpoint: str | None, config: AioConfig
) -> AsyncIterator[Any]:
    # A role's STS is asked in the bucket's region, whichever service the credentials are for.
    credentials = AsyncSigningCredentials(
        SigningCredentials(s3.credentials, region=s3.region, ca_bundle=s3.ca_bundle)
    )
    async with AsyncExitStack() as stack:
        with usable_configuration():
            client = await stack.enter_async_context(
                _session(credentials).create_client(
                    service, region_name=region, endpoint_url=endpoint, verify=s3.ca_bundle, config=config
                )
            )
        client.meta.events.register(f"after-call.{service}", credentials.on_answer)
        yield client


def _session(credentials: "AsyncSigningCredentials") -> AioSession:
    session = AioSession()
    share_service_models(session)
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    session.register_component("credential_provider", _Provider(credentials))
    return session


def _timestamp(value: Any) -> datetime:
    """The datetime of a response's text or number, as botocore itself would read it.

    botocore's own parser tries every form there is, and that is most of the CPU of a page that
    `listeners.async_clients` leaves to it: 53 ms for 1,000 keys, and 14 ms with this shortcut for S3's form.
    """
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return parse_timestamp(value)
    return found if found.tzinfo is not None else parse_timestamp(value)


class AsyncSigningCredentials:
    """`SigningCredentials` for aiobotocore's clients: a request for them is made in another thread."""

    method = SigningCredentials.method

    def __init__(self, credentials: SigningCredentials) -> None:
        self._credentials = credentials

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """The keys of this moment. AccessDenied when there are none."""
        found = self._credentials.at_hand()
        return await asyncio.to_thread(self._credentials.get_frozen_credentials) if found is None else found

    def get_deferred_property(self, name: str) -> Any:
        """As of `SigningCredentials`."""
        return self._credentials.get_deferred_property(name)

    async def get_account_id(self) -> None:
        """Aiobotocore asks for the account's number, which neither S3 nor SQS needs in its address."""

    def on_answer(self, **answer: Any) -> None:
        """What a client's event `after-call` calls."""
        self._credentials.on_answer(**answer)


class _Provider:
    """In the place of botocore's chain of providers."""

    def __init__(self, credentials: AsyncSigningCredentials) -> None:
        self._credentials = credentials

    async def load_credentials(self) -> AsyncSigningCredentials:
        return self._credentials
