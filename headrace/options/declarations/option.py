"""One option: its name and everything that is said about it, once; names of other tools are accepted."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, Literal, TypeVar

from headrace.options.value_types import ALIASES, Form

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Importance = Literal["HIGH", "MEDIUM", "LOW"]


class Group(StrEnum):
    """The heading under which an option is in the docs."""

    IDENTITY = "Identity"
    KAFKA = "Kafka"
    S3 = "S3"
    SQS = "SQS"
    DISCOVERY = "Discovery"
    ROUTING = "Routing"
    RECORDS = "Formats and records"
    RESTORE = "Archives"
    TRANSFORMS = "Transforms"
    DELIVERY = "Transactions and work"
    ERRORS = "Errors"
    SPARK = "Spark"
    SERVICE = "Service"
    SINK = "Sink"
    OUTPUT = "Sink: objects"
    ROTATION = "Sink: when objects close"
    UPLOADS = "Sink: uploads"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option(Generic[T_co]):
    """An option of the configuration; `default` is written as a user would write it, and parsed the same way.

    `default_says` describes a default that depends on other options or on the surroundings.
    """

    name: str
    form: Form[T_co]
    group: Group
    doc: str
    default: str | None = None
    default_says: str = ""
    required: bool = False
    importance: Importance = "MEDIUM"
    aliases: tuple[str, ...] = ()

    def __hash__(self) -> int:
        # No two have one name, and each configuration that is loaded looks some hundreds up.
        return hash(self.name)

    @property
    def is_secret(self) -> bool:
        """Whether its value is never shown."""
        return self.form.kind == "PASSWORD"


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """An open set of options that share a prefix and are handed on to a client or to Spark."""

    prefix: str
    group: Group
    doc: str


def required(name: str, form: Form[T], group: Group, doc: str, *, aliases: tuple[str, ...] = ()) -> Option[T]:
    """Return an option that has to be given."""
    return Option(
        name=name, form=form, group=group, doc=doc, required=True, importance="HIGH", aliases=aliases
    )


def option(
    name: str,
    form: Form[T],
    default: str,
    group: Group,
    doc: str,
    *,
    importance: Importance = "MEDIUM",
    aliases: tuple[str, ...] = (),
) -> Option[T]:
    """Return an option with a default."""
    return Option(
        name=name,
        form=form,
        default=default,
        group=group,
        doc=doc,
        importance=importance,
        aliases=aliases,
    )


def optional(
    name: str,
    form: Form[T],
    group: Group,
    doc: str,
    *,
    default_says: str = "",
    importance: Importance = "MEDIUM",
    aliases: tuple[str, ...] = (),
) -> Option[T | None]:
    """Return an option that is None when it is not given."""
    return Option(
        name=name,
        form=form,
        default_says=default_says,
        group=group,
        doc=doc,
        importance=importance,
        aliases=aliases,
    )


# Options of the Aiven connector and of Connect that have nothing to decide here.
WITHOUT_MEANING: Final = (
    "aws.s3.fetch.page.size",
    "aws.s3.fetch.buffer.size",
    "ring.buffer.size",
    "max.poll.records",
    "expected.max.message.bytes",
    "offset.flush.interval.ms",
    "kafka.retry.backoff.ms",
    "aws.s3.sse.algorithm",
    "file.prefix.template",
    "file.max.records",
    "config.action.reload",
    "tasks.max.enforce",
    "connector.plugin.version",
    "key.converter.plugin.version",
    "value.converter.plugin.version",
    "header.converter.plugin.version",
    "errors.log.include.messages",
    "errors.retry.timeout",
    "errors.deadletterqueue.context.headers.enable",
    "transaction.boundary",
)

# Of these, what has an option of its own in a sink.
IN_A_SINK: Final[dict[str, str]] = {
    "file.max.records": "is an option of the Aiven sink; use rotate.records",
    "offset.flush.interval.ms": "closes no objects here; use rotate.age.ms",
    "file.prefix.template": "is an option of the Aiven sink; put it before what file.name.template has",
    "aws.s3.sse.algorithm": "is an option of other sinks; use aws.s3.sse",
}

# Names close in meaning but not in letters, which a comparison of spellings does not find.
MEANT: Final[dict[str, str]] = {
    "input.type": "input.format",
    "bucket": "aws.s3.bucket.name",
    "region": "aws.s3.region",
    "prefix": "aws.s3.prefix",
    "group.id": "name",
    "offset.storage.topic": "offsets.storage.topic",
    "aws.credentials.provider.class": "aws.credentials.provider",
    "aws.s3.bucket.prefix": "aws.s3.prefix",
    "aws.secret.key": "aws.secret.access.key",
    "aws.secret.key.id": "aws.secret.access.key",
    "s3.access.key.id": "aws.access.key.id",
    "s3.secret.access.key": "aws.secret.access.key",
    "s3.bucket.name": "aws.s3.bucket.name",
    "s3.region": "aws.s3.region",
    "s3.endpoint": "aws.s3.endpoint",
    "store.url": "aws.s3.endpoint",
    "flush.size": "rotate.records",
    "format.class": "output.format",
    "format.output.type": "input.format",
    "connect.s3.indexes.name": "layout.indexes",
    # Of Quix's file sink.
    "directory": "aws.s3.prefix",
    "commit.interval": "rotate.age.ms",
    "commit.every": "rotate.records",
}

NAME_CHECK: Final = (
    "decides nothing here: the registry's name is always looked for in its certificate. Remove it, and have "
    "the name in the registry's certificate, or the certificate's name in schema.registry.url"
)

JAVA_STORES: Final = (
    "names a store of Java's, which the registry's client does not read: export PEM files with `keytool "
    "-exportcert -rfc` and `openssl pkcs12 -nodes`, and name them in schema.registry.ssl.ca.location, "
    "schema.registry.ssl.certificate.location and schema.registry.ssl.key.location"
)

PEM_FILE: Final = "is of a PEM file in Java's words: name the file in "
PEM_TEXT: Final = "is PEM itself, which is read from files here: write it to one, and name the file in "
PEM_TRUST: Final = "schema.registry.ssl.ca.location, and leave out all of schema.registry.ssl.truststore.*"
PEM_KEYS: Final = (
    "schema.registry.ssl.certificate.location and in schema.registry.ssl.key.location, and leave out all of "
    "schema.registry.ssl.keystore.*"
)
NULL_DEFAULTS: Final = (
    "is not an option of Headrace: null fields have the defaults of their schemas, unless the output is "
    "JsonConverter's JSON unchanged; remove it"
)


TRANSFORM_ALIASES = optional(
    "transforms",
    ALIASES,
    Group.TRANSFORMS,
    "Aliases of Kafka Connect's single message transforms, in the order in which they apply; each record "
    "goes through them before it is grouped into objects (sink), or produced (source).",
)
PREDICATE_ALIASES = optional(
    "predicates",
    ALIASES,
    Group.TRANSFORMS,
    "Aliases of predicates, which say to which records a transform applies.",
)

FAMILIES: Final = (
    Family(
        prefix="transforms.",
        group=Group.TRANSFORMS,
        doc="`transforms.ALIAS.type` names the class, `transforms.ALIAS.predicate` and `.negate` the "
        "records, and the class's own options are next to them: [Transforms](transforms.md) has them all.",
    ),
    Family(
        prefix="predicates.",
        group=Group.TRANSFORMS,
        doc="`predicates.ALIAS.type` names the class, with the class's own options next to it.",
    ),
)


ROUTE: Final = "route."
_ROUTABLE: Final = (
    "aws.s3.bucket.name",
    "aws.s3.prefix",
    "behavior.on.null.values",
    "csv.",
    "file.",
    "json.format",
    "open.object.max.age.ms",
    "output.",
    "rotate.",
    "schema.compatibility",
    "sidecars",
)
_OF_SOURCES: Final = frozenset({"file.name.match"})

ROUTE_FAMILIES: Final = (
    Family(
        prefix=ROUTE,
        group=Group.SINK,
        doc="Topics whose objects are other ones: `route.NAME.topics` names them, and "
        "`route.NAME.aws.s3.bucket.name`, `.aws.s3.prefix`, `.file.name.*`, `.file.compression.*`, "
        "`.output.*`, `.sidecars*`, `.csv.*`, `.rotate.*`, `.open.object.max.age.ms`, "
        "`.schema.compatibility`, `.behavior.on.null.values` say what is in force for them instead of the "
        "sink's own option. A topic is in one route at most.",
    ),
)


def is_routable(option: Option[Any]) -> bool:
    """Whether a route may have this option of its own."""
    return option.name.startswith(_ROUTABLE) and option.name not in _OF_SOURCES
