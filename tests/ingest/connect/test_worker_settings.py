"""A worker's file: Connect's worker.properties as it stands, or JSON."""

import json

import pytest

from headrace.model.errors import InvalidConfiguration
from headrace.options import SettingsError
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
        ("bootstrap.servers=b:1\nlisteners=https://:8443", False, "only http:// is served"),
        ("bootstrap.servers=b:1\nlisteners=http://h:port", False, "expected http://HOST:PORT"),
        ("bootstrap.servers=b:1\nlisteners=127.0.0.1:8083", False, "expected http://HOST:PORT"),
        ("bootstrap.servers=b:1\nrest.listen=", False, "rest.listen = '': expected HOST:PORT"),
        ("bootstrap.servers=b:1\nrest.listen=8083", False, "rest.listen = '8083': expected HOST:PORT"),
        ("bootstrap.servers=b:1\nsession.timeout.ms=soon", False, "session.timeout.ms = 'soon'"),
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
