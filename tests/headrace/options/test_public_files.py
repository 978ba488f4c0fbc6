"""Configurations that people have published: each is accepted, or refused with what to change.

The facts of each are in a file of its own in `tests/cases/public`, with where they are from; names, addresses
and secrets are ours.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.options import Settings
from headrace.options.given import SettingsError
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file

_FOLDER: Final = Path(__file__).parents[2] / "cases" / "public"
# What a Connect worker has in most quick starts.
_WORKER: Final = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_ENVIRONMENT: Final = {
    "S3_ACCESS_KEY": "AKIAEXAMPLE",
    "S3_SECRET_KEY": "not-a-secret",
    "S3_ENDPOINT": "http://minio:9000",
}
_FORMER: Final = "been replaced; write PROPERTIES("
# By file: what each problem says that the author has to change; none where the file runs as it is.
_EXPECTED: Final[dict[str, tuple[str, ...]]] = {
    "aiven-assumed-role": (),
    "aiven-cdc-minio": (),
    "aiven-kafka-backup-csv": ("write topic, partition and start_offset",),
    "aiven-linode": (),
    "aiven-old-spellings": (),
    "aiven-readme-jsonl": (),
    "aiven-source-docs": (),
    "aiven-source-first-class": (
        "did you mean io.aiven.kafka.connect.s3.source.S3SourceConnector? expected HeadraceSource,",
    ),
    "aiven-source-hash": (),
    "aiven-source-readme": ("did you mean input.format?",),
    "aiven-source-topics": ("is a sink's; use topic",),
    "aiven-with-confluents-lines": (),
    "aiven-ydb": (),
    "aiven-ydb-misnamed-secret": ("did you mean aws.secret.access.key?", "give both or none"),
    "confluent-aiven-bytes": (),
    "confluent-assumed-role": ("did you mean aws.secret.access.key?", "give both or none"),
    "confluent-debezium-hours": ("add locale=en",),
    "confluent-field-notes-cdk": (),
    "confluent-four-lines-avro": ("add storage.class=", "add flush.size=N"),
    "aiven-regex-with-late-flags": (),
    "confluent-cloud": ("did you mean io.confluent.connect.s3.S3SinkConnector?",),
    "confluent-glue-debezium": (),
    "aiven-strimzi-class": ("did you mean io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector?",),
    "confluent-iceberg-minio": (
        "s3.endpoint: is not an option of Confluent's S3 sink or of Headrace; remove it",
        "s3.path.style.access: is not an option of Confluent's S3 sink or of Headrace; did you mean s3.path.",
        "s3.force.path.style: is not an option of Confluent's S3 sink or of Headrace; did you mean s3.path.",
    ),
    "confluent-issue-177": (),
    "confluent-issue-487": ("leave it out and write file.name.template",),
    "confluent-issue-729": (),
    "confluent-lab-minio-dlq": (),
    "confluent-mesh-hours": (),
    "confluent-minio-issue-9623": (),
    "confluent-misnamed-secret": ("did you mean aws.secret.access.key?", "give both or none"),
    "confluent-misspelled-codec": ("expected one of null, deflate, snappy, bzip2",),
    "confluent-msk-regex": (),
    "confluent-msk-wrong-package": ("io.confluent.connect.s3.format.json.JsonFormat",),
    "confluent-oss-virtual-hosts": (),
    "confluent-own-partitioner": ("leave it out and write file.name.template",),
    "confluent-proxy": (),
    "confluent-quickstart-issue-70": ("needs schema.registry.url", "needs schema.registry.url"),
    "confluent-record-name-strategy": (),
    "confluent-sinetstream-minio": (
        "expected one of org.apache.kafka.connect.converters.ByteArrayConverter",
    ),
    "confluent-snowpipe": (),
    "confluent-standalone-ec2": (),
    "confluent-static-provider": (
        "give aws.access.key.id and aws.secret.access.key",
        "give aws.access.key.id and aws.secret.access.key",
        "needs aws.access.key.id and aws.secret.access.key",
    ),
    "confluent-storefront": (),
    "confluent-strimzi-parquet-gzip": ("did you mean s3.object.tagging?",),
    "confluent-strimzi-saigon": (),
    "confluent-terraform-jdbc-leftovers": (),
    "confluent-time-and-field": (
        "did you mean partition.field.name?",
        "leave it out and write file.name.template",
    ),
    "confluent-trimmed-parquet-dlq": ("add storage.class=", "add flush.size=N"),
    "confluent-two-sinks-mixed": (
        "did you mean aws.access.key.id?",
        "did you mean aws.secret.access.key?",
        "did you mean store.url?",
        "it takes unit=yyyy|MM|dd|HH",
    ),
    "lenses-data-lake-blog": (f"{_FORMER}'flush.interval'=60, 'flush.count'=50)",),
    "lenses-dates": (f"{_FORMER}'partition.include.keys'=false, 'flush.count'=1)",),
    "lenses-first-names": (f"{_FORMER}'flush.count'=5000)",),
    "lenses-ksqldb-parquet": (f"{_FORMER}'flush.interval'=60, 'flush.size'=10000)",),
    "lenses-msk-flush-interval": (f"{_FORMER}'flush.interval'=60)",),
    "lenses-msk-terraform": (),
    "lenses-msk-tutorial": (),
    "lenses-profiles": ("write their lines, and the statement, into this file", "add one", "add it there"),
    "lenses-quoted-format": (f"{_FORMER}'flush.count'=100000)",),
    "lenses-testcontainers": (f"{_FORMER}'flush.count'=1)",),
    "confluent-source-comma-in-region": ("expected a region such as us-east-1",),
    "confluent-source-environment-provider": (),
    "confluent-source-extract-nothing": ("expected the name of a field",),
    "confluent-source-generalized": (),
    "confluent-source-integration-test": (),
    "confluent-source-learning-page": (),
    "confluent-source-misnamed-secret": (
        "(ByteArrayConverter restores what is stored)",
        "did you mean aws.secret.access.key?",
        "give both or none",
    ),
    "confluent-source-parquet-topics": ("write object.include=topics/NAME/*",),
    "confluent-source-playground": ("(ByteArrayConverter restores what is stored)",),
    "confluent-source-proxy": ("(ByteArrayConverter restores what is stored)",),
    "confluent-source-quickstart-file": (),
    "confluent-source-without-region": (),
    "lenses-source-csv-with-headers": ("set input.format=csv and csv.header=true",),
    "lenses-source-docs": (),
    "lenses-source-issue-864": ("expected one of JSON, AVRO, PARQUET",),
    "lenses-source-issue-888": (),
    "lenses-source-issue-903": (),
    "lenses-source-issue-910": ("PARTITIONBY is of Lenses' sink and decides nothing in a source; remove it",),
    "lenses-source-issue-1246": ("This ` is not closed",),
    "lenses-source-issue-1711": (),
    "lenses-source-msk-restore": (),
    "lenses-source-msk-restore-many": ("write a configuration, with another name, for each",),
    "lenses-source-readme-first-names": (),
    "lenses-source-snowflake": (),
    "lenses-source-strimzi": (),
    "lenses-source-testcontainers": ("WITH_FLUSH_COUNT is of Lenses' sink",),
}


def _case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text())
    return found


def _load(name: str) -> Settings:
    case = _case(name)
    worker = {"bootstrap.servers": "kafka:9092", **case.get("worker", _WORKER)}
    return load(
        json.dumps(case["config"]),
        kind="json",
        environment=_ENVIRONMENT,
        read_file=no_file,
        worker_config="\n".join(f"{name}={text}" for name, text in worker.items()),
    )


def test_every_file_has_its_line_and_its_source() -> None:
    """None is there without being held."""
    names = {path.stem for path in _FOLDER.glob("*.json")}
    assert names == _EXPECTED.keys()
    assert len(names) >= 80
    assert all(_case(name)["source"] for name in names)


@pytest.mark.parametrize("name", [name for name, problems in _EXPECTED.items() if not problems])
def test_accepted(name: str) -> None:
    """With one warning at most for all lines that decide nothing."""
    warnings = _load(name).warnings
    assert sum(each.startswith("accepted ") for each in warnings) <= 1, warnings


@pytest.mark.parametrize("name", [name for name, problems in _EXPECTED.items() if problems])
def test_refused(name: str) -> None:
    """One sentence for each line that has to change, and no other."""
    with pytest.raises(SettingsError) as caught:
        _load(name)
    found, expected = [str(each) for each in caught.value.problems], _EXPECTED[name]
    assert len(found) == len(expected), found
    assert all(any(part in each for each in found) for part in expected), found


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("aiven-cdc-minio", ["flush.size"]),
        ("aiven-with-confluents-lines", ["flush.size", "format.class", "rotate.interval.ms"]),
        ("confluent-record-name-strategy", ["internal.value.converter"]),
        ("confluent-terraform-jdbc-leftovers", ["key.converter.schemas.enable", "table.name.format"]),
        ("confluent-minio-issue-9623", ["format", "max.request.size"]),
        ("confluent-issue-177", ["key.converter.schemas.enable", "prefix.add.prefix"]),
        ("lenses-msk-terraform", ["locale", "schema.enable", "value.converter.schemas.enable"]),
        ("aiven-source-docs", ["timestamp.source", "timestamp.timezone"]),
        ("confluent-source-quickstart-file", ["partitioner.class", "schema.compatibility"]),
        ("lenses-source-issue-903", ["topics"]),
    ],
)
def test_lines_that_decide_nothing_are_named(name: str, lines: list[str]) -> None:
    """None is passed over in silence."""
    (warning,) = [each for each in _load(name).warnings if each.startswith("accepted ")]
    assert all(line in warning.partition(": ")[2].split(", ") for line in lines), warning
