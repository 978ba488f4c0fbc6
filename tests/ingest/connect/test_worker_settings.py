"""A worker's file: Connect's worker.properties as it stands, or JSON."""

import json

import pytest

from headrace.model.errors import InvalidConfiguration
from headrace.options import SettingsError
from headrace.options.configuration_text import parse_properties
from headrace.vendors.load import load
from ingest.connect.worker_settings import WorkerSettings, read_worker

CONNECT = r"""
# as Connect ships it
bootstrap.servers=broker:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
config.storage.topic=headrace-configs
config.storage.replication.factor=-1
status.storage.topic=connect-status
offset.flush.interval.ms=10000
listeners=HTTPS://:8443,http://localhost:8093
plugin.path=/usr/share/java
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  username="user" password="pass\\word=";
producer.security.protocol=SASL_SSL
"""


CONNECTOR = {"name": "c", "aws.s3.bucket.name": "uploads", "topic": "t", "file.name.template": ".*"}


def read(text: str, *, is_json: bool = False) -> WorkerSettings:
    """The settings of a text."""
    return read_worker(text, is_json=is_json, environment={}, read_file=str)


def test_connects_own_file_is_read() -> None:
    """What has a meaning here is taken, the rest is one warning."""
    found = read(CONNECT)

    assert (found.group, found.topic, found.replication_factor) == (
        "connect-cluster",
        "headrace-configs",
        None,
    )
    assert str(found.frame.http.rest_listen) == "localhost:8093"
    assert found.frame.kafka.bootstrap_servers == "broker:9092"
    assert found.frame.kafka.client("producer")["sasl.password"] == "password="
    (warning,) = found.warnings
    for name in ("offset.storage.topic", "plugin.path", "status.storage.topic"):
        assert name in warning
    assert "key.converter" not in warning


def test_little_is_needed() -> None:
    """JSON as well; on loopback unless it says otherwise."""
    found = read(json.dumps({"bootstrap.servers": "b:9092", "session.timeout.ms": 6000}), is_json=True)

    assert (found.group, found.topic) == ("headrace-workers", "headrace-workers-configs")
    assert (found.session_timeout_ms, found.name) == (6000, "worker-headrace-workers")
    assert str(found.frame.http.rest_listen) == "127.0.0.1:8083"
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("text", "is_json", "said"),
    [
        ("{", True, "cannot be read"),
        ("[]", True, "one JSON object"),
        ('{"a": {}}', True, "one JSON object"),
        ('{"a": []}', True, "one JSON object"),
        ("[" * 100_000, True, "nested too deeply"),
        ("bootstrap.servers=b:1\nlisteners=https://:8443", False, "only http:// is served"),
        ("bootstrap.servers=b:1\nlisteners=http://h:port", False, "expected http://HOST:PORT"),
        ("bootstrap.servers=b:1\nlisteners=127.0.0.1:8083", False, "expected http://HOST:PORT"),
        ("bootstrap.servers=b:1\nlisteners=http://h:0", False, "expected http://HOST:PORT"),
        (
            '{"name": "x", "config": {"topics": "t"}}',
            True,
            "is the configuration of a connector (config)",
        ),
        (
            "name=x\nconnector.class=HeadraceSink\nbootstrap.servers=b:1",
            False,
            "(connector.class): create it",
        ),
        ('{"name": "x", "topic": "t", "aws.s3.bucket.name": "b"}', True, "`headrace run` runs it alone"),
        ("bootstrap.servers=b:1\nrest.listen=", False, "rest.listen = '': expected HOST:PORT"),
        ("bootstrap.servers=b:1\nrest.listen=8083", False, "rest.listen = '8083': expected HOST:PORT"),
        ("bootstrap.servers=b:1\nsession.timeout.ms=soon", False, "session.timeout.ms = 'soon'"),
        ("bootstrap.servers=b:1\nsession.timeout.ms=1", False, "from 6,000 to 1,800,000"),
        ("bootstrap.servers=b:1\nrest.advertised.port=99999", False, "rest.advertised.port = '99999'"),
        ("bootstrap.servers=b:1\nconfig.storage.replication.factor=0", False, "factor = '0': expected"),
        ("bootstrap.servers=b:1\ngroup.id=", False, "group.id = '': expected a text that is not empty"),
        (
            "bootstrap.servers=b:1\nconfig.storage.topic=",
            False,
            "config.storage.topic = '': expected a topic",
        ),
        ("bootstrap.servers=b:1\nconfig.storage.topic=a b", False, "config.storage.topic = 'a b': expected"),
        ("bootstrap.servers=b:1\ngroup.id=a b", False, "config.storage.topic = 'a b-configs' (by group.id)"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(text: str, *, is_json: bool, said: str) -> None:
    """It names the option and the form."""
    with pytest.raises(InvalidConfiguration) as raised:
        read(text, is_json=is_json)

    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("group.id=x", "bootstrap.servers"),
        ("bootstrap.servers=b:1\nlisteners=http://:8083", "rest.auth.file"),
    ],
)
def test_options_that_are_the_processs_are_judged_as_for_a_run(text: str, said: str) -> None:
    """By the same reader."""
    with pytest.raises(SettingsError) as raised:
        read(text)

    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["listeners=http://0.0.0.0:8083"], "listeners = 'http://0.0.0.0:8083': reaches beyond"),
        (
            ["listeners=http://127.0.0.1:81", "http.listen=127.0.0.1:81"],
            "listeners = 'http://127.0.0.1:81': is",
        ),
        (["listeners=http://:1", "rest.listen=0.0.0.0:8083"], "rest.listen = '0.0.0.0:8083': reaches beyond"),
        (["http.listen=127.0.0.1:8083"], "rest.listen = '127.0.0.1:8083': is http.listen as well"),
    ],
)
def test_a_problem_names_the_option_that_was_given(lines: list[str], named: str) -> None:
    """Nobody looks for `rest.listen` in a file that has `listeners`."""
    with pytest.raises(SettingsError) as raised:
        read("\n".join(["bootstrap.servers=b:1", *lines]))

    assert str(raised.value).startswith(f"The configuration has a problem: {named}")


def test_what_nothing_depends_on_is_named() -> None:
    """Connectors take log-in, TLS and how sinks read from it; every other line is in the warning."""
    lines = [
        "group.id=x",
        "group.id=y",
        "producer.acks=1",
        "consumer.session.timeout.ms=300000",
        "consumer.auto.offset.reset=latest",
        "producer.ssl.ca.location=/x",
        "producer.max.request.size=1048576",
    ]
    found = read("\n".join(["bootstrap.servers=b:1", *lines]))
    assert found.group == "y"
    idle = ["consumer.session.timeout.ms", "producer.acks", "producer.max.request.size"]
    assert found.warnings == (
        f"accepted without a meaning here: {', '.join(idle)}",
        "given twice, and the last counts: group.id",
    )


def test_a_connectors_configuration_may_be_larger_than_usual() -> None:
    """It is one record: where the topic's limit is raised, the error names this option as the other one."""
    found = read("bootstrap.servers=b:1\nproducer.max.request.size=3000000\n")
    assert found.frame.kafka.client("producer")["message.max.bytes"] == "3000000"
    assert found.warnings == ()


_SASL = {
    "bootstrap.servers": "b:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u ",
}


def _escaped(value: str) -> str:
    """A value as `.properties` have one with a blank first."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ", 1).replace("\t", "\\t").replace("\f", "\\f")


@pytest.mark.parametrize("password", [" p ", "  p", "p  ", "\tp\f", "\fp", "\\ p", " "])
@pytest.mark.parametrize("is_json", [True, False])
def test_a_passwords_blanks_are_its_own(password: str, *, is_json: bool) -> None:
    """Of the worker's clients and of connectors that leave it out; elsewhere they mean nothing."""
    given = {**_SASL, "sasl.password": password}
    lines = "".join(f"{name}={_escaped(value)}\n" for name, value in given.items())
    found = read(json.dumps(given) if is_json else lines, is_json=is_json)

    connector = load(
        json.dumps(CONNECTOR), worker_config=found.text, kind="json", environment={}, read_file=str
    )
    for settings in (found.frame, connector):
        client = settings.kafka.client("producer")
        assert (client["sasl.username"], client["sasl.password"]) == ("u", password)


def test_blanks_of_what_kafka_knows_mean_nothing() -> None:
    """It cuts them off from secrets too, but for the password in the quotes of JAAS."""
    token = "sasl.oauthbearer.client.credentials.client"
    given = {
        "bootstrap.servers": "b:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        f"{token}.id": "me ",
        f"{token}.secret": "shh ",
    }
    client = read(json.dumps(given), is_json=True).frame.kafka.client("producer")
    assert (client["sasl.oauthbearer.client.id"], client["sasl.oauthbearer.client.secret"]) == ("me", "shh")


def test_an_option_given_twice_is_named_in_json_too() -> None:
    """The last one counts, as everywhere in a worker's file."""
    found = read('{"bootstrap.servers": "b:1", "group.id": "x", "group.id": "y"}', is_json=True)
    assert (found.group, found.warnings) == ("y", ("given twice, and the last counts: group.id",))
    found = read('{"bootstrap.servers": "b:1", "group.id": "x", "group.id": null}', is_json=True)
    assert found.group == "headrace-workers"


def test_names_of_any_signs_stay_what_they_are() -> None:
    """The file is handed on as `.properties`, where `#` and `!` would begin a comment."""
    given = {"bootstrap.servers": "b:1", "#a": "1", "!b": "2", "c d=e:f": "g=#h", "i": "\\j\n k"}
    assert dict(parse_properties(read(json.dumps(given), is_json=True).text)) == given


@pytest.mark.parametrize(
    ("named", "origins", "said"),
    [
        ("", set(), []),
        ("http://ui.example:8000", {"http://ui.example:8000"}, []),
        ("HTTP://UI.example:80/ , https://[::1]:443", {"http://ui.example", "https://[::1]"}, []),
        ("https://u:s3cret@a", set(), ["has 'https://***@a', which lets no page in"]),
        ("https://b\u00fccher.example,http://[0::1]", {"https://xn--bcher-kva.example", "http://[::1]"}, []),
        ("${env:UI}", {"https://ui.example"}, []),
        (
            "${env:UI},${env:WORD}",
            {"https://ui.example"},
            ["has '${env:UI},${env:WORD}', which lets"],
        ),
        ("${env:GONE}", set(), ["= '${env:GONE}' lets no page in: "]),
        *(
            (
                f"https://a,{wrong}",
                {"https://a"},
                [f"has {wrong!r}, which lets no page in: expected scheme://"],
            )
            for wrong in (
                "ui.example",
                "ui.example:8000",
                "*",
                "null",
                "https://*.example",
                "https://a/ui",
                "http://a:x",
                "http://[",
                "http://",
            )
        ),
    ],
)
def test_whose_pages_may_steer(named: str, origins: set[str], said: list[str]) -> None:
    """Connect's option: what cannot be an origin lets none in, and refuses no file that was taken before."""
    found = read_worker(
        f"bootstrap.servers=b:1\naccess.control.allow.origin={named}\n",
        is_json=False,
        environment={"UI": "https://ui.example", "WORD": "s3cret-token"},
        read_file=str,
    )

    assert found.origins == origins
    assert len(found.warnings) == len(said)
    for warning, words in zip(found.warnings, said, strict=True):
        assert warning.startswith(f"access.control.allow.origin {words}")
