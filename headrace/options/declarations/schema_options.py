"""The schema registry, Confluent's or Glue: how it is reached, and what is registered there."""

from headrace.options.declarations.option import Group, option, optional
from headrace.options.record_forms import SUBJECT_NAME_STRATEGY
from headrace.options.schema_settings import (
    BEARER_SOURCE,
    CREDENTIALS_SOURCE,
    GLUE_COMPATIBILITIES,
    REGISTRY_URLS,
    USER_INFO,
)
from headrace.options.value_types import BOOLEAN, SECRET, TEXT, URL

REGISTRY_URL = optional(
    "schema.registry.url",
    REGISTRY_URLS,
    Group.RECORDS,
    "The schema registry, for `value.format=avro`.",
    aliases=("value.converter.schema.registry.url", "key.converter.schema.registry.url"),
)

REGISTRY_CREDENTIALS_SOURCE = option(
    "schema.registry.basic.auth.credentials.source",
    CREDENTIALS_SOURCE,
    "URL",
    Group.RECORDS,
    "`USER_INFO`: from `schema.registry.basic.auth.user.info`. `URL`: from the registry's URL, if it has "
    "any.",
    importance="LOW",
    aliases=(
        "value.converter.basic.auth.credentials.source",
        "value.converter.schema.registry.basic.auth.credentials.source",
        "key.converter.basic.auth.credentials.source",
    ),
)

REGISTRY_USER_INFO = optional(
    "schema.registry.basic.auth.user.info",
    USER_INFO,
    Group.RECORDS,
    "`user:password` for the registry.",
    aliases=(
        "value.converter.basic.auth.user.info",
        "value.converter.schema.registry.basic.auth.user.info",
        "key.converter.basic.auth.user.info",
    ),
)


def _of_bearer(name: str) -> tuple[str, ...]:
    return (
        f"value.converter.bearer.auth.{name}",
        f"value.converter.schema.registry.bearer.auth.{name}",
        f"key.converter.bearer.auth.{name}",
    )


REGISTRY_BEARER = optional(
    "schema.registry.bearer.auth.credentials.source",
    BEARER_SOURCE,
    Group.RECORDS,
    "A token instead of a password: `STATIC_TOKEN` is `schema.registry.bearer.auth.token`, `OAUTHBEARER` "
    "asks the issuer for one by client credentials, and renews it.",
    importance="LOW",
    aliases=_of_bearer("credentials.source"),
)

REGISTRY_TOKEN = optional(
    "schema.registry.bearer.auth.token",
    SECRET,
    Group.RECORDS,
    "The token.",
    importance="LOW",
    aliases=_of_bearer("token"),
)

REGISTRY_ISSUER = optional(
    "schema.registry.bearer.auth.issuer.endpoint.url",
    URL,
    Group.RECORDS,
    "Where tokens are asked for.",
    importance="LOW",
    aliases=_of_bearer("issuer.endpoint.url"),
)

REGISTRY_CLIENT_ID = optional(
    "schema.registry.bearer.auth.client.id",
    TEXT,
    Group.RECORDS,
    "Who asks for them.",
    importance="LOW",
    aliases=_of_bearer("client.id"),
)

REGISTRY_CLIENT_SECRET = optional(
    "schema.registry.bearer.auth.client.secret",
    SECRET,
    Group.RECORDS,
    "The client's secret.",
    importance="LOW",
    aliases=_of_bearer("client.secret"),
)

REGISTRY_SCOPE = option(
    "schema.registry.bearer.auth.scope",
    TEXT,
    "",
    Group.RECORDS,
    "The scope that is asked for.",
    importance="LOW",
    aliases=_of_bearer("scope"),
)

REGISTRY_CLUSTER = option(
    "schema.registry.bearer.auth.logical.cluster",
    TEXT,
    "",
    Group.RECORDS,
    "The registry's id in Confluent Cloud; others have none.",
    importance="LOW",
    aliases=_of_bearer("logical.cluster"),
)

REGISTRY_POOL = optional(
    "schema.registry.bearer.auth.identity.pool.id",
    TEXT,
    Group.RECORDS,
    "The identity pool in Confluent Cloud.",
    importance="LOW",
    aliases=_of_bearer("identity.pool.id"),
)

REGISTRY_CA = optional(
    "schema.registry.ssl.ca.location",
    TEXT,
    Group.RECORDS,
    "File of PEM certificates that the registry is checked against.",
    importance="LOW",
)

REGISTRY_CERTIFICATE = optional(
    "schema.registry.ssl.certificate.location",
    TEXT,
    Group.RECORDS,
    "File of the PEM certificate shown to the registry.",
    importance="LOW",
)

REGISTRY_KEY = optional(
    "schema.registry.ssl.key.location",
    TEXT,
    Group.RECORDS,
    "File of the PEM key of that certificate.",
    importance="LOW",
)

GLUE_REGION = optional(
    "aws.glue.region",
    TEXT,
    Group.RECORDS,
    "The region of AWS Glue's schema registry, by which AWSKafkaAvroConverter, Glue's JsonSchemaConverter "
    "and ProtobufSchemaConverter read and write, with the connector's own AWS credentials.",
    importance="LOW",
    default_says="`aws.s3.region`",
    aliases=("value.converter.region", "key.converter.region"),
)

GLUE_ENDPOINT = optional(
    "aws.glue.endpoint",
    URL,
    Group.RECORDS,
    "Where Glue answers, if not at its region's own address.",
    importance="LOW",
    aliases=("value.converter.endpoint", "key.converter.endpoint"),
)

GLUE_REGISTRY = option(
    "aws.glue.registry.name",
    TEXT,
    "default-registry",
    Group.RECORDS,
    "The registry of Glue's in which a source has the schemas of its values.",
    importance="LOW",
    aliases=("value.converter.registry.name",),
)

GLUE_SCHEMA = optional(
    "aws.glue.schema.name",
    TEXT,
    Group.RECORDS,
    "The schema there of which a source's values have a version.",
    importance="LOW",
    default_says="the topic",
    aliases=("value.converter.schemaName",),
)

GLUE_AUTO_REGISTER = option(
    "aws.glue.auto.register.schemas",
    BOOLEAN,
    "false",
    Group.RECORDS,
    "Register the schemas of objects in Glue's registry as they are met. `false`, as in AWS's converters: "
    "they must be there.",
    importance="LOW",
    aliases=("value.converter.schemaAutoRegistrationEnabled",),
)

GLUE_COMPATIBILITY = option(
    "aws.glue.compatibility",
    GLUE_COMPATIBILITIES,
    "backward",
    Group.RECORDS,
    "Which changes a schema of Glue's bears that a source creates.",
    importance="LOW",
    aliases=("value.converter.compatibility",),
)

REGISTRY_AUTO_REGISTER = option(
    "schema.registry.auto.register.schemas",
    BOOLEAN,
    "true",
    Group.RECORDS,
    "Register the schemas of objects as they are met. `false`: they must be there.",
    importance="LOW",
    aliases=("value.converter.auto.register.schemas",),
)

REGISTRY_USE_LATEST = option(
    "schema.registry.use.latest.version",
    BOOLEAN,
    "false",
    Group.RECORDS,
    "With `value.format=json-schema` and `protobuf`: values are written by the newest schema of "
    "`<topic>-value`, which has to be there, as rows of JSON have none of their own. It is asked for once in "
    "a process.",
    importance="LOW",
    aliases=("value.converter.use.latest.version",),
)

REGISTRY_SUBJECT = option(
    "schema.registry.subject.name.strategy",
    SUBJECT_NAME_STRATEGY,
    "topic",
    Group.RECORDS,
    "The subject of a value's schema: `<topic>-value`, the record's full name, or both.",
    importance="LOW",
    aliases=("value.converter.value.subject.name.strategy",),
)
