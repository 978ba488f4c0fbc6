"""How the schema registry is reached, and how Kafka Connect's data are written with its schemas.

The registry's options are of both directions, and their forms are here; a URL may carry `user:password@`, as
its Java clients allow. Kafka Connect writes JSON by JsonConverter and Avro by AvroData.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.options.choices import SubjectNameStrategy
from headrace.options.secret import Property, Secret, revealed
from headrace.options.value_types import URL, Form, FormError, choice


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistrySettings:
    """The schema registry, for values and keys in its framing."""

    urls: tuple[str, ...]
    properties: tuple[Property, ...]
    auto_register: bool
    use_latest: bool = False
    subject_name_strategy: SubjectNameStrategy

    def client(self) -> dict[str, str]:
        """Return the properties for confluent-kafka's SchemaRegistryClient, secrets revealed."""
        return {"url": ",".join(self.urls), **revealed(self.properties)}


@dataclass(frozen=True, kw_only=True, slots=True)
class GlueSettings:
    """AWS Glue's schema registry; `login` is a text of `.token_logins`."""

    region: str
    endpoint: str | None
    login: Secret


@dataclass(frozen=True, kw_only=True, slots=True)
class GlueWriting:
    """How a source names its values' schemas in AWS Glue's registry; `schema` None: by the topic."""

    where: GlueSettings
    registry: str
    schema: str | None
    auto_register: bool
    use_latest: bool
    compatibility: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistryUrls:
    """Where the registry answers, without the user and password that the text may have carried."""

    urls: tuple[str, ...]
    user_info: Secret | None


class CredentialsSource(StrEnum):
    """Where user and password for the registry are written."""

    URL = "url"
    USER_INFO = "user_info"


def _one(text: str) -> tuple[str, Secret | None]:
    # The client of the schema registry has a registry of its own in memory, for tests: mock://any-name.
    if text.startswith("mock://") and text.removeprefix("mock://").isidentifier():
        return text, None
    try:
        address = urlsplit(text)
        port = address.port
    except ValueError:
        raise FormError from None
    host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
    bare = address._replace(netloc=f"{host}{'' if port is None else f':{port}'}").geturl()
    if address.username is None:
        return URL.parse(text), None
    return URL.parse(bare), Secret(f"{unquote(address.username)}:{unquote(address.password or '')}")


def _registry_urls(text: str) -> RegistryUrls:
    found = [_one(item.strip()) for item in text.split(",") if item.strip()]
    users = {user for _, user in found if user is not None}
    if not found or len(users) > 1:
        raise FormError
    return RegistryUrls(urls=tuple(url for url, _ in found), user_info=next(iter(users), None))


REGISTRY_URLS: Final = Form(
    kind="LIST", expected="a comma-separated list of URLs such as https://host:8081", parse=_registry_urls
)
CREDENTIALS_SOURCE: Final = choice(CredentialsSource)


_COMPATIBILITIES: Final = (
    "none",
    "disabled",
    "backward",
    "backward_all",
    "forward",
    "forward_all",
    "full",
    "full_all",
)


def _compatibility(text: str) -> str:
    found = text.strip().lower()
    if found not in _COMPATIBILITIES:
        raise FormError
    return found.upper()


GLUE_COMPATIBILITIES: Final = Form(
    kind="STRING",
    expected=f"one of {', '.join(_COMPATIBILITIES)}",
    parse=_compatibility,
    values=_COMPATIBILITIES,
)
"""Which changes a schema of AWS Glue's bears, in its words."""


class BearerSource(StrEnum):
    """Where the token for the registry comes from."""

    STATIC_TOKEN = "static_token"  # noqa: S105  # the name of a way, as Java clients have it
    OAUTHBEARER = "oauthbearer"


BEARER_SOURCE: Final = choice(BearerSource)


def _user_info(text: str) -> Secret:
    if ":" not in text or "\x00" in text:
        raise FormError
    return Secret(text)


USER_INFO: Final = Form(kind="PASSWORD", expected="user:password", parse=_user_info)


class Astral(StrEnum):
    """How characters beyond U+FFFF are written.

    Jackson escapes them as two surrogates where it writes bytes, and leaves them where it writes text.
    """

    ESCAPED = "escaped"
    RAW = "raw"


class DecimalFormat(StrEnum):
    """`decimal.format` of JsonConverter."""

    BASE64 = "BASE64"
    NUMERIC = "NUMERIC"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonStyle:
    """How JSON is written. `fill_defaults` is `replace.null.with.default`.

    `of_java`: outside of structs as Jackson writes the objects that Connect has in Java: a date is its
    milliseconds, a decimal a number, and a map an object whatever its keys are.
    """

    decimals: DecimalFormat = DecimalFormat.BASE64
    astral: Astral = Astral.ESCAPED
    fill_defaults: bool = True
    of_java: bool = False


STYLE: Final = JsonStyle()


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroOptions:
    """The options of AvroData, with the defaults of AvroConverter; Confluent's S3 sink sets `enhanced`.

    `enhanced` is `enhanced.avro.schema.support`: enums stay enums, members of unions keep their full names.
    `meta_data` is `connect.meta.data`: documentation, versions, parameters, defaults and names of Connect
    are kept as properties. `optional_map_keys` is `allow.optional.map.keys`. `scrub_names` is
    `scrub.invalid.names`. `text_uuids`, which is not of AvroData, makes texts of UUIDs in 16 bytes.
    """

    enhanced: bool = False
    meta_data: bool = True
    optional_map_keys: bool = False
    scrub_names: bool = False
    text_uuids: bool = False


CONVERTER: Final = AvroOptions()


S3_SINK: Final = AvroOptions(enhanced=True)
