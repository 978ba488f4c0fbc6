"""Names of other tools: accepted without a meaning here, or refused with a remedy."""

from typing import Final

# Options of the Aiven connector and of Connect that have nothing to decide here.
WITHOUT_MEANING: Final = (
    "aws.s3.fetch.page.size",
    "aws.s3.fetch.buffer.size",
    "ring.buffer.size",
    "max.poll.records",
    "offset.flush.interval.ms",
    "kafka.retry.backoff.ms",
    "aws.s3.sse.algorithm",
    "file.prefix.template",
    "file.max.records",
    "file.name.timestamp.timezone",
    "file.name.timestamp.source",
    "header.converter",
)

# Families of Connect whose work is done by other options. An empty value is how user interfaces write "none".
REFUSED: Final[dict[str, str]] = {
    "transforms": (
        "single message transforms do not run here; use value.source, key.source, record.headers and "
        "record.timestamp for what a record holds, topic and file.name.template for where it goes"
    ),
    "predicates": (
        "predicates do not run here; use object.include, object.exclude and file.name.template to choose "
        "objects"
    ),
}

# Names close in meaning but not in letters, which a comparison of spellings does not find.
MEANT: Final[dict[str, str]] = {
    "topics": "topic",
    "input.type": "input.format",
    "bucket": "aws.s3.bucket.name",
    "region": "aws.s3.region",
    "prefix": "aws.s3.prefix",
    "group.id": "name",
    "transaction.boundary": "transaction.boundary.interval.ms",
    "expected.max.message.bytes": "record.max.bytes",
    "offset.storage.topic": "offsets.storage.topic",
    "aws.credentials.provider.class": "aws.credentials.provider",
    "aws.s3.bucket.prefix": "aws.s3.prefix",
}
