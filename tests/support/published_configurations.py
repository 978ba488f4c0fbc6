"""What the makers publish as configurations of their sinks, but for addresses and names of one's own."""

from typing import Any, Final

CONFLUENT: Final[dict[str, Any]] = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "6",
    "s3.region": "us-east-1",
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "parquet.codec": "snappy",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
    "locale": "en-US",
    "timezone": "UTC",
    "partition.duration.ms": "3600000",
    "flush.size": "50000",
    "rotate.interval.ms": "600000",
    "s3.part.size": "52428800",
    "key.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "errors.tolerance": "all",
    "errors.deadletterqueue.context.headers.enable": True,
    "errors.log.enable": True,
}
LENSES: Final[dict[str, Any]] = {
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
LENSES_KCQL: Final = (
    "insert into {bucket}:demo select * from {topic} PARTITIONBY _value.ts STOREAS `JSON` "
    "PROPERTIES ('flush.size'=1000000, 'flush.interval'=30, 'flush.count'=5000)"
)
