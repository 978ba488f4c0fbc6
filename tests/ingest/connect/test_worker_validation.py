"""What validation says of a configuration is what becomes of it when it is sent to be created."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from tests.ingest.connect.test_worker_changes import SINK, SOURCE, WORKER, Worker
from tests.security.certificates import new_authority

AIVEN = {**SOURCE, "connector.class": "io.aiven.kafka.connect.s3.source.S3SourceConnector"}
CONFLUENT = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "events",
    "s3.bucket.name": "${env:BUCKET}",
    "s3.region": "us-east-1",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
AVRO = {name: text for name, text in CONFLUENT.items() if not name.startswith("value.converter")}
BROKERS = "bootstrap.servers=${env:BROKERS}\ngroup.id=group"
REGISTRY = """
value.converter=io.confluent.connect.avro.AvroConverter
value.converter.schema.registry.url=${env:REGISTRY}
"""
PLAIN = """
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=${file:FOLDER/jaas.properties:jaas}
"""
JAAS = 'jaas=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";\n'
DIR = {"aws.access.key.id": "${dir:FOLDER:id}", "aws.secret.access.key": "${dir:FOLDER:key}"}
LOGIN = {f"producer.override.{name}": text for name, text in (line.split("=", 1) for line in PLAIN.split())}

CREATED = {
    "nothing special": (WORKER, SOURCE),
    "brokers of the worker from its environment": (BROKERS, SOURCE),
    "the worker's log-in from a file": (WORKER + PLAIN, SOURCE),
    "a registry of the worker from its environment": (WORKER + REGISTRY, AVRO),
    "a log-in from a file": (WORKER, {**SOURCE, **LOGIN}),
    "keys from files": (WORKER, {**SOURCE, **DIR}),
    "a bucket from the environment": (WORKER, {**SOURCE, "aws.s3.bucket.name": "${env:BUCKET}"}),
    "a bucket from the environment, of Confluent's": (WORKER, CONFLUENT),
    "a number from the environment, of Confluent's": (WORKER, {**CONFLUENT, "flush.size": "${env:N}"}),
    "what its partitioner needs, from the environment": (
        WORKER,
        {
            **CONFLUENT,
            "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
            "partition.field.name": "${env:KEY}",
        },
    ),
    "a mechanism from the environment": (
        WORKER,
        {**SOURCE, **LOGIN, "producer.override.sasl.mechanism": "${env:MECHANISM}"},
    ),
    "the place of a trust store from the environment": (
        f"{WORKER}\nssl.truststore.location=${{env:CERTIFICATES}}\nssl.truststore.type=PEM",
        SOURCE,
    ),
    "a pattern of a transform from the environment": (
        WORKER,
        {
            **SOURCE,
            "transforms": "r",
            "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.r.regex": "${env:KEY}",
            "transforms.r.replacement": "x",
        },
    ),
}

WITHOUT_CONVERTERS = {name: text for name, text in CONFLUENT.items() if ".converter" not in name}
SHORT = {"key.converter": "${env:STRING}", "value.converter": "${env:JSON}"}
CONVERTERS = """
key.converter=${env:STRING}
key.converter.schemas.enable=false
value.converter=${env:JSON}
value.converter.schemas.enable=false
"""
CREATED |= {
    "its class from the environment": (WORKER, {**SOURCE, "connector.class": "${env:SOURCE_CLASS}"}),
    "its class from the environment, of Confluent's": (
        WORKER,
        {**CONFLUENT, "connector.class": "${env:SINK_CLASS}"},
    ),
    "short names of converters from the environment": (WORKER, {**CONFLUENT, **SHORT}),
    "short names of converters from the environment, of our sink": (WORKER, {**SINK, **SHORT}),
    "the worker's converters from its environment": (f"{WORKER}\n{CONVERTERS}", WITHOUT_CONVERTERS),
}
CLASSES = {"${env:SOURCE_CLASS}": "HeadraceSource", "${env:SINK_CLASS}": CONFLUENT["connector.class"]}

REFUSED = {
    "options of Spark": ({**SOURCE, "spark.sql.x": "1"}, ["spark.sql.x"]),
    "an address": ({**SOURCE, "http.listen": "127.0.0.1:9"}, ["http.listen"]),
    "a folder": ({**SOURCE, "state.dir": "/x"}, ["state.dir"]),
    "the name of the workers' own group": ({**SOURCE, "name": "worker-group"}, ["name"]),
    "a secret as it is shown": ({**SOURCE, "aws.secret.access.key": "[hidden]"}, ["aws.secret.access.key"]),
    "an option of a sink in a source": ({**SOURCE, "rotate.records": "5"}, ["rotate.records"]),
    "an option of a source in a sink": (
        {**SINK, "file.name.template": ".*", "poll.interval.ms": "1000"},
        None,
    ),
    "no reference": ({**SOURCE, "topic": "${env:}"}, ["topic"]),
    "a reference of another provider": ({**SOURCE, "topic": "${vault:a:b}"}, ["topic"]),
    "a bucket's name, of Confluent's": ({**CONFLUENT, "s3.bucket.name": "No Bucket"}, ["s3.bucket.name"]),
}


def in_folder(found: Any, folder: Path) -> Any:
    """The same, with the folder's path in it."""
    if isinstance(found, dict):
        return {name: text.replace("FOLDER", str(folder)) for name, text in found.items()}
    return found.replace("FOLDER", str(folder))


def errors_of(worker: Worker, config: dict[str, str]) -> list[str]:
    """The options that validation shows errors of, one for each; as many as it counts."""
    plugin = CLASSES.get(config["connector.class"], config["connector.class"])
    status, shape = worker.ask("PUT", f"/connector-plugins/{plugin}/config/validate", {"name": "x", **config})
    assert status == 200
    shown = [one["value"]["name"] for one in shape["configs"] for _ in one["value"]["errors"]]
    assert len(shown) == shape["error_count"]
    return sorted(shown)


def created(worker: Worker, config: dict[str, str]) -> int:
    """The status of its creation."""
    name = config.get("name", "x")
    return worker.ask("POST", "/connectors", {"name": name, "config": config})[0]


@pytest.mark.parametrize(("text", "config"), CREATED.values(), ids=CREATED)
def test_what_is_created_has_no_errors(text: str, config: dict[str, str], tmp_path: Path) -> None:
    """References are not followed, and nothing is said of their options, whoever has them."""
    for name, content in (("id", "AKIA"), ("key", "s3cret"), ("jaas.properties", JAAS)):
        (tmp_path / name).write_text(content)
    worker, given = Worker(in_folder(text, tmp_path)), in_folder(config, tmp_path)

    assert errors_of(worker, given) == []
    assert created(worker, given) == 201


def test_whether_a_store_opens_is_not_judged_without_its_password(tmp_path: Path) -> None:
    """The file is there, and the password is a reference of the worker's."""
    certificate = new_authority(tmp_path).certificate
    encryption = BestAvailableEncryption(b"s3cret")
    store = serialize_key_and_certificates(None, None, None, [certificate], encryption)
    (tmp_path / "ca.p12").write_bytes(store)
    (tmp_path / "key").write_text("s3cret")
    stores = "ssl.truststore.location=FOLDER/ca.p12\nssl.truststore.password=${dir:FOLDER:key}"
    worker = Worker(in_folder(f"{WORKER}\n{stores}", tmp_path))

    assert errors_of(worker, SOURCE) == []
    assert created(worker, SOURCE) == 201


@pytest.mark.parametrize(
    ("plugin", "change", "options"),
    [
        ("HeadraceSource", {}, []),
        ("HeadraceSource", {"poll.interval.ms": "soon"}, ["poll.interval.ms"]),
        ("HeadraceSource", {"rotate.records": "5"}, ["rotate.records"]),
        ("HeadraceSource", {"connector.class": "${vault:a:b}"}, ["connector.class"]),
        ("HeadraceSource", {"connector.class": "${file:/secret:class}"}, ["connector.class"]),
    ],
)
def test_a_class_by_a_reference_has_the_options_of_the_class_that_is_asked_about(
    plugin: str, change: dict[str, str], options: list[str]
) -> None:
    """What it leads to is not looked at, unless it may not be looked at."""
    limits = "config.providers=file,env\nconfig.providers.file.param.allowed.paths=/open"
    given = {"name": "x", **SOURCE, "connector.class": "${env:SOURCE_CLASS}", **change}
    path = f"/connector-plugins/{plugin}/config/validate"
    status, shape = Worker(f"{WORKER}\n{limits}").ask("PUT", path, given)

    assert status == 200
    assert [one["value"]["name"] for one in shape["configs"] if one["value"]["errors"]] == options
    (shown,) = [one["value"] for one in shape["configs"] if one["value"]["name"] == "connector.class"]
    assert shown["value"] == given["connector.class"]


@pytest.mark.parametrize(("config", "options"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_has_its_errors(config: dict[str, str], options: list[str] | None) -> None:
    """Each is counted, and shown at its option."""
    worker = Worker()
    shown = errors_of(worker, config)

    assert shown == options if options is not None else shown
    assert created(worker, config) == 400


def test_a_secret_as_it_is_shown_is_the_one_that_is_kept() -> None:
    """As a client finds it that validates what it has read before it sends it."""
    worker = Worker()
    login = {
        f"producer.override.{name}": text for name, text in (line.split("=", 1) for line in PLAIN.split())
    }
    login["producer.override.sasl.jaas.config"] = JAAS.removeprefix("jaas=").strip()
    assert created(worker, {**SOURCE, **login}) == 201
    shown = worker.ask("GET", "/connectors/x/config")[1]
    assert shown["producer.override.sasl.jaas.config"] == "[hidden]"

    assert errors_of(worker, shown) == []
    assert "s3cret" not in str(worker.ask("PUT", "/connector-plugins/HeadraceSource/config/validate", shown))
