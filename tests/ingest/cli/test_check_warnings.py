"""What `check` advises about a warning of the configuration's own."""

import json
from itertools import islice
from pathlib import Path

from ingest.cli.check import findings_of

_CONFLUENT = {
    "name": "archive",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "bootstrap.servers": "127.0.0.1:1",
    "topics": "orders",
    "s3.bucket.name": "backup",
    "s3.region": "us-east-1",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "flush.size": "3",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def test_no_option_is_to_be_left_out_for_a_warning_that_names_it(tmp_path: Path) -> None:
    """`flush.size` is required; most warnings name options that something depends on."""
    file = tmp_path / "archive.json"
    file.write_text(json.dumps(_CONFLUENT))

    valid, warning = islice(findings_of(file, (), None), 2)

    assert valid.sentence == f"{file} is valid"
    assert "objects close by flush.size" in warning.sentence
    assert warning.remedy == "It works as it is; docs/options.md describes what it names."
