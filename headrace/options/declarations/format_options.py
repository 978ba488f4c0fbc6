"""What formats need: schemas, their registry; how rows of CSV, text, JSON and archives are distinguished."""

from typing import Final

from headrace.options.choices import Packing
from headrace.options.declarations.option import Group, option, optional
from headrace.options.record_forms import SUBJECT_NAME_STRATEGY
from headrace.options.row_settings import COLUMNS, DELIMITER, LINE_PATTERN, PATTERN, QUOTE, TYPES
from headrace.options.row_settings import JSON_PATH as PATH_TO_ARRAY
from headrace.options.schema_settings import (
    BEARER_SOURCE,
    CREDENTIALS_SOURCE,
    GLUE_COMPATIBILITIES,
    REGISTRY_URLS,
    USER_INFO,
)
from headrace.options.value_types import BOOLEAN, GLOBS, SECRET, TEXT, URL, choice, integer, long

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


CSV_DELIMITER: Final = option(
    "csv.delimiter",
    DELIMITER,
    ",",
    Group.RECORDS,
    "What separates the fields of a CSV row: one ASCII character, or `\\t`.",
)
CSV_QUOTE: Final = option(
    "csv.quote",
    QUOTE,
    '"',
    Group.RECORDS,
    "What a CSV field may be quoted with; doubled within a field, it is itself, and delimiters and line ends "
    "within it belong to the field. Empty: no field is quoted, and a large object can be cut.",
)
CSV_HEADER: Final = option(
    "csv.header",
    BOOLEAN,
    "true",
    Group.RECORDS,
    "`true`: the first row names the columns. `false`: `csv.columns` does, and without it a row becomes a "
    "JSON array.",
)
CSV_COLUMNS: Final = optional(
    "csv.columns",
    COLUMNS,
    Group.RECORDS,
    "The names of the columns where objects have no header.",
)
CSV_TYPES: Final = optional(
    "csv.types",
    TYPES,
    Group.RECORDS,
    "The types of columns whose values are no text, such as `id:long,price:decimal`: `string`, `long`, "
    "`double`, `decimal` or `boolean`. An empty field of these, except `string`, is null.",
)
TEXT_START: Final = optional(
    "text.start.pattern",
    PATTERN,
    Group.RECORDS,
    "A record of `input.format=text` begins at each line in which this regular expression is found; without "
    "it, at each line, or after the end of the one before.",
)
TEXT_END: Final = optional(
    "text.end.pattern",
    PATTERN,
    Group.RECORDS,
    "A record of `input.format=text` ends with the line in which this regular expression is found. With "
    "`text.start.pattern`, lines that are in no record are left out.",
)
TEXT_PATTERN: Final = optional(
    "text.pattern",
    LINE_PATTERN,
    Group.RECORDS,
    "Takes each line (or record) of `input.format=text` apart, which becomes a JSON object: the logs of AWS "
    "by name, `cloudfront`, `alb`, `nlb`, `vpc-flow` and `s3-access`, or an own regular expression whose "
    "named groups are the members. A line that it does not match as a whole is a bad record.",
)
TEXT_TYPES: Final = optional(
    "text.types",
    TYPES,
    Group.RECORDS,
    "The types of groups of an own `text.pattern` whose values are no text, as in `csv.types`.",
)
TEXT_NULL: Final = optional(
    "text.null",
    TEXT,
    Group.RECORDS,
    "The value of a group of an own `text.pattern` that is null, such as `-`.",
)
TEXT_EXACT: Final = option(
    "text.exact",
    BOOLEAN,
    "false",
    Group.RECORDS,
    "`true`: lines of `input.format=text` are bytes that end at line feeds alone; a carriage return before "
    "one belongs to its line, and a byte order mark to the first. `false`: they are left out.",
    importance="LOW",
)
JSON_PATH: Final = optional(
    "json.path",
    PATH_TO_ARRAY,
    Group.RECORDS,
    "Where the array of `input.format=json` is, if it is inside an object: `$.Records[*]` for CloudTrail, "
    "`$.configurationItems[*]` for AWS Config. Its elements are the rows; what is around them is left out.",
)
ARCHIVE: Final = option(
    "input.archive",
    choice(Packing),
    "none",
    Group.RECORDS,
    "Which archives are read by their members, each as an object of `input.format`: `zip`, `tar` (plain, or "
    "compressed as a whole), or both (`auto`). Other objects are read as they are. `none`: archives are "
    "quarantined, and bytes with `input.format=bytes`.",
)
ARCHIVE_MEMBERS: Final = option(
    "input.archive.members",
    GLOBS,
    "",
    Group.RECORDS,
    "Only members whose names one of these globs matches are read, such as `*.json`. Empty: all files.",
)
ARCHIVE_MAX_MEMBERS: Final = option(
    "input.archive.max.members",
    integer(1, 1_000_000),
    "10000",
    Group.RECORDS,
    "How many entries an archive may have, those that are not read included; one with more is quarantined.",
    importance="LOW",
)
ARCHIVE_MAX_BYTES: Final = option(
    "input.archive.max.bytes",
    long(1, unit="bytes"),
    "107374182400",
    Group.RECORDS,
    "How much an archive may hold once it is expanded; one with more is quarantined, and so is one in which "
    "a member that is itself compressed holds more.",
    importance="LOW",
)
ARCHIVE_MAX_RATIO: Final = option(
    "input.archive.max.ratio",
    integer(2, 1_000_000),
    "250",
    Group.RECORDS,
    "How many times its stored size an archive, or a compressed member, may be once it is expanded, if that "
    "is more than 64 MiB: against archives that are made to expand without end.",
    importance="LOW",
)
