"""`--worker-config`: a worker's file counts as much as JSON as it does as `.properties`."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.model.errors import InvalidConfiguration
from headrace.options import Settings
from headrace.options.client_names import OF_SERVERS
from headrace.options.settings import Role
from ingest.cli.configuration import assignments, read_settings
from ingest.cli.run import worker_settings
from ingest.http.rest.plugins import validated

_SOURCE = {"name": "orders", "aws.s3.bucket.name": "uploads", "topic": "orders", "file.name.template": ".*"}
_AIVEN_SINK = {
    "name": "orders",
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "topics": "orders",
    "aws.s3.bucket.name": "archive",
    "aws.s3.region": "eu-west-1",
    "format.output.type": "jsonl",
}
_CONVERTERS = dict.fromkeys(
    ("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter"
)
_BROKERS = {"bootstrap.servers": "broker:9092"}
# The names of files that say, and do not say, what is in them.
_ROLES: tuple[Role, ...] = ("producer", "consumer", "admin")
_NAMES = ("worker.properties", "worker.json", "worker.JSON", "worker")


def read(
    folder: Path, worker: Mapping[str, object], name: str, given: Mapping[str, str] = _SOURCE
) -> Settings:
    """The settings of a connector next to a worker's file of this name."""
    if name == "worker.properties":
        text = "\n".join(f"{option}={value}" for option, value in worker.items())
    else:
        # As Windows' editors begin a file.
        text = "\ufeff" + json.dumps(worker, indent=2)
    (folder / name).write_text(text, encoding="utf-8")
    config = folder / "connector.json"
    config.write_text(json.dumps(given))
    return read_settings(config, sets=(), worker_config=folder / name)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize(
    ("limit", "option", "value", "said"),
    [
        ({"connector.client.config.override.policy": "None"}, "producer.override.linger.ms", "5", "set this"),
        ({"connector.client.config.override.policy": "Mine"}, "topic", "orders", "expected All, None"),
        ({"config.providers": "env", "config.providers.env.param.allowlist.pattern": "PUBLIC_.*"},
         "topic", "${env:HOME}", "read the variable HOME"),
        ({"config.providers": "file", "config.providers.file.param.allowed.paths": "/allowed"},
         "topic", "${file:/secret:topic}", "read /secret"),
    ],
)  # fmt: skip
def test_what_it_forbids_connectors_is_refused(
    name: str, limit: dict[str, str], option: str, value: str, said: str, tmp_path: Path
) -> None:
    """Whatever the file is: what passed would be read for who may only write connectors."""
    with pytest.raises(InvalidConfiguration) as refused:
        read(tmp_path, _BROKERS | limit, name, _SOURCE | {option: value})
    assert said in str(refused.value)


@pytest.mark.parametrize("name", _NAMES)
def test_its_brokers_and_accounts_are_taken(name: str, tmp_path: Path) -> None:
    """Signs with a meaning in `.properties` are a value's own, and JSON's booleans are texts."""
    worker: dict[str, object] = _BROKERS | {
        "producer.security.protocol": "SASL_PLAINTEXT",
        "producer.sasl.mechanism": "PLAIN",
        "producer.sasl.username": "headrace",
        "producer.sasl.password": "a=b:c#d!",
        "topic.creation.enable": False if name != "worker.properties" else "false",
        "group.id": "workers",
    }
    found = read(tmp_path, worker, name)

    assert found.kafka.bootstrap_servers == "broker:9092"
    assert found.kafka.client("producer")["sasl.password"] == "a=b:c#d!"
    assert "sasl.password" not in found.kafka.client("consumer")


@pytest.mark.parametrize("prefix", ["", "producer.", "consumer.", "admin."])
@pytest.mark.parametrize("option", sorted(OF_SERVERS))
def test_what_its_own_rest_interface_asks_of_clients_is_passed_over(
    option: str, prefix: str, tmp_path: Path
) -> None:
    """Connect's worker has `ssl.client.auth` for its listeners; no client of Kafka's is made of it."""
    told = _BROKERS | {"ssl.ca.location": "/ca.pem", f"{prefix}{option}": "required"}
    found = read(tmp_path, told, "worker.properties")

    assert found.kafka.client("producer")["ssl.ca.location"] == "/ca.pem"
    assert found.of_worker == read(tmp_path, told | {f"{prefix}{option}": "x"}, "worker.properties").of_worker
    worker = worker_settings(tmp_path / "worker.properties")
    assert worker.warnings == (f"accepted without a meaning here: {prefix}{option}",)


_KAFKA = "org.apache.kafka.common.security"
_WITHOUT_EFFECT = {
    "ssl.protocol": "TLSv1.3",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.provider": "SunJSSE",
    "ssl.keymanager.algorithm": "SunX509",
    "ssl.trustmanager.algorithm": "PKIX",
    "ssl.secure.random.implementation": "NativePRNG",
    "ssl.engine.factory.class": f"{_KAFKA}.ssl.DefaultSslEngineFactory",
    "sasl.login.class": f"{_KAFKA}.authenticator.DefaultLogin",
    "sasl.login.connect.timeout.ms": "1000",
    "sasl.login.read.timeout.ms": "1000",
    "sasl.login.refresh.buffer.seconds": "300",
    "sasl.login.refresh.min.period.seconds": "60",
    "sasl.login.refresh.window.factor": "0.8",
    "sasl.login.refresh.window.jitter": "0.05",
    "sasl.login.retry.backoff.max.ms": "10000",
    "sasl.login.retry.backoff.ms": "100",
    "sasl.kerberos.ticket.renew.jitter": "0.05",
    "sasl.kerberos.ticket.renew.window.factor": "0.8",
    "sasl.oauthbearer.header.urlencode": "false",
    "sasl.oauthbearer.jwt.retriever.class": f"{_KAFKA}.oauthbearer.DefaultJwtRetriever",
    "sasl.oauthbearer.jwt.validator.class": f"{_KAFKA}.oauthbearer.DefaultJwtValidator",
    "sasl.oauthbearer.scope.claim.name": "scope",
}
_LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "shh"}
_TLS = {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}


@pytest.mark.parametrize("prefix", ["", "producer.", "consumer.", "admin."])
def test_what_tunes_java_s_log_in_and_tls_is_passed_over(prefix: str, tmp_path: Path) -> None:
    """A file with which Connect works is taken; the worker says once what is not used."""
    told = _BROKERS | _TLS | {f"{prefix}{option}": value for option, value in _WITHOUT_EFFECT.items()}
    found = read(tmp_path, told, "worker.properties")

    plain = read(tmp_path, _BROKERS | _TLS, "worker.json")
    assert (found.kafka, found.of_worker, found.warnings) == (plain.kafka, plain.of_worker, ())
    names = ", ".join(sorted(f"{prefix}{option}" for option in _WITHOUT_EFFECT))
    assert worker_settings(tmp_path / "worker.properties").warnings == (
        f"accepted without a meaning here: {names}",
    )


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("ssl.enabled.protocols", "TLSv1.3", "to be sure of TLS 1.3 let the brokers speak nothing else"),
        ("ssl.provider", "BCFIPS", "name OpenSSL's module in ssl.providers"),
        ("ssl.engine.factory.class", "com.example.Pinned", "classes of Java cannot be called"),
        ("sasl.login.class", "com.example.Login", "classes of Java cannot be called"),
        ("sasl.oauthbearer.jwt.validator.class", "com.example.Validator", "classes of Java cannot be called"),
        ("ssl.truststore.location", "/trust.jks", "a JKS store can only be read by Java"),
    ],
)
def test_what_would_weaken_tls_or_a_log_in_is_refused(
    option: str, value: str, said: str, tmp_path: Path
) -> None:
    """Whoever wrote it relies on it."""
    login = {"security.protocol": "SASL_SSL", **_LOGIN}
    with pytest.raises(InvalidConfiguration) as refused:
        read(tmp_path, _BROKERS | _TLS | login | {option: value}, "worker.properties")
    assert f"{option} = '{value}'" in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("PLAINTEXT", {"ssl.keystore.location": "/rest.jks", "ssl.keystore.password": "x"}),
        ("PLAINTEXT", {"ssl.enabled.protocols": "TLSv1.3", "ssl.engine.factory.class": "com.example.Pinned"}),
        ("PLAINTEXT", {"sasl.mechanism": "DIGEST-MD5", "sasl.jaas.config": "com.example.Module required;"}),
        ("SSL", {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "com.example.Module required;"}),
        ("SASL_PLAINTEXT", {"ssl.truststore.location": "/trust.jks", "ssl.truststore.type": "JKS"}),
    ],
)
def test_what_no_client_uses_by_its_protocol_is_passed_over(
    protocol: str, options: dict[str, str], tmp_path: Path
) -> None:
    """Connect's worker has `ssl.*` for its own listeners, too. That it is not used is said."""
    base = _BROKERS | {"security.protocol": protocol} | (_LOGIN if protocol.startswith("SASL") else {})
    found = read(tmp_path, base | options, "worker.properties")

    plain = read(tmp_path, base, "worker.json")
    assert (found.kafka, found.of_worker) == (plain.kafka, plain.of_worker)
    (said,) = found.warnings
    assert said.startswith(f"{', '.join(sorted(options))} of the worker's file: not used by producers")
    assert said.endswith(f", whose security.protocol is {protocol}")
    with pytest.raises(InvalidConfiguration):
        read(tmp_path, base | {"security.protocol": "SASL_SSL"} | _LOGIN | options, "worker.json")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ssl.truststore.locatoin": "/trust.p12"}, "did you mean ssl.truststore.location?"),
        ({"security.protocol": "SSL", "sasl.jaas.confg": "x"}, "did you mean sasl.jaas.config?"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "AWS IAM needs security.protocol = SASL_SSL"),
        (
            {"security.protocol": "SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class":
             "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"},
            "AWS IAM needs security.protocol = SASL_SSL",
        ),
        (
            {**_TLS, "ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.cipher.suites": "DEFAULT:@SECLEVEL=0"},
            "ssl.enabled.protocols = 'TLSv1.2,TLSv1.3': older TLS is spoken, too, by @SECLEVEL=0",
        ),
    ],
)  # fmt: skip
def test_what_would_be_lost_without_a_word_is_refused(
    options: dict[str, str], said: str, tmp_path: Path
) -> None:
    """Clients would speak otherwise than the file says."""
    with pytest.raises(InvalidConfiguration) as refused:
        read(tmp_path, _BROKERS | options, "worker.properties")
    assert said in str(refused.value)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
@pytest.mark.parametrize(
    "suites", ["TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256", "SSL_RSA_WITH_RC4_128_SHA"]
)
def test_suites_of_its_own_listeners_are_no_problem_without_tls(
    suites: str, protocol: str, tmp_path: Path
) -> None:
    """No client asks for them."""
    login = {"security.protocol": protocol, **(_LOGIN if protocol.startswith("SASL") else {})}
    found = read(tmp_path, _BROKERS | login | {"ssl.cipher.suites": suites}, "worker.properties")
    assert not found.warnings


@pytest.mark.parametrize("protocol", [{}, {f"{role}.override.security.protocol": "SSL" for role in _ROLES}])
def test_a_store_s_password_of_a_connector_meets_the_store_of_the_worker(
    protocol: dict[str, str], tmp_path: Path
) -> None:
    """A store is left out whole, or not at all."""
    told = _BROKERS | {"ssl.keystore.location": "/me.p12", "ssl.keystore.type": "PKCS12"}
    given = _SOURCE | {"ssl.keystore.password": "shh"} | protocol
    found = read(tmp_path, told, "worker.properties", given)

    for role in _ROLES:
        assert found.kafka.client(role)["ssl.keystore.location"] == "/me.p12"
        assert found.kafka.client(role)["ssl.keystore.password"] == "shh"
    assert not [one for one in found.warnings if "of the worker's file" in one]


@pytest.mark.parametrize(("store", "problems"), [("/me.p12", []), ("/me.jks", ["ssl.keystore.location"])])
@pytest.mark.parametrize("password", [{}, {"ssl.keystore.password": "shh"}])
def test_a_protocol_that_is_not_followed_leaves_out_nothing(
    store: str, problems: list[str], password: dict[str, str]
) -> None:
    """Where a configuration is validated: the store may be used."""
    found = validated(
        _AIVEN_SINK["connector.class"],
        _AIVEN_SINK | _CONVERTERS | password | {"security.protocol": "${env:P}"},
        f"bootstrap.servers=broker:9092\nssl.keystore.location={store}\n",
        (),
    )
    assert [one["value"]["name"] for one in found["configs"] if one["value"]["errors"]] == problems


@pytest.mark.parametrize(
    ("option", "farther", "nearer"),
    [
        ("ssl.enabled.protocols", "TLSv1.3", "TLSv1.2"),
        ("ssl.provider", "BCFIPS", "SunJSSE"),
        ("ssl.engine.factory.class", "com.example.Pinned", f"{_KAFKA}.ssl.DefaultSslEngineFactory"),
    ],
)
def test_the_nearest_word_counts_where_it_is_without_effect(
    option: str, farther: str, nearer: str, tmp_path: Path
) -> None:
    """What every kind of client has of its own wins over what is said for all."""
    told = _BROKERS | _TLS | {option: farther}
    found = read(tmp_path, told | {f"{role}.{option}": nearer for role in _ROLES}, "worker.properties")

    plain = read(tmp_path, _BROKERS | _TLS, "worker.json")
    assert (found.kafka, found.of_worker, found.warnings) == (plain.kafka, plain.of_worker, ())
    for role in _ROLES:
        with pytest.raises(InvalidConfiguration):
            read(tmp_path, _BROKERS | _TLS | {option: nearer, f"{role}.{option}": farther}, "worker.json")


@pytest.mark.parametrize("name", _NAMES)
def test_another_vendors_sink_has_its_converters_and_its_group(name: str, tmp_path: Path) -> None:
    """Where it would begin, and what is in its records, is decided there."""
    worker = _BROKERS | {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "consumer.group.id": "archives",
        "consumer.isolation.level": "read_uncommitted",
    }
    found = read(tmp_path, worker, name, _AIVEN_SINK)

    assert found.sink is not None
    assert found.sink.group_id == "archives"
    assert found.sink.reading.isolation == "read_uncommitted"


@pytest.mark.parametrize("text", ["{", "[]", '{"bootstrap.servers": ["broker:9092"]}', '{"a": {}}'])
@pytest.mark.parametrize("name", ["worker.json", "worker"])
def test_json_that_cannot_be_read_is_refused(name: str, text: str, tmp_path: Path) -> None:
    """With the file's name. A text without a brace and without an end to its name is `.properties`."""
    if name == "worker" and text == "[]":
        text = " {[]"
    (tmp_path / name).write_text(text)
    (tmp_path / "connector.json").write_text(json.dumps(_SOURCE | _BROKERS))

    with pytest.raises(InvalidConfiguration, match=rf"--worker-config .*{name}: The worker's file "):
        read_settings(tmp_path / "connector.json", sets=(), worker_config=tmp_path / name)


@pytest.mark.parametrize("name", _NAMES)
def test_a_worker_reads_the_same_file(name: str, tmp_path: Path) -> None:
    """`headrace worker FILE`."""
    read(tmp_path, _BROKERS | {"group.id": "workers"}, name)

    found = worker_settings(tmp_path / name)
    assert (found.group, found.frame.kafka.bootstrap_servers) == ("workers", "broker:9092")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sasl.password:hunter2", "--set sasl.password: expected option=value."),
        ("sasl.password hunter2", "--set sasl.password: expected option=value."),
        ("sasl.password:aHVudGVyMg==", "--set sasl.password: expected option=value."),
        ("topic", "--set topic: expected option=value."),
        ("=hunter2", "--set: expected option=value."),
    ],
)
def test_what_is_no_assignment_is_told_by_its_name_alone(text: str, said: str) -> None:
    """The rest may be the secret."""
    with pytest.raises(InvalidConfiguration) as caught:
        assignments([text])

    assert str(caught.value) == said


def test_standard_input_is_one_file() -> None:
    """Read as the configuration, it left an empty worker's file."""
    with pytest.raises(InvalidConfiguration, match="name the file of --worker-config"):
        read_settings(Path("-"), sets=(), worker_config=Path("-"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("worker.properties", "bootstrap.servers=b:1\ngroup.id=w\nconfig.storage.topic=c\n"),
        ("worker.json", '{"bootstrap.servers": "b:1", "listeners": "http://localhost:8083"}'),
    ],
)
def test_a_worker_s_file_in_the_place_of_a_connector_s_is_named(name: str, text: str, tmp_path: Path) -> None:
    """Its missing options are no help: another command runs it."""
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InvalidConfiguration) as caught:
        read_settings(file, sets=(), worker_config=None)
    assert str(caught.value).startswith(f"{file} is a worker's file: `headrace worker {file}` runs it")


def test_a_connector_s_file_with_an_option_of_workers_is_not_taken_for_one(tmp_path: Path) -> None:
    """Such as one of Connect's standalone mode: the misspelled option is the problem."""
    file = tmp_path / "connector.properties"
    file.write_text("name=n\naws.s3.bucket.nam=bucket\nbootstrap.servers=b:1\ntopic=t\nplugin.path=/x\n")
    with pytest.raises(InvalidConfiguration, match=r"aws\.s3\.bucket\.nam.*did you mean"):
        read_settings(file, sets=(), worker_config=None)
