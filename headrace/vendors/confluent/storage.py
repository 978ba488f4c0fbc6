"""Confluent's bucket, credentials, encryption and uploads."""

from collections.abc import Mapping
from typing import Final, TypeVar

from headrace.options.vendor_translation import Translation

# -- Classes that Confluent's configurations name, by their full or simple names -----------------------------

T = TypeVar("T")


def class_of(
    given: Translation, option: str, known: Mapping[str, T], default: T, *, otherwise: str = ""
) -> T:
    """What one of these classes stands for; a problem that lists them for another one.

    `otherwise` says what else can be written.
    """
    text = given.text(option)
    if not text:
        return default
    if text not in known:
        given.refuse(
            option, f"is a class that is not known here; the known ones are {', '.join(known)}{otherwise}"
        )
        return default
    return known[text]


FORMATS: Final = {
    "io.confluent.connect.s3.format.avro.AvroFormat": "avro",
    "io.confluent.connect.s3.format.json.JsonFormat": "jsonl",
    "io.confluent.connect.s3.format.parquet.ParquetFormat": "parquet",
    "io.confluent.connect.s3.format.bytearray.ByteArrayFormat": "bytes",
}
"""The formats of objects, as `output.format` spells them."""

HEADER_FORMATS: Final = {name: spelled for name, spelled in FORMATS.items() if spelled != "bytes"}
"""Those that headers can have."""

STORAGES: Final = {"io.confluent.connect.s3.storage.S3Storage": "s3"}


# -- Confluent's bucket, credentials, encryption and uploads -------------------------------------------------

_PROVIDER: Final = "s3.credentials.provider.class"
_ROLE_PROVIDER: Final = "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider"
_ROLE: Final = {
    "s3.credentials.provider.sts.role.arn": "aws.sts.role.arn",
    "s3.credentials.provider.sts.role.session.name": "aws.sts.role.session.name",
    "s3.credentials.provider.sts.role.external.id": "aws.sts.role.external.id",
}
_ROLE_KEYS: Final = {
    "s3.credentials.provider.sts.aws.access.key.id": "aws.access.key.id",
    "s3.credentials.provider.sts.aws.secret.key.id": "aws.secret.access.key",
}
# Of the class that Aiven's platform brings.
_PLATFORM_PROVIDER: Final = "io.aiven.kafka.connect.util.AivenAWSCredentialsProvider"
_PLATFORM_KEYS: Final = {
    "s3.credentials.provider.access_key_id": "aws.access.key.id",
    "s3.credentials.provider.secret_access_key": "aws.secret.access.key",
}
_ACCELERATED: Final = "https://s3-accelerate.amazonaws.com"
_PART_BYTES: Final = 25 * 1024 * 1024
_LEAST_PART: Final = 5 * 1024 * 1024
_BUFFER_BYTES: Final = 128 * 1024 * 1024
_MOST_DELAY_MS: Final = 3_600_000
# As many as doubling pauses can have; behind them an upload is tried again anyway.
_MOST_RETRIES: Final = 30


def translate_storage(given: Translation) -> None:
    """Write where objects go, and how."""
    if not given.is_given("storage.class"):
        given.refuse("storage.class", f"is missing; add storage.class={next(iter(STORAGES))}")
    class_of(given, "storage.class", STORAGES, "s3")
    given.rename("s3.bucket.name", "aws.s3.bucket.name")
    given.own("aws.s3.region", given.text("s3.region", "us-west-2"), by="s3.region")
    translate_endpoint(given)
    translate_credentials(given)
    _translate_encryption(given)
    _translate_uploads(given)
    translate_proxy(given)


def translate_proxy(given: Translation) -> None:
    """Write the proxy."""
    for name in ("url", "user", "password"):
        given.rename(f"s3.proxy.{name}", f"aws.s3.proxy.{name}")


def translate_endpoint(given: Translation) -> None:
    """Write the address of S3, and where the bucket is in addresses."""
    path_style = given.flag("s3.path.style.access.enabled", default=True)
    if given.flag("s3.wan.mode", default=False):
        if given.is_given("store.url"):
            given.refuse("s3.wan.mode", "and store.url exclude each other; keep one of them")
        given.own("aws.s3.endpoint", _ACCELERATED, by="s3.wan.mode")
        path_style = False
    given.rename("store.url", "aws.s3.endpoint")
    given.own("aws.s3.path.style.access", "true" if path_style else "false")


def translate_credentials(given: Translation) -> None:
    """Write keys, provider and role."""
    for theirs, own in _PLATFORM_KEYS.items():
        given.rename(theirs, own)
    given.rename("aws.access.key.id", "aws.access.key.id")
    given.rename("aws.secret.access.key", "aws.secret.access.key")
    if given.text(_PROVIDER) != _ROLE_PROVIDER:
        if given.text(_PROVIDER) != _PLATFORM_PROVIDER:
            given.rename(_PROVIDER, "aws.credentials.provider")
        for option in (*_ROLE, *_ROLE_KEYS):
            if given.is_given(option):
                given.refuse(option, f"means nothing without {_PROVIDER}={_ROLE_PROVIDER}")
        return
    if not given.is_given(next(iter(_ROLE))):
        given.refuse(next(iter(_ROLE)), f"is missing; {_ROLE_PROVIDER} assumes this role")
    for theirs, own in (*_ROLE.items(), *_ROLE_KEYS.items()):
        given.rename(theirs, own)


def _translate_encryption(given: Translation) -> None:
    given.rename("s3.acl.canned", "aws.s3.acl")
    if given.is_given("s3.sse.customer.key"):
        given.rename("s3.sse.customer.key", "aws.s3.sse.customer.key")
        return
    given.rename("s3.ssea.name", "aws.s3.sse")
    if given.text("s3.ssea.name").lower().startswith("aws:kms"):
        given.rename("s3.sse.kms.key.id", "aws.s3.sse.kms.key.id")


def _translate_uploads(given: Translation) -> None:
    option = "s3.part.size"
    part = given.integer(option, _PART_BYTES, low=_LEAST_PART, high=2**31 - 1)
    given.own("aws.s3.part.size", part, by=option)
    if part > _BUFFER_BYTES:
        given.own("buffer.max.bytes", part, by=option)
    if given.is_given(option):
        given.warn(
            "s3.part.size is the size of a part of an upload and closes no object, as in the other sink; "
            "rotate.bytes does"
        )
    translate_calls(given)
    given.own("aws.s3.object.tags", ",".join(_tags(given)), by="s3.object.tagging")


def translate_calls(given: Translation) -> None:
    """Write how often a call is repeated."""
    retries = min(given.integer("s3.part.retries", 3, low=0), _MOST_RETRIES)
    given.own("aws.s3.backoff.max.retries", retries, by="s3.part.retries")
    delay = min(max(given.integer("s3.retry.backoff.ms", 200, low=0), 1), _MOST_DELAY_MS)
    given.own("aws.s3.backoff.delay.ms", delay, by="s3.retry.backoff.ms")


def _tags(given: Translation) -> list[str]:
    """Tags as `aws.s3.object.tags` has them. Pairs are of no object there unless offsets are."""
    pairs = "s3.object.tagging.key.value.pairs"
    texts = [pair.strip() for pair in given.text(pairs).split(",") if pair.strip()]
    if any(":" not in text for text in texts):
        given.refuse(pairs, "expected a comma-separated list of name:value")
    if not given.flag("s3.object.tagging", default=False):
        return []
    return ["offsets", *("=".join(text.split(":", 1)) for text in texts)]
