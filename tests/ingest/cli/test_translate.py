"""What `headrace translate` prints: the same settings once more, but for values that it names as hidden."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pytest

from headrace.model.errors import InvalidConfiguration
from headrace.options import Settings, SettingsError
from headrace.options.choices import InputFormat
from headrace.options.sink_settings import SinkSettings
from headrace.options.vendor import AIVEN_SOURCE
from headrace.vendors.load import load, vendor_of
from ingest.cli.configuration_commands import translated_shape
from tests.headrace.options.loading import load_with, no_file
from tests.headrace.vendors.archive import archives
from tests.headrace.vendors.test_vendor_sources import TRANSLATED
from tests.support.sink_archives import sink_settings

_CONFLUENT: Mapping[str, str] = {
    "name": "archive",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "orders",
    "s3.bucket.name": "bucket",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.avro.AvroFormat",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "${env:SECRET}",
}


@pytest.mark.parametrize(
    ("changes", "hidden"),
    [
        ({}, []),
        ({"aws.secret.access.key": "hunter2"}, ["aws.secret.access.key"]),
        (
            {
                "s3.ssea.name": "AES256",
                "s3.sse.customer.key": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
            },
            ["aws.s3.sse.customer.key"],
        ),
        ({"value.converter.schema.registry.url": "http://me:hunter2@registry"}, ["schema.registry.url"]),
        ({"s3.proxy.url": "http://me:hunter2@proxy:3128"}, ["aws.s3.proxy.url"]),
        ({"s3.proxy.url": "http://proxy:3128"}, []),
        ({"topics.dir": "***"}, []),
    ],
)
def test_what_is_not_printed_whole_is_named(changes: Mapping[str, str], hidden: list[str]) -> None:
    """Else what is printed would run, and log in as `***`."""
    settings = load(
        json.dumps({**_CONFLUENT, **changes}),
        kind="json",
        environment={"SECRET": "hunter2"},
        read_file=no_file,
        worker_config="bootstrap.servers=127.0.0.1:9092",
    )
    found = translated_shape(settings)

    assert found["hidden"] == hidden
    assert "hunter2" not in json.dumps(found)
    assert found["config"]["aws.secret.access.key"] in {"${env:SECRET}", "***"}


def test_references_that_are_not_printed_are_named() -> None:
    """A value of the machine that translates would be that of all machines, without a word."""
    changes = {
        "s3.bucket.name": "${env:BUCKET}",
        "topics.dir": "${env:DIR}/in",
        "flush.size": "${env:FLUSH}",
        "timestamp.field": "${env:DIR}",
        "s3.proxy.url": "http://me:${env:SECRET}@proxy:3128",
    }
    environment = {"SECRET": "hunter2", "BUCKET": "landing", "DIR": "annas", "FLUSH": "7"}
    settings = load(
        json.dumps({**_CONFLUENT, **changes}),
        kind="json",
        environment=environment,
        read_file=no_file,
        worker_config="bootstrap.servers=127.0.0.1:9092",
    )
    found = translated_shape(settings)

    said = [each.partition(" was read on this machine")[0] for each in found["warnings"]]
    assert {each for each in said if "${" in each} == {
        "topics.dir: ${env:DIR}/in",
        "flush.size: ${env:FLUSH}",
    }
    assert not any("was read" in each for each in settings.warnings)
    assert found["config"]["aws.s3.bucket.name"] == "${env:BUCKET}"
    assert found["config"]["rotate.records"] == "7"
    assert "hunter2" not in json.dumps(found)


# How a configuration was given, and not what it means; the name decides identity and ledger.
_NOT_OF_MEANING: Final = frozenset(
    {
        "identity",
        "given",
        "shown",
        "texts",
        "written",
        "warnings",
        "translated",
        "of_worker",
        "kept_by_worker",
    }
)


def _configurations() -> Iterator[Mapping[str, Any]]:
    """Other vendors' sources, next to options of ours, and the sinks of all archives."""
    for given, _ in TRANSLATED:
        yield given
        for form in InputFormat:
            yield {**given, "input.format": str(form)}
    for archive in archives():
        if vendor_of(archive.config) is not None:
            yield archive.config


def meaning(settings: Settings, name: str) -> dict[str, Any]:
    """Everything but the names, as a sink of this name would have it."""
    found = {each.name: getattr(settings, each.name) for each in fields(settings)}
    kafka, sink = settings.kafka, settings.sink
    ledger = kafka.ledger_topic.replace(settings.name, name)
    found["kafka"] = replace(kafka, ledger_topic=ledger)
    if sink is not None:

        def renamed(one: SinkSettings) -> SinkSettings:
            own = one.topics.own - {kafka.ledger_topic} | {ledger}
            connector = one.takeover_connector
            if one.takeover_indexes is not None:
                connector = connector or settings.name
            routes = tuple(replace(route, sink=renamed(route.sink)) for route in one.routes)
            topics = replace(one.topics, own=own)
            return replace(one, topics=topics, takeover_connector=connector, routes=routes)

        found["sink"] = renamed(sink)
    return {name: value for name, value in found.items() if name not in _NOT_OF_MEANING}


def test_what_is_printed_is_the_same_sink_or_source() -> None:
    """Of each configuration that loads: it loads, too, and has the same settings."""
    seen = 0
    for given in _configurations():
        try:
            theirs = sink_settings(given)
        except SettingsError:
            continue
        found = translated_shape(theirs)
        hidden = {name: raw.reveal() for name, raw, _ in theirs.texts if name in found["hidden"]}
        printed = sink_settings({**found["config"], **hidden})
        assert meaning(printed, printed.name) == meaning(theirs, printed.name), given
        seen += 1
    assert seen > 200


_LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_OF_WORKER: Final = f"""
bootstrap.servers=127.0.0.1:9092
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={_LOGIN_MODULE} required username="u" password="hunter2";
producer.sasl.jaas.config={_LOGIN_MODULE} required username="p" password="${{env:SECRET}}";
consumer.ssl.endpoint.identification.algorithm=
consumer.auto.offset.reset=latest
consumer.isolation.level=read_uncommitted
consumer.group.id=backup
producer.compression.type=zstd
"""


@pytest.mark.parametrize("given", [_CONFLUENT, TRANSLATED[0][0]])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sasl.jaas.config": f'{_LOGIN_MODULE} required username="c" password="hunter3";'},
        {"consumer.override.ssl.endpoint.identification.algorithm": "https"},
        {"producer.override.sasl.mechanism": "SCRAM-SHA-256"},
    ],
)
def test_what_clients_have_of_a_workers_file_is_printed(
    given: Mapping[str, str], changes: Mapping[str, str]
) -> None:
    """What was printed began at another offset, without a log-in, and was said to be ready to run."""

    def load_text(config: Mapping[str, str], worker: str | None = None) -> Settings:
        text = json.dumps({"name": "archive", **config})
        environment = {"SECRET": "hunter2"}
        return load(text, kind="json", environment=environment, read_file=no_file, worker_config=worker)

    theirs = load_text({**given, **changes}, _OF_WORKER)
    found = translated_shape(theirs)

    assert "hunter2" not in json.dumps(found)
    assert "hunter3" not in json.dumps(found)
    own = {name: raw.reveal() for name, raw, _ in theirs.texts if name in found["hidden"]}
    of_worker = {name: raw.reveal() for name, raw in theirs.of_worker if name in found["hidden"]}
    printed = load_text({**found["config"], **own, **of_worker})
    assert meaning(printed, printed.name) == meaning(theirs, printed.name)
    with_file = load_text({**found["config"], **own}, _OF_WORKER)
    assert meaning(with_file, printed.name) == meaning(theirs, printed.name)
    if theirs.sink is not None:
        assert found["config"]["name"] == "backup"
    else:
        assert not any("offset" in name or "isolation" in name for name in found["config"])
    assert any(each.startswith("printed from the worker's file: ") for each in found["warnings"])


@pytest.mark.parametrize(
    "told",
    [
        "ssl.keystore.location=/rest.jks\nssl.keystore.password=shh\nssl.truststore.location=/trust.jks\n",
        "security.protocol=SSL\nssl.enabled.protocols=TLSv1.2,TLSv1.3\nsasl.mechanism=DIGEST-MD5\n",
    ],
)
def test_what_no_client_uses_of_a_workers_file_is_not_printed(told: str) -> None:
    """What was printed was refused, next to that file and without it."""

    def load_text(config: Mapping[str, str], worker: str | None = None) -> Settings:
        text = json.dumps({"name": "archive", **config})
        return load(text, kind="json", environment={"SECRET": "x"}, read_file=no_file, worker_config=worker)

    worker = f"bootstrap.servers=127.0.0.1:9092\n{told}"
    theirs = load_text(_CONFLUENT, worker)
    found = translated_shape(theirs)

    assert not [name for name in found["config"] if name.startswith(("ssl.", "sasl."))]
    own = {name: raw.reveal() for name, raw, _ in theirs.texts if name in found["hidden"]}
    for with_file in (None, worker):
        printed = load_text({**found["config"], **own}, with_file)
        assert meaning(printed, printed.name) == meaning(theirs, printed.name)


_SCRAM: Final = """
bootstrap.servers=127.0.0.1:9092
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.username=u
"""


@pytest.mark.parametrize(
    ("passwords", "kept_back"),
    [
        (["sasl.password=hunter2"], ["sasl.password"]),
        (["sasl.password=${env:SECRET}"], []),
        (
            ["sasl.password=${env:SECRET}", "producer.sasl.password=hunter3"],
            ["producer.override.sasl.password", "sasl.password"],
        ),
        (["sasl.password=hunter2", "producer.sasl.password=${env:SECRET}"], ["sasl.password"]),
    ],
)
def test_secrets_of_a_workers_file_stay_in_it(passwords: list[str], kept_back: list[str]) -> None:
    """A mask that was printed won over the file's password, and the sink logged in as `***`."""

    def load_text(config: Mapping[str, str], worker: str | None = None) -> Settings:
        environment = {"SECRET": "hunter4"}
        text = json.dumps(config)
        return load(text, kind="json", environment=environment, read_file=no_file, worker_config=worker)

    worker = "\n".join([_SCRAM, *passwords])
    theirs = load_text(_CONFLUENT, worker)
    found = translated_shape(theirs)

    assert found["hidden"] == kept_back
    assert not found["config"].keys() & set(kept_back)
    said = [each for each in found["warnings"] if each.startswith("not printed from the worker's file: ")]
    named = [each.partition(": ")[2].partition(";")[0] for each in said]
    assert named == ([", ".join(kept_back)] if kept_back else [])
    with_file = load_text(found["config"], worker)
    assert with_file.kafka.producer == theirs.kafka.producer
    assert with_file.kafka.consumer == theirs.kafka.consumer
    if kept_back:
        with pytest.raises(SettingsError, match="password"):
            load_text(found["config"])


def test_what_a_worker_forbids_is_left_out_by_the_warning() -> None:
    """A worker that let its connectors set less took what was printed before, and refuses it now."""
    policy = "connector.client.config.override.policy"
    worker = f"{_OF_WORKER}{policy}=Allowlist\nconnector.client.config.override.allowlist=bootstrap.servers\n"

    def load_text(config: Mapping[str, str]) -> Settings:
        environment = {"SECRET": "hunter2"}
        text = json.dumps(config)
        return load(text, kind="json", environment=environment, read_file=no_file, worker_config=worker)

    theirs = load_text(_CONFLUENT)
    found = translated_shape(theirs)

    with pytest.raises(SettingsError, match=policy):
        load_text(found["config"])
    (said,) = (each for each in found["warnings"] if each.startswith("printed from the worker's file: "))
    assert policy in said
    named = said.partition(": ")[2].partition(";")[0].split(", ")
    printed = load_text({name: text for name, text in found["config"].items() if name not in named})
    assert meaning(printed, printed.name) == meaning(theirs, printed.name)


_CHECKS_NAMES: Final = "consumer.override.ssl.endpoint.identification.algorithm"
_IN_FILE_ONLY: Final = [_CHECKS_NAMES, "sasl.jaas.config", "bootstrap.servers"]


@pytest.mark.parametrize(
    ("policy", "left_out", "printed"),
    [
        ("None", _IN_FILE_ONLY, []),
        ("Principal", [_CHECKS_NAMES, "bootstrap.servers"], ["security.protocol"]),
        ("Allowlist", _IN_FILE_ONLY, []),
        ("All", ["sasl.jaas.config"], [_CHECKS_NAMES, "bootstrap.servers"]),
    ],
)
@pytest.mark.parametrize("given", [_CONFLUENT, TRANSLATED[0][0]])
def test_what_this_worker_lets_no_connector_set_is_not_printed(
    given: Mapping[str, str], policy: str, left_out: list[str], printed: list[str]
) -> None:
    """The worker whose file was given refused the `bootstrap.servers` that was printed."""
    worker = f"{_OF_WORKER}connector.client.config.override.policy={policy}\n"

    def load_text(config: Mapping[str, str], worker: str | None = None) -> Settings:
        text = json.dumps({"name": "archive", **config})
        environment = {"SECRET": "hunter2"}
        return load(text, kind="json", environment=environment, read_file=no_file, worker_config=worker)

    theirs = load_text(given, worker)
    found = translated_shape(theirs)

    assert not found["config"].keys() & set(left_out)
    assert found["config"].keys() >= set(printed)
    own = {name: raw.reveal() for name, raw, _ in theirs.texts if name in found["hidden"]}
    again = load_text({**found["config"], **own}, worker)
    assert meaning(again, again.name) == meaning(theirs, again.name)
    said = [each for each in found["warnings"] if "lets no connector set" in each]
    if policy == "All":
        assert said == []
        return
    named = said[0].partition(": ")[2].partition(";")[0].split(", ")
    assert {*left_out} <= {*named}
    assert not {*named} & {*found["config"], *found["hidden"]}
    # Nobody runs it without that file by mistake: it would begin at another offset.
    with pytest.raises(SettingsError, match=r"bootstrap\.servers"):
        load_text({**found["config"], **own})


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (AIVEN_SOURCE, "the options of Aiven's S3 source are Headrace's"),
        ("HeadraceSource", "connector.class names no other vendor's connector"),
    ],
)
def test_what_is_ours_already_needs_no_translation(named: str, why: str) -> None:
    """Aiven's source is another vendor's connector: it was denied."""
    with pytest.raises(InvalidConfiguration, match=why):
        translated_shape(load_with({"connector.class": named}))
