"""The actions that the other makers' pages tell an operator to allow their sinks."""

from typing import Final

# https://aiven.io/docs/products/kafka/kafka-connect/howto/s3-sink-prereq
_AIVEN: Final = frozenset(
    {
        "s3:GetObject",
        "s3:PutObject",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
        "s3:ListBucketMultipartUploads",
    }
)
# https://docs.confluent.io/kafka-connectors/s3-sink/current/overview.html
_CONFLUENT: Final = frozenset(
    {"s3:PutObject", "s3:GetObject", "s3:ListBucket", "s3:DeleteObject", "s3:GetBucketLocation"}
)
# https://docs.lenses.io/latest/connectors/kafka-connectors/sinks/aws-s3
_LENSES: Final = frozenset({"s3:PutObject", "s3:GetObject", "s3:DeleteObject"})

# Quix publishes none; these are what its file sink calls: HeadBucket and PutObject.
_QUIX: Final = frozenset({"s3:ListBucket", "s3:PutObject"})

PUBLISHED: Final = {"aiven": _AIVEN, "confluent": _CONFLUENT, "lenses": _LENSES}
NEEDED: Final = PUBLISHED | {"quix": _QUIX}
